"""An LSTM with a linear map back to its channels.

Legend: B samples, L positions, w channels.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.module_zoo.modules.nodes.base_model import WholeSequence
from evodevo.operators.lstm import run_lstm, run_packed


class Recurrent(WholeSequence):
    """An LSTM over real positions, one way or both, and a linear map of its states to w (eq. 47)."""

    def __init__(self, width: int, hidden: int, layers: int, *, both_ways: bool, dropout: float) -> None:
        super().__init__()
        self.lstm = nn.LSTM(
            width,
            hidden,
            layers,
            batch_first=True,
            bidirectional=both_ways,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.out = nn.Linear(hidden * (2 if both_ways else 1), width)
        self.dropout = dropout

    def _read(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y, _ = run_lstm(self.lstm, x) if mask is None else run_packed(self.lstm, x, mask)
        return F.dropout(self.out(y), self.dropout, self.training)
