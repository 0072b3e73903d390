"""A convolution over positions.

Legend: B samples, L positions, w channels that it reads, w' channels of its answer.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.module_zoo.modules.nodes.base_model import WholeSequence, silenced
from evodevo.operators.feed_forward import ACTIVATIONS
from evodevo.operators.spec import Activation


class Convolution(WholeSequence):
    """A centred convolution, the activation, dropout. Masked positions are zeros before and after."""

    def __init__(self, width: int, out: int, kernel: int, activation: Activation | None, dropout: float) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, out, kernel, padding=kernel // 2)
        self.activation: Callable[[Tensor], Tensor] | None = None if activation is None else ACTIVATIONS[activation]
        self.dropout = dropout

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y: Tensor = self.convolution(silenced(x, mask).transpose(1, 2)).transpose(1, 2)
        if self.activation is not None:
            y = self.activation(y)
        return silenced(F.dropout(y, self.dropout, self.training), mask)
