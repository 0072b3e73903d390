"""From the description of a layer to a layer: one dispatch table.

A layer is a whole block (norm and residual inside) with the contract of ``operators.base.Operator``. A row of its mask
may be without any true; it gives finite numbers then.
"""

from __future__ import annotations

from collections.abc import Callable

from evodevo.errors import UsageError
from evodevo.operators.adapters import Adapted
from evodevo.operators.base import Operator
from evodevo.operators.block import Block
from evodevo.operators.both_ways import BothWays
from evodevo.operators.build import build_operator
from evodevo.operators.feed_forward import FeedForward
from evodevo.operators.layers.cost import liv_operator, pretrained_sizes
from evodevo.operators.layers.spec import (
    ConvolutionLayer,
    Layer,
    LIVLayer,
    LSTMLayer,
    MLPLayer,
    PretrainedLayer,
    TransformerLayer,
)
from evodevo.operators.local_convolution import LocalConvolution
from evodevo.operators.lstm import LSTM
from evodevo.operators.pretrained.layers import pretrained_block
from evodevo.operators.transformer import TransformerBlock
from evodevo.registry import Registry, table

Builder = Callable[..., Operator]
LAYERS: Registry[Builder] = table("layer", "evodevo.layers")
"""Kind -> ``build(spec, width, *, causal, residual) -> layer``; ``width`` is the one inside the adapters."""


def build_layer(spec: Layer, width: int, *, causal: bool, residual: bool = True) -> Operator:
    """The layer of a description, with parameters from the global random stream.

    Args:
        spec: what to build.
        width: channels d of the messages.
        causal: no position hears of later ones; such a layer streams.
        residual: false takes the layer's residual connections away.

    Raises:
        UsageError: an unknown kind, sizes that do not fit, or a layer that cannot be causal.
    """
    layer = LAYERS.get(spec.kind)(spec, spec.width or width, causal=causal, residual=residual)
    return layer if spec.width is None else Adapted(layer, width, spec.width)


def _transformer(spec: TransformerLayer, width: int, *, causal: bool, residual: bool) -> Operator:
    feedforward = spec.feedforward or 2 * width
    return TransformerBlock(width, spec.heads, feedforward, causal=causal, dropout=spec.dropout, residual=residual)


def _mlp(spec: MLPLayer, width: int, *, causal: bool, residual: bool) -> Operator:
    return Block(FeedForward(width, spec.hidden or 2 * width, dropout=spec.dropout), width, residual=residual)


def _convolution(spec: ConvolutionLayer, width: int, *, causal: bool, residual: bool) -> Operator:
    return Block(LocalConvolution(width, spec.kernel, causal=causal), width, residual=residual)


def _lstm(spec: LSTMLayer, width: int, *, causal: bool, residual: bool) -> Operator:
    return Block(LSTM(width, causal=causal), width, residual=residual)


def _liv(spec: LIVLayer, width: int, *, causal: bool, residual: bool) -> Operator:
    """LIVs are causal; where the model is not, two copies run both ways and are added."""
    compiled, dims = liv_operator(spec, width)
    if causal:
        return Block(build_operator(compiled, dims), width, residual=residual)
    both = BothWays(build_operator(compiled, dims), build_operator(compiled, dims))
    return Block(both, width, residual=residual)


def _pretrained(spec: PretrainedLayer, width: int, *, causal: bool, residual: bool) -> Operator:
    pretrained_sizes(spec, width)
    if causal:
        raise UsageError("pretrained encoder layers look both ways; a causal model cannot have them.")
    if not residual:
        raise UsageError("a pretrained layer was trained with its residuals; use other layers in this control.")
    return pretrained_block(spec.path, spec.index, train=spec.train, digest=spec.digest)


LAYERS.add("transformer", _transformer)
LAYERS.add("mlp", _mlp)
LAYERS.add("convolution", _convolution)
LAYERS.add("lstm", _lstm)
LAYERS.add("liv", _liv)
LAYERS.add("pretrained", _pretrained)
