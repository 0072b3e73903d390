"""The feed-forward network in a sigmoid.

Legend: B samples, L positions, w channels.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from evodevo.module_zoo.modules.nodes.base_model import WholeSequence
from evodevo.operators.feed_forward import FeedForward
from evodevo.operators.spec import Activation


class OuterSigmoid(WholeSequence):
    """sigmoid(W2 phi(W1 z + b1) + b2), as eq. 45 is printed."""

    def __init__(self, width: int, hidden: int, activation: Activation, dropout: float) -> None:
        super().__init__()
        self.inside = FeedForward(width, hidden, activation=activation)
        self.dropout = dropout

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return F.dropout(self.inside(x, mask=mask).y.sigmoid(), self.dropout, self.training)
