"""Stacks of layers, other ways to run the same layers, and ensembles of stacks, as plain data."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

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


class HyperConnectionsStructure(StackStructure):
    """A stack with hyper-connections in place of its residual ones (Zhu et al. 2024).

    n copies of the residual stream: each layer reads a weighted sum of them, they are mixed among themselves, and each
    takes up the layer's output with a weight of its own. At the start all weights are those of the plain stack.

    Attributes:
        streams: Number of copies, n.
        dynamic: Weights depend on the position's own content (the paper's DHC); else they are parameters (SHC).
        others: As in ``StackStructure``; connections are tied over repeats, as layers are.
    """

    streams: int = Field(default=4, ge=1, le=64)
    dynamic: bool = False

    @model_validator(mode="after")
    def _layers_have_outputs_of_their_own(self) -> Self:
        if not self.residual:
            raise ValueError("hyper-connections take the place of residual ones; leave residual out")
        return self


class RecursionStructure(Settings):
    """One block that samples pass as many times as a router says (after Mixture-of-Recursions, Bae et al. 2025).

    Token-choice of the paper, for whole samples: before the first pass the router decides on 1 to N passes, and
    p (block(x) - x) is added to x in each of them, with p the probability of that decision.

    Attributes:
        width: Channels d.
        layers: Layers of the block.
        most: Number of passes at most, N.
        iteration_embedding: The number of the pass is embedded in its input.
        balance: Weight of the loss on unequal numbers of samples by number of passes (Switch, eqs. 4 to 6).
        others: As in ``StackStructure``. Decisions are for whole samples, so that it cannot be causal.
    """

    width: int = Field(default=64, ge=4, le=65536)
    layers: tuple[Layer, ...] = Field(default=(TransformerLayer(),), min_length=1, max_length=1024)
    most: int = Field(default=3, ge=1, le=256)
    iteration_embedding: bool = False
    balance: float = Field(default=0.01, ge=0)
    input_blocks: int = Field(default=1, ge=0, le=16)
    output_blocks: int = Field(default=1, ge=0, le=16)
    canvas: Literal["segments", "latents", "pad"] = "segments"
    slots: int = Field(default=16, ge=1, le=4096)
    missing: bool = False
