"""The cost of a layer with its adapters: exact parameters, the work of one call on one sample, and its state.

The class of each kind states its own part; ``layers.build`` builds exactly these parameters, and a test recounts them
and the matrix products.

Legend: S positions, d width of the messages, d_i channels inside.
"""

from __future__ import annotations

from evodevo.operators.cost import Work
from evodevo.operators.layers.base import LayerSpec


def layer_parameters(spec: LayerSpec, width: int, causal: bool) -> int:
    """Parameters of a layer with its norms and adapters.

    Raises:
        UsageError: the layer does not exist at this width.
        NotFoundError, DataError: the configuration of a pretrained layer is not there or not readable.
    """
    inner = spec.width or width
    spec.check(inner)
    adapters = 0 if spec.width is None else 2 * width * inner + width + inner
    return adapters + spec.own_parameters(inner, causal)


def layer_work(spec: LayerSpec, width: int, length: int, *, causal: bool, visible: bool = True) -> Work:
    """Work of one call on one sample of S positions.

    Args:
        spec: the layer.
        width: d.
        length: S.
        causal: whether the model is causal.
        visible: count the visible half of causal attention scores only; else what is computed.
    """
    inner = spec.width or width
    adapters = 4 * length * width * inner if spec.width is not None else 0
    return Work(adapters) + spec.own_work(inner, length, causal=causal, visible=visible)


def layer_context_work(spec: LayerSpec, width: int, length: int, *, causal: bool, visible: bool = True) -> Work:
    """The part of ``layer_work`` that positions cost at which no output is wanted; arguments as there."""
    inner = spec.width or width
    own = spec.own_context_work(inner, length, causal=causal, visible=visible)
    whole = spec.own_work(inner, length, causal=causal, visible=visible)
    if spec.width is None or not own.total:
        return own
    ways = 2 if own == whole else 1  # the way out is computed for all positions only where the layer is
    return Work(ways * 2 * length * width * inner) + own


def layer_state_bytes(spec: LayerSpec, width: int, length: int) -> int:
    """Bytes that a causal layer keeps per sample after S tokens, in float32."""
    return spec.own_state_bytes(spec.width or width, length)
