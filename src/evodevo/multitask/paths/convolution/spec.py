"""A residual convolutional network as a row of components: the structure of the path, as plain data, and its cost.

Pre-activation residual blocks (He et al. 2016, 1603.05027) with group norm (Wu & He 2018, 1803.08494) instead of batch
norm: nothing is remembered of the samples of training, so that a frozen path answers each sample alone. A strided
convolution reads the image; each *stage* begins with a block that halves the resolution; features are averaged over a
coarse grid, so that an image of any size has a representation of the same width and keeps where things are. Narrow
residual blocks that change no answer at first may follow the others, which stay frozen: *adapters* (Rebuffi et al.
2017, 1705.08045, whose are 1 x 1 convolutions).
``multitask/paths/convolution/model.py`` builds exactly the parameters that are stated here; tests recount them, and
the products.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.multitask.hyperparameters import BLOCK_WIDTH, IMAGE_SIZE, NUM_LAYERS
from evodevo.multitask.paths.blocks_spec import (
    ADAPTER,
    BLOCK,
    EMBEDDING,
    HEAD,
    NORM,
    ComponentStructure,
)
from evodevo.operators.cost import Work
from evodevo.settings import Settings

KIND = "convolution_path"
HYPERPARAMETERS: Mapping[str, str] = {NUM_LAYERS: "layers", IMAGE_SIZE: "image_size", BLOCK_WIDTH: "inner"}
"""Hyperparameter of a path -> the field of its structure that it decides."""
KERNEL = 3
_NUMBERED = re.compile(rf"(?:{BLOCK}|{ADAPTER})(?:0|[1-9][0-9]{{0,3}})", re.ASCII)


class ConvolutionBlockSizes(Settings):
    """One residual block; ``x + conv(phi(norm(conv(phi(norm(x))))))``.

    Attributes:
        inputs, hidden, outputs: channels before, inside and behind it.
        stride: 2 halves the resolution; then, or where channels differ, a 1 x 1 convolution leads around it.
    """

    inputs: int
    hidden: int
    outputs: int
    stride: Literal[1, 2]

    @property
    def projects(self) -> bool:
        """Whether a convolution leads around it, instead of the input itself."""
        return self.stride > 1 or self.inputs != self.outputs

    @property
    def weights(self) -> dict[str, int]:
        """Convolution -> number of its weights, each of which multiplies once for each place of the output."""
        square = KERNEL**2
        around = {"around": self.inputs * self.outputs} if self.projects else {}
        return {"first": square * self.inputs * self.hidden, "second": square * self.hidden * self.outputs, **around}


class ConvolutionStructure(ComponentStructure):
    """A path of kind ``convolution_path``.

    Attributes:
        widths: channels of the first convolution and of each stage.
        layers: blocks that a sample passes: one for each stage, those beyond them at the last stage's resolution.
        image_size: height and width of the images, in pixels.
        inner: channels inside of a block, as a multiple of those that leave it.
        stride: step of the first convolution, in pixels.
        channels: channels of the images.
        adapters: channels inside of a further residual block behind each block, as a multiple of those that it reads;
            0 = there are none. None follows the first convolution, so that nothing before the first block is
            differentiated where all but adapters is frozen.
        grid: rows and columns of the grid over which features are averaged at the end.
        group: channels that a norm treats together; it divides all widths.
        classes: classes of the head; 0 is headless, and the answer is the representation.
        norm_epsilon: epsilon of every norm.
    """

    widths: tuple[int, ...] = Field(min_length=1, max_length=16)
    layers: int = Field(ge=0, le=1024)
    image_size: int = Field(ge=1, le=4096)
    inner: float = Field(default=1.0, gt=0, le=16)
    stride: int = Field(default=2, ge=1, le=16)
    channels: Literal[1, 3] = 3
    adapters: float = Field(default=0.0, ge=0, le=16, exclude_if=lambda value: not value)
    grid: int = Field(default=2, ge=1, le=64)
    group: int = Field(default=8, ge=1, le=1024)
    classes: int = Field(default=0, ge=0, le=1 << 24)
    norm_epsilon: float = Field(default=1e-5, gt=0, le=1e-2)

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        for width in self.widths:
            if not 1 <= width <= 65536 or width % self.group:
                raise ValueError(f"widths are multiples of group = {self.group}, up to 65536; got {width}")
        if self.layers < self.stages:
            raise ValueError(
                f"{self.stages} stages have a block each; got layers = {self.layers}. Name fewer widths, or more layers"
            )
        if self.sides[-1] < self.grid:
            raise ValueError(
                f"images of {self.image_size} pixels have {self.sides[-1]} places in a row behind {self.stages} stages,"
                f" fewer than grid = {self.grid}; take larger images"
            )
        return self

    @property
    def stages(self) -> int:
        """Number of stages, without the first convolution."""
        return len(self.widths) - 1

    @property
    def sides(self) -> tuple[int, ...]:
        """Places in a row behind the first convolution, and behind each stage."""
        sides = [-(-self.image_size // self.stride)]
        for _ in range(self.stages):
            sides.append(-(-sides[-1] // 2))
        return tuple(sides)

    @property
    def width(self) -> int:
        """Numbers of a representation."""
        return self.widths[-1] * self.grid**2

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the components, in the order in which a sample passes them."""
        kinds = (BLOCK, ADAPTER) if self.adapters else (BLOCK,)
        inside = [f"{kind}{number}" for number in range(self.layers) for kind in kinds]
        return (EMBEDDING, *inside, NORM, *([HEAD] if self.classes else []))

    @property
    def input_spec(self) -> dict[str, Any]:
        """Preparation of a task's bytes; part of a path's identity."""
        return {
            "modality": "image",
            "size": [self.image_size, self.image_size],
            "channels": self.channels,
            "range": [-1, 1],
            "resize": "bilinear",
        }

    def block(self, role: str) -> ConvolutionBlockSizes:
        """A block or adapter of the path by its role."""
        number = int(role.rpartition("_")[2])
        inputs, outputs = (self.widths[min(place, self.stages)] for place in (number, number + 1))
        if role.startswith(ADAPTER):
            hidden = self._hidden(outputs, self.adapters)
            return ConvolutionBlockSizes(inputs=outputs, hidden=hidden, outputs=outputs, stride=1)
        stride: Literal[1, 2] = 2 if number < self.stages else 1
        hidden = self._hidden(outputs, self.inner)
        return ConvolutionBlockSizes(inputs=inputs, hidden=hidden, outputs=outputs, stride=stride)

    def _hidden(self, width: int, share: float) -> int:
        """Channels inside of a block: a multiple of those of a norm's group."""
        return max(1, round(width * share / self.group)) * self.group

    def signature(self, role: str) -> dict[str, Any]:
        """All that decides whether a component fits here: it fits where it had an equal signature.

        Raises:
            UsageError: no such role in this structure.
        """
        if role not in self.roles:
            raise UsageError(f"a path of {self.layers} layers has no component {role!r}; it has {list(self.roles)}.")
        if role == EMBEDDING:
            return {"width": self.widths[0], "channels": self.channels, "stride": self.stride}
        if role == HEAD:
            return {"width": self.width, "classes": self.classes}
        norm = {"group": self.group, "epsilon": self.norm_epsilon}
        if role == NORM:  # what it gives is averaged over the grid
            return {"width": self.widths[-1], "grid": self.grid, **norm}
        return {"block": self.block(role).model_dump(mode="json"), **norm}


PRESETS: Mapping[str, ConvolutionStructure] = {
    "tiny": ConvolutionStructure(widths=(16, 24, 32), layers=2, image_size=32),
    "small": ConvolutionStructure(widths=(32, 64, 96), layers=2, image_size=32),
    "base": ConvolutionStructure(widths=(64, 128, 224), layers=2, image_size=32),
}
"""Name -> a headless structure: about 27,000, 205,000 and 1,020,000 parameters."""


def role_parameters(structure: ConvolutionStructure) -> dict[str, int]:
    """Role -> parameters of its component."""
    first, last = structure.widths[0], structure.widths[-1]
    whole = {
        EMBEDDING: (KERNEL**2 * structure.channels + 1) * first,
        NORM: 2 * last,
        HEAD: (structure.width + 1) * structure.classes,
    }
    blocks = {role: structure.block(role) for role in structure.roles if _NUMBERED.fullmatch(role)}
    # Each of the two norms has a factor and a shift for each channel.
    inside = {role: sum(one.weights.values()) + 2 * (one.inputs + one.hidden) for role, one in blocks.items()}
    return {role: inside[role] if role in inside else whole[role] for role in structure.roles}


def path_work(structure: ConvolutionStructure) -> Work:
    """FLOPs of one sample, as this implementation computes them (a multiply-add counts two)."""
    sides = structure.sides
    products = KERNEL**2 * structure.channels * structure.widths[0] * sides[0] ** 2
    for role in filter(_NUMBERED.fullmatch, structure.roles):
        side = sides[min(int(role.rpartition("_")[2]) + 1, structure.stages)]
        products += sum(structure.block(role).weights.values()) * side**2
    return Work(2 * (products + structure.width * structure.classes))
