"""From the description of a layer to a layer: one dispatch table.

A layer is a whole block (norm and residual inside) with the contract of ``operators.base.Operator``; a row of its mask
may be without any true, and gives finite numbers then.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from evodevo.operators.block import Block
from evodevo.operators.feed_forward import FeedForward
from evodevo.operators.transformer import TransformerBlock
from evodevo.registry import Registry, table
from evodevo.spaces.layers import Layer, MLPLayer, TransformerLayer

Builder = Callable[..., nn.Module]
LAYERS: Registry[Builder] = table("layer", "evodevo.layers")
"""Kind -> ``build(spec, width, *, causal, residual) -> layer``."""


def build_layer(spec: Layer, width: int, *, causal: bool, residual: bool = True) -> nn.Module:
    """The layer of a description, with parameters from the global random stream.

    Args:
        spec: what to build.
        width: channels d of the messages.
        causal: no position hears of later ones.
        residual: false takes the layer's residual connections away.

    Raises:
        UsageError: an unknown kind, sizes that do not fit, or a layer that cannot be causal.
    """
    return LAYERS.get(spec.kind)(spec, spec.width or width, causal=causal, residual=residual)


def _transformer(spec: TransformerLayer, width: int, *, causal: bool, residual: bool) -> nn.Module:
    feedforward = spec.feedforward or 2 * width
    return TransformerBlock(width, spec.heads, feedforward, causal=causal, dropout=spec.dropout, residual=residual)


def _mlp(spec: MLPLayer, width: int, *, causal: bool, residual: bool) -> nn.Module:
    return Block(FeedForward(width, spec.hidden or 2 * width, dropout=spec.dropout), width, residual=residual)


LAYERS.add("transformer", _transformer)
LAYERS.add("mlp", _mlp)
