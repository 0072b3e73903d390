"""Squeeze and excitation.

Legend: B samples, L positions, w channels.
"""

from __future__ import annotations

from torch import Tensor, nn

from evodevo.module_zoo.modules.nodes.base_model import WholeSequence, silenced
from evodevo.networks.routing.pools import masked_mean
from evodevo.operators.feed_forward import ACTIVATIONS
from evodevo.operators.spec import Activation


class SqueezeExcite(WholeSequence):
    """z sigmoid(W2 phi(W1 mean z)): every channel of a sample by one number (eq. 49)."""

    def __init__(self, width: int, units: int, activation: Activation) -> None:
        super().__init__()
        self.squeeze = nn.Linear(width, units)
        self.excite = nn.Linear(units, width)
        self.activation = ACTIVATIONS[activation]

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        weights: Tensor = self.excite(self.activation(self.squeeze(masked_mean(silenced(x, mask), mask)))).sigmoid()
        return x * weights.unsqueeze(1)
