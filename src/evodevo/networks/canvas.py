"""Positions of a network's inputs and the sizes that costs depend on; models and costs must agree on them."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Literal, Protocol

PIXELS_TO_PATCH = ((16, 2), (32, 4), (64, 8))
Canvas = Literal["segments", "latents", "pad"]


class InputSizes(Protocol):
    """The part of ``tasks.inputs.InputSpec`` that a cost depends on."""

    @property
    def modality(self) -> Literal["tokens", "image", "vector", "features"]: ...
    @property
    def length(self) -> int: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def size(self) -> int: ...


class NamedInput(InputSizes, Protocol):
    """Likewise, where inputs of one network are read in different ways."""

    @property
    def name(self) -> str: ...


class OutputSizes(Protocol):
    """The part of ``tasks.base.OutputSpec`` that a cost depends on."""

    @property
    def kind(self) -> Literal["class", "labels", "tokens"]: ...
    @property
    def size(self) -> int: ...


def fitting_heads(width: int) -> int:
    """Attention heads for a block of this width: four, or fewer where four do not divide it."""
    return next(heads for heads in (4, 2, 1) if width % heads == 0)


def patch_size(spec: InputSizes) -> int:
    """Pixels along a side of a patch: at most 64 patches for images up to 64 x 64."""
    side = max(spec.height, spec.width)
    return next((patch for limit, patch in PIXELS_TO_PATCH if side <= limit), ceil(side / 8))


def input_length(spec: InputSizes) -> int:
    """Positions that an input takes."""
    if spec.modality in ("tokens", "features"):
        return spec.length
    if spec.modality == "image":
        patch = patch_size(spec)
        return ceil(spec.height / patch) * ceil(spec.width / patch)
    return 1


def canvas_length(inputs: Sequence[InputSizes], canvas: Canvas, slots: int) -> int:
    """Positions S on which all inputs meet (docs/spec/h_model.md#canvas)."""
    lengths = [input_length(spec) for spec in inputs]
    return {"segments": sum(lengths), "pad": max(lengths, default=0), "latents": slots}[canvas]
