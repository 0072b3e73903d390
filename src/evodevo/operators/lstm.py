"""LSTM over the real tokens of a sequence (Hochreiter and Schmidhuber 1997), one way or both.

Every LSTM of evodevo is computed by ``run_lstm`` or ``run_packed``: in float32 where the processor has no LSTM of the
requested dtype, such as oneDNN's in bfloat16 without AVX-512.

Legend: B batch, T tokens, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from evodevo.errors import UsageError
from evodevo.operators.base import Operator, Output, full_precision

Tokens = TypeVar("Tokens", Tensor, PackedSequence)
Memory = tuple[Tensor, Tensor]
"""Hidden states and cells of an LSTM, each (layers times directions, B, D)."""


class LSTM(Operator):
    """The hidden states of an LSTM; where it is not causal, of two that run both ways, added.

    Masked positions are left out, wherever they are: the state passes them unchanged, and y is 0 there.

    Args:
        width: D, of inputs and of hidden states.
        causal: one way only.
    """

    skips_padding = True

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
            y, (hidden, cell) = run_lstm(self.lstm, x, before)
        else:
            y, (hidden, cell) = run_packed(self.lstm, x, mask, before)
        if not self.causal:
            y = torch.unflatten(y, -1, (2, self.width)).sum(-2)
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


def run_lstm(lstm: nn.LSTM, x: Tokens, before: Memory | None = None) -> tuple[Tokens, Memory]:
    """``lstm(x, before)``, computed in float32 where the processor cannot compute it in the requested dtype.

    The requested dtype is that of autocast where it is on, else that of the parameters; float32 and float64 are always
    computed as they are. Results of the computation in float32 are rounded to the requested dtype.

    Args:
        lstm: any number of layers, one way or both.
        x: (B, T, D) with the batch first, or a packed sequence.
        before: hidden states and cells; zeros if left out.
    """
    weight: Tensor = lstm.all_weights[0][0]  # a plain tensor while ``functional_call`` replaces the parameters
    device = weight.device
    autocast = torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)
    dtype = torch.get_autocast_dtype(device.type) if autocast else weight.dtype
    # A traced program may run on another processor, so what this one can compute does not count there.
    if dtype in (torch.float32, torch.float64) or (
        not torch.compiler.is_compiling() and has_lstm(device, weight.dtype, dtype)
    ):
        y, after = lstm(x, before)
        return y, after
    weights = {name: parameter.float() for name, parameter in lstm.named_parameters()}
    wide = None if before is None else (before[0].float(), before[1].float())
    with full_precision(device):
        y, (hidden, cell) = functional_call(lstm, weights, (x.float(), wide))
    return y.to(dtype), (hidden.to(dtype), cell.to(dtype))


@cache
def has_lstm(device: torch.device, weights: torch.dtype, dtype: torch.dtype) -> bool:
    """Whether the processor can compute an LSTM forward and backward; tried on one token, once in a process.

    Args:
        device: device of the parameters.
        weights: dtype of the parameters.
        dtype: requested; where it differs from ``weights``, it is that of autocast.
    """
    # Autocast, gradient modes, transforms and counters belong to a thread; a new thread has none of the caller's.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_try_lstm, device, weights, dtype).result()


def _try_lstm(device: torch.device, weights: torch.dtype, dtype: torch.dtype) -> bool:
    # No module is built: its initialisation would draw random numbers.
    shapes = ((4, 1), (4, 1), (4,), (4,))
    parameters = [torch.zeros(shape, dtype=weights, device=device, requires_grad=True) for shape in shapes]
    x = torch.zeros(1, 1, 1, dtype=weights, device=device)
    try:
        with nullcontext() if dtype == weights else torch.autocast(device.type, dtype=dtype):
            y, *_ = torch.lstm(
                x,
                (x, x),
                parameters,
                has_biases=True,
                num_layers=1,
                dropout=0.0,
                train=True,
                bidirectional=False,
                batch_first=True,
            )
        torch.autograd.grad(y.sum(), parameters)
    except torch.OutOfMemoryError:  # independent of the processor, so not kept
        raise
    except RuntimeError:
        return False
    return True


def run_packed(lstm: nn.LSTM, x: Tensor, mask: Tensor, before: Memory | None = None) -> tuple[Tensor, Memory]:
    """An LSTM over real tokens alone: they are moved to the front, and their answers back; y is 0 at the others.

    Args:
        lstm: an LSTM with the batch first.
        x: (B, T, D).
        mask: (B, T), true at real tokens. The lengths are fetched from the device.
        before: hidden states and cells (layers, B, D); zeros if left out. A sample without real tokens keeps them.
    """
    order = (~mask).to(torch.uint8).sort(dim=1, stable=True).indices.unsqueeze(-1)
    counts = mask.sum(1)
    x = x.gather(1, order.expand_as(x))
    # A packed sequence has at least one token; what an empty row makes of it is thrown away below.
    packed = pack_padded_sequence(x, counts.clamp_min(1).cpu(), batch_first=True, enforce_sorted=False)
    packed_y, (hidden, cell) = run_lstm(lstm, packed, before)
    y, _ = pad_packed_sequence(packed_y, batch_first=True, total_length=x.shape[1])
    y = torch.zeros_like(y).scatter(1, order.expand_as(y), y) * mask.unsqueeze(-1)
    if before is not None:
        empty = (counts == 0)[None, :, None]
        hidden, cell = torch.where(empty, before[0], hidden), torch.where(empty, before[1], cell)
    return y, (hidden, cell)
