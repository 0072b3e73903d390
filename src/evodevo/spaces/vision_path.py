"""A vision transformer as a row of components: the structure of a path that looks at images, as plain data.

µNet (2205.10937) and µ4Net (2302.02721); specification ``munet.md`` 2.1. ``models/vision_path.py`` builds the parts,
``spaces/vision_path_cost.py`` states what they cost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.settings import Settings, validate

# Layers may be H-Models and modules of a zoo; their classes are completed where those are described.
from evodevo.spaces import h_model_structure as _complete  # noqa: F401
from evodevo.spaces.layers import Layer
from evodevo.spaces.path import Path

PathActivation = Literal["gelu_tanh", "gelu", "relu", "silu"]
EMBEDDING, CLASS_TOKEN, POSITIONS, NORM, HEAD = "embedding", "cls", "posembed_input", "encoder_norm", "head"
BLOCK, ADAPTER = "encoderblock_", "residual_adapter_"
_NUMBERED = re.compile(rf"(?:{BLOCK}|{ADAPTER})(?:0|[1-9][0-9]{{0,3}})", re.ASCII)


class VisionBlock(Settings):
    """A pre-norm transformer block: attention and a feed-forward network, each with its norm and residual.

    Attributes:
        heads: of attention.
        key_width: channels of a query and of a key, in each head.
        value_width: channels of a value, in each head.
        hidden: units of the feed-forward network.
    """

    kind: Literal["vit"] = "vit"
    heads: int = Field(ge=1, le=1024)
    key_width: int = Field(ge=1, le=65536)
    value_width: int = Field(ge=1, le=65536)
    hidden: int = Field(ge=1, le=1 << 20)


AnyBlock = Annotated[VisionBlock | Layer, Field(discriminator="kind")]


class VisionStructure(Settings):
    """A path of kind ``vision_path``.

    Attributes:
        width: channels h of a token.
        heads, hidden: of a block that ``blocks`` does not describe; its keys and values have width / heads channels.
        layers: blocks that a sample passes.
        image_size: height and width of the images, in pixels.
        patch: height and width of what becomes one token.
        channels: of the images.
        classes: that the head tells apart; 0 is headless, and the answer is the class token.
        blocks: role ("encoderblock_2") -> another block, or any layer of the library. One that is above ``layers``
            waits there for the day when the layer comes back.
        adapters: role ("residual_adapter_2", before block 2) -> inner width.
        activation: of the feed-forward networks and adapters.
        norm_epsilon: of every norm.
    """

    width: int = Field(ge=1, le=65536)
    heads: int = Field(ge=1, le=1024)
    hidden: int = Field(ge=1, le=1 << 20)
    layers: int = Field(ge=0, le=1024)
    image_size: int = Field(ge=1, le=4096)
    patch: int = Field(default=16, ge=1, le=1024)
    channels: Literal[1, 3] = 3
    classes: int = Field(default=0, ge=0, le=1 << 24)
    blocks: dict[str, AnyBlock] = Field(default_factory=dict)
    adapters: dict[str, Annotated[int, Field(ge=1, le=65536)]] = Field(default_factory=dict)
    activation: PathActivation = "gelu_tanh"
    norm_epsilon: float = Field(default=1e-6, gt=0, le=1e-2)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"{self.heads} attention heads do not divide the width {self.width}")
        if self.image_size % self.patch:
            near = max(self.patch, self.image_size // self.patch * self.patch)
            raise ValueError(
                f"images of {self.image_size} pixels cannot be cut into patches of {self.patch}; take {near}"
            )
        for name, prefix in (("blocks", BLOCK), ("adapters", ADAPTER)):
            for role in getattr(self, name):
                if not (role.startswith(prefix) and _NUMBERED.fullmatch(role)):
                    raise ValueError(f"{name} has the key {role!r}; keys are {prefix}0, {prefix}1, ...")
        return self

    @property
    def grid(self) -> int:
        """Patches in a row."""
        return self.image_size // self.patch

    @property
    def tokens(self) -> int:
        """Patches and the class token."""
        return 1 + self.grid**2

    @property
    def roles(self) -> tuple[str, ...]:
        """Of the components, in the order in which a sample passes them."""
        inside: list[str] = []
        for number in range(self.layers):
            inside += [f"{ADAPTER}{number}"] * (f"{ADAPTER}{number}" in self.adapters) + [f"{BLOCK}{number}"]
        return (EMBEDDING, CLASS_TOKEN, POSITIONS, *inside, NORM, *([HEAD] if self.classes else []))

    @property
    def input_spec(self) -> dict[str, Any]:
        """What the path makes of a task's bytes before its first component; part of what a path is known by."""
        return {
            "modality": "image",
            "size": [self.image_size, self.image_size],
            "channels": self.channels,
            "range": [-1, 1],
            "resize": "bilinear",
        }

    def block(self, role: str) -> VisionBlock | Layer:
        """The description of a block, whether or not a sample passes it."""
        return self.blocks.get(role, self.plain_block)

    @property
    def plain_block(self) -> VisionBlock:
        """What a block is where nothing else is said."""
        part = self.width // self.heads
        return VisionBlock(heads=self.heads, key_width=part, value_width=part, hidden=self.hidden)

    def changed(self, **values: Any) -> VisionStructure:
        """The structure with other values, checked.

        Raises:
            UsageError: they do not fit.
        """
        return validate(VisionStructure, {**self.model_dump(mode="json"), **values}, what="structure of the path")

    def signature(self, role: str) -> dict[str, Any]:
        """All that decides whether a component fits here: it fits where it had an equal signature.

        Raises:
            UsageError: no such role in this structure.
        """
        if role not in self.roles:
            raise UsageError(f"a path of {self.layers} layers has no component {role!r}; it has {list(self.roles)}.")
        own: dict[str, Any] = {"width": self.width}
        if role == EMBEDDING:
            return own | {"patch": self.patch, "channels": self.channels}
        if role == POSITIONS:
            return own | {"grid": self.grid}
        if role == HEAD:
            return own | {"classes": self.classes}
        if role == NORM:
            return own | {"epsilon": self.norm_epsilon}
        if role.startswith(ADAPTER):
            return own | self._inside() | {"inner": self.adapters[role]}
        if role.startswith(BLOCK):
            block = self.block(role)
            return (
                own
                | {"block": block.model_dump(mode="json")}
                | (self._inside() if isinstance(block, VisionBlock) else {})
            )
        return own

    def _inside(self) -> dict[str, Any]:
        return {"activation": self.activation, "epsilon": self.norm_epsilon}


PRESETS: Mapping[str, VisionStructure] = {
    "tiny": VisionStructure(width=32, heads=2, hidden=64, layers=3, image_size=16, patch=4),
    "Ti3": VisionStructure(width=192, heads=3, hidden=768, layers=3, image_size=32),
    "Ti": VisionStructure(width=192, heads=3, hidden=768, layers=12, image_size=224),
    "B": VisionStructure(width=768, heads=12, hidden=3072, layers=12, image_size=80),
    "L": VisionStructure(width=1024, heads=16, hidden=4096, layers=24, image_size=384),
}
"""Name -> a headless structure. ``Ti3``, ``B`` and ``L`` are µNet's, at its image sizes (specification 2.2); ``Ti`` is
the whole ViT-Ti/16; ``tiny`` is for tests and for images as small as scikit-learn's digits."""

HYPERPARAMETERS: Mapping[str, str] = {"num_layers": "layers", "ds_image_size": "image_size"}
"""Hyperparameter of a path -> the field of its structure that it decides."""


def structure_of(path: Path) -> VisionStructure:
    """The structure of a path: what is stored, with what its hyperparameters and its task say of it.

    Args:
        path: ``num_layers`` and ``ds_image_size`` among its hyperparameters win over the stored structure.

    Raises:
        UsageError: it is of another kind, or makes no sense.
    """
    if path.kind != "vision_path":
        raise UsageError(f"the path {path.id} is of kind {path.kind!r}, not 'vision_path'.")
    said = {field: path.hparams[key] for key, field in HYPERPARAMETERS.items() if key in path.hparams}
    return validate(VisionStructure, {**path.structure, **said, "classes": path.classes}, what=f"path {path.id}")
