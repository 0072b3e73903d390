"""Expressions of layers in generated files: blocks, adapters, both ways."""

from __future__ import annotations

from evodevo.operators.layers.base import LayerSpec
from evodevo.operators.source import layers
from evodevo.operators.source.sheet import SourceSheet


def layer_source(spec: LayerSpec, sheet: SourceSheet, width: int, *, causal: bool, residual: bool = True) -> str:
    """The expression that makes the module of ``build_layer`` with these arguments.

    Raises:
        UsageError: A kind of layer without source.
    """
    made = spec.source(sheet, spec.width or width, causal=causal, residual=residual)
    return made if spec.width is None else f"{sheet.add(layers.ADAPTED)}({made}, {width}, {spec.width})"


def block(sheet: SourceSheet, operator: str, width: int, *, residual: bool) -> str:
    """An operator behind a norm, with its residual connection or without."""
    return f"{sheet.add(layers.BLOCK if residual else layers.PLAIN_BLOCK)}({operator}, {width})"


def transformer_of(sheet: SourceSheet, *, causal: bool, residual: bool = True) -> str:
    """The class of transformer blocks."""
    attention = layers.CAUSAL_ATTENTION if causal else layers.ATTENTION
    return sheet.add(layers.transformer(attention, layers.BLOCK if residual else layers.PLAIN_BLOCK))


def both_ways(sheet: SourceSheet, operator: str) -> str:
    """Two copies of a causal operator, one over the reversed sequence."""
    return f"{sheet.add(layers.BOTH_WAYS)}({operator}, {operator})"
