"""Paths that are a row of blocks between an embedding and a head: what those of every modality have in common.

µNet (2205.10937) and µ4Net (2302.02721); docs/spec/munet.md#architecture. Tokens of a sample stand behind a class
token, which answers for it. ``blocks.py`` builds the parts, ``cost.py`` states what they
cost.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.multitask.genome import Path
from evodevo.operators.layers.base import LAYERS, LayerSpec
from evodevo.settings import RowOf, Settings, validate

PathActivation = Literal["gelu_tanh", "gelu", "relu", "silu"]
EMBEDDING, CLASS_TOKEN, POSITIONS, NORM, HEAD = "embedding", "cls", "posembed_input", "encoder_norm", "head"
BLOCK, ADAPTER = "encoderblock_", "residual_adapter_"
_NUMBERED = re.compile(rf"(?:{BLOCK}|{ADAPTER})(?:0|[1-9][0-9]{{0,3}})", re.ASCII)


class PathBlock(Settings):
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


AnyBlock = Annotated[PathBlock | LayerSpec, RowOf(LAYERS, also={"vit": PathBlock})]


class BlockStructure(Settings):
    """A path of blocks, whatever it reads.

    Attributes:
        width: channels h of a token.
        heads, hidden: of a block that ``blocks`` does not describe; its keys and values have width / heads channels.
        layers: blocks that a sample passes.
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
    classes: int = Field(default=0, ge=0, le=1 << 24)
    blocks: dict[str, AnyBlock] = Field(default_factory=dict)
    adapters: dict[str, Annotated[int, Field(ge=1, le=65536)]] = Field(default_factory=dict)
    activation: PathActivation = "gelu_tanh"
    norm_epsilon: float = Field(default=1e-6, gt=0, le=1e-2)

    @model_validator(mode="after")
    def _blocks_fit(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"{self.heads} attention heads do not divide the width {self.width}")
        for name, prefix in (("blocks", BLOCK), ("adapters", ADAPTER)):
            for role in getattr(self, name):
                if not (role.startswith(prefix) and _NUMBERED.fullmatch(role)):
                    raise ValueError(f"{name} has the key {role!r}; keys are {prefix}0, {prefix}1, ...")
        return self

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Of a sample at most, with the class token."""

    @property
    @abstractmethod
    def input_spec(self) -> dict[str, Any]:
        """What the path makes of a task's bytes before its first component; part of what a path is known by."""

    @abstractmethod
    def front(self, role: str) -> dict[str, Any]:
        """What decides, besides the width, whether an embedding or a table of positions fits."""

    @property
    def roles(self) -> tuple[str, ...]:
        """Of the components, in the order in which a sample passes them."""
        inside: list[str] = []
        for number in range(self.layers):
            inside += [f"{ADAPTER}{number}"] * (f"{ADAPTER}{number}" in self.adapters) + [f"{BLOCK}{number}"]
        return (EMBEDDING, CLASS_TOKEN, POSITIONS, *inside, NORM, *([HEAD] if self.classes else []))

    def block(self, role: str) -> PathBlock | LayerSpec:
        """The description of a block, whether or not a sample passes it."""
        return self.blocks.get(role, self.plain_block)

    @property
    def plain_block(self) -> PathBlock:
        """What a block is where nothing else is said."""
        part = self.width // self.heads
        return PathBlock(heads=self.heads, key_width=part, value_width=part, hidden=self.hidden)

    def changed(self, **values: Any) -> Self:
        """The structure with other values, checked.

        Raises:
            UsageError: they do not fit.
        """
        return validate(type(self), {**self.model_dump(mode="json"), **values}, what="structure of the path")

    def signature(self, role: str) -> dict[str, Any]:
        """All that decides whether a component fits here: it fits where it had an equal signature.

        Raises:
            UsageError: no such role in this structure.
        """
        if role not in self.roles:
            raise UsageError(f"a path of {self.layers} layers has no component {role!r}; it has {list(self.roles)}.")
        own: dict[str, Any] = {"width": self.width}
        if role in (EMBEDDING, POSITIONS):
            return own | self.front(role)
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
                | (self._inside() if isinstance(block, PathBlock) else {})
            )
        return own

    def _inside(self) -> dict[str, Any]:
        return {"activation": self.activation, "epsilon": self.norm_epsilon}


S = TypeVar("S", bound=BlockStructure)


def stored_structure(path: Path, kind: str, structure: type[S], fields: Mapping[str, str]) -> S:
    """The structure of a path: what is stored, with what its hyperparameters and its task say of it.

    Args:
        path: whose.
        kind: that it must be of.
        structure: class of the structures of this kind.
        fields: hyperparameter -> field of the structure that it decides.

    Raises:
        UsageError: it is of another kind, or makes no sense.
    """
    if path.kind != kind:
        raise UsageError(f"the path {path.id} is of kind {path.kind!r}, not {kind!r}.")
    said = {field: path.hparams[key] for key, field in fields.items() if key in path.hparams}
    return validate(structure, {**path.structure, **said, "classes": path.classes}, what=f"path {path.id}")
