"""From the description of a layer to the layer, with its adapters.

A layer is a whole block (norm and residual inside) with the contract of ``operators.base.Operator``. A row of its mask
may be without any true; it gives finite numbers then.
"""

from __future__ import annotations

from evodevo.operators.adapters import Adapted
from evodevo.operators.base import Operator
from evodevo.operators.layers.base import LayerSpec


def build_layer(spec: LayerSpec, width: int, *, causal: bool, residual: bool = True) -> Operator:
    """The layer of a description, with parameters from the global random stream.

    Args:
        spec: description of the layer.
        width: channels d of the messages.
        causal: no position depends on later ones; such a layer streams.
        residual: false takes the layer's residual connections away.

    Raises:
        UsageError: sizes that do not fit, or a layer that cannot be causal or cannot be without residuals.
    """
    layer = spec.build(spec.width or width, causal=causal, residual=residual)
    return layer if spec.width is None else Adapted(layer, width, spec.width)
