"""Stacks of layers and ensembles of stacks as plain data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evodevo.operators.layers.base import Layer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.settings import Settings


class StackStructure(Settings):
    """Layers one after the other, the same inputs and outputs as an H-Model's around them.

    A transformer of n layers; with ``repeats`` above 1 the layers are tied over time (Universal Transformer, Dehghani
    et al. 2019), with ``iteration_embedding`` the repeat's number is embedded.

    Attributes:
        width: channels d.
        layers: layers in order; none is allowed.
        repeats: number of runs of the whole stack.
        residual: false takes the blocks' own residual connections away.
        others: as in ``HModelStructure``.
    """

    width: int = Field(default=64, ge=4, le=65536)
    layers: tuple[Layer, ...] = Field(default=(TransformerLayer(),) * 4, max_length=1024)
    repeats: int = Field(default=1, ge=1, le=256)
    causal: bool = False
    residual: bool = True
    iteration_embedding: bool = False
    input_blocks: int = Field(default=1, ge=0, le=16)
    output_blocks: int = Field(default=1, ge=0, le=16)
    canvas: Literal["segments", "latents", "pad"] = "segments"
    slots: int = Field(default=16, ge=1, le=4096)
    missing: bool = False


class EnsembleStructure(Settings):
    """Stacks that answer together: each reads the inputs for itself, and their logits are averaged.

    Attributes:
        members: the stacks, of any widths.
    """

    members: tuple[StackStructure, ...] = Field(default=(StackStructure(),) * 2, min_length=1, max_length=64)
