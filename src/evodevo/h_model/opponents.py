"""Stacks to compare an H-Model with: the same layers in a fixed order."""

from __future__ import annotations

from evodevo.h_model.spec import HModelStructure
from evodevo.networks.stacks.spec import StackStructure
from evodevo.operators.layers.base import LayerSpec


def parameter_matched(structure: HModelStructure) -> StackStructure:
    """The transformer Tr(I + H + O): each layer of the H-Model once (docs/spec/h_model.md#fair-comparison)."""
    return _stack(structure, structure.hidden)


def compute_matched(structure: HModelStructure) -> StackStructure:
    """The transformer Tr(I + H T + O): as many layers as the H-Model runs in one pass.

    In a carried stream these are M in each iteration, whichever they are; here they are taken in order, over and over.
    """
    every = structure.hidden * structure.iterations
    run = structure.carried.most * structure.iterations if structure.stream == "carried" else len(every)
    return _stack(structure, every[:run])


def universal(structure: HModelStructure) -> StackStructure:
    """The weight-tied stack: the H-Model's layers in order, T times."""
    if structure.iterations == 0:
        return _stack(structure, ())
    tied = {"repeats": structure.iterations, "iteration_embedding": True}
    return _stack(structure, structure.hidden).model_copy(update=tied)


def _stack(structure: HModelStructure, layers: tuple[LayerSpec, ...]) -> StackStructure:
    return StackStructure(
        width=structure.width,
        layers=layers,
        causal=structure.causal,
        input_blocks=structure.input_blocks,
        output_blocks=structure.output_blocks,
        canvas=structure.canvas,
        slots=structure.slots,
        missing=structure.missing,
    )
