"""A vision transformer as a row of components: the structure of a path that reads images, as plain data, and its cost.

µNet (2205.10937) and µ4Net (2302.02721); docs/spec/munet.md#architecture. ``multitask/paths/vision/model.py`` builds
exactly the parameters that are stated here; tests recount them, and the products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from evodevo.multitask.paths.blocks_spec import (
    EMBEDDING,
    BlockStructure,
    parameters_by_role,
    work_behind_embedding,
)
from evodevo.operators.cost import Work

KIND = "vision_path"


class VisionStructure(BlockStructure):
    """A path of kind ``vision_path``; see ``BlockStructure`` for what it shares with others.

    Attributes:
        image_size: height and width of the images, in pixels.
        patch: height and width of a patch, which becomes one token, in pixels.
        channels: channels of the images.
    """

    image_size: int = Field(ge=1, le=4096)
    patch: int = Field(default=16, ge=1, le=1024)
    channels: Literal[1, 3] = 3

    @model_validator(mode="after")
    def _patches_fit(self) -> Self:
        if self.image_size % self.patch:
            near = max(self.patch, self.image_size // self.patch * self.patch)
            raise ValueError(
                f"images of {self.image_size} pixels cannot be cut into patches of {self.patch}; take {near}"
            )
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
    def input_spec(self) -> dict[str, Any]:
        return {
            "modality": "image",
            "size": [self.image_size, self.image_size],
            "channels": self.channels,
            "range": [-1, 1],
            "resize": "bilinear",
        }

    def front(self, role: str) -> dict[str, Any]:
        return {"patch": self.patch, "channels": self.channels} if role == EMBEDDING else {"grid": self.grid}


PRESETS: Mapping[str, VisionStructure] = {
    "tiny": VisionStructure(width=32, heads=2, hidden=64, layers=3, image_size=16, patch=4),
    "Ti3": VisionStructure(width=192, heads=3, hidden=768, layers=3, image_size=32),
    "Ti": VisionStructure(width=192, heads=3, hidden=768, layers=12, image_size=224),
    "B": VisionStructure(width=768, heads=12, hidden=3072, layers=12, image_size=80),
    "L": VisionStructure(width=1024, heads=16, hidden=4096, layers=24, image_size=384),
}
"""Name -> a headless structure. ``Ti3``, ``B`` and ``L`` are µNet's, at its image sizes; ``Ti`` is
the whole ViT-Ti/16; ``tiny`` is for tests and for images as small as scikit-learn's digits."""

HYPERPARAMETERS: Mapping[str, str] = {"num_layers": "layers", "ds_image_size": "image_size"}
"""Hyperparameter of a path -> the field of its structure that it decides."""


def role_parameters(structure: VisionStructure) -> dict[str, int]:
    """Role -> parameters of its component.

    Raises:
        UsageError: a block is a layer that does not exist at this width.
    """
    return parameters_by_role(structure, (structure.channels * structure.patch**2 + 1) * structure.width)


def path_parameters(structure: VisionStructure) -> int:
    """All of them."""
    return sum(role_parameters(structure).values())


def path_work(structure: VisionStructure) -> Work:
    """FLOPs of one sample, as this implementation computes them (a multiply-add counts two).

    Source: docs/spec/munet.md#score.
    """
    patches = 2 * (structure.tokens - 1) * structure.channels * structure.patch**2 * structure.width
    return Work(patches) + work_behind_embedding(structure)


def path_flops(structure: VisionStructure) -> int:
    """Products and the rest of ``path_work``."""
    return path_work(structure).total
