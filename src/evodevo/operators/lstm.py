"""LSTM over the real tokens of a sequence (Hochreiter and Schmidhuber 1997), one way or both.

Legend: B batch, T tokens, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from evodevo.errors import UsageError
from evodevo.operators.base import Operator, Output


class LSTM(Operator):
    """The hidden states of an LSTM; where it is not causal, of two that run both ways, added.

    Masked positions are left out, wherever they stand: the state passes them unchanged, and y is 0 there.

    Args:
        width: D, of inputs and of hidden states.
        causal: one way only.
    """

    def __init__(self, width: int, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.streamable = causal
        self.width = width
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=not causal)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        shared: Mapping[str, Any] | None = None,
        state: dict[str, Any] | None = None,
    ) -> Output:
        """See ``Operator``. With a mask the lengths are fetched from the device once."""
        if x.shape[1] == 0:
            return Output(x, {}, state)
        before = None if state is None else (state["hidden"].unsqueeze(0), state["cell"].unsqueeze(0))
        if mask is None:
            y, (hidden, cell) = self.lstm(x, before)
        else:
            y, (hidden, cell) = run_packed(self.lstm, x, mask, before)
        if not self.causal:
            y = y.unflatten(-1, (2, self.width)).sum(-2)
        after = None if state is None else {"hidden": hidden[0], "cell": cell[0]}
        return Output(y, {}, after)

    def initial_state(self, batch: int, max_length: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
        """Hidden state and cell, zeros.

        Raises:
            UsageError: it runs both ways.
        """
        if not self.causal:
            raise UsageError("an LSTM that runs both ways cannot go on token by token; build it with causal=True.")
        return {name: torch.zeros(batch, self.width, dtype=dtype, device=device) for name in ("hidden", "cell")}


def run_packed(
    lstm: nn.LSTM, x: Tensor, mask: Tensor, before: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """An LSTM over real tokens alone: they are moved to the front, and their answers back; y is 0 at the others.

    Args:
        lstm: with the batch first.
        x: (B, T, D).
        mask: (B, T), true at real tokens. The lengths are fetched from the device.
        before: hidden states and cells (layers, B, D); zeros if left out. A sample without real tokens keeps them.
    """
    order = (~mask).to(torch.uint8).sort(dim=1, stable=True).indices.unsqueeze(-1)
    counts = mask.sum(1)
    x = x.gather(1, order.expand_as(x))
    # A packed sequence has at least one token; what an empty row makes of it is thrown away below.
    packed = pack_padded_sequence(x, counts.clamp_min(1).cpu(), batch_first=True, enforce_sorted=False)
    packed_y, (hidden, cell) = lstm(packed, before)
    y, _ = pad_packed_sequence(packed_y, batch_first=True, total_length=x.shape[1])
    y = torch.zeros_like(y).scatter(1, order.expand_as(y), y) * mask.unsqueeze(-1)
    if before is not None:
        empty = (counts == 0)[None, :, None]
        hidden, cell = torch.where(empty, before[0], hidden), torch.where(empty, before[1], cell)
    return y, (hidden, cell)
