"""States of a linear recurrence between chunks, as matrix products: no loop over chunks.

X_{k+1} = e^{g_k} X_k + M_k, where M_k is what chunk k adds and g_k <= 0 its log decay, gives
X_k = e^{g_0 + … + g_{k-1}} X_0 + Σ_{j<k} e^{g_{j+1} + … + g_{k-1}} M_j: one triangular matrix of weights. Up to
``SPAN`` chunks are one such product; more are cut into spans, whose states at their beginnings are the same problem
with fewer steps: its depth is a logarithm of the number of chunks. Why sums of differences, not differences of sums:
docs/spec/star.md#recurrence.

Legend: R independent recurrences, K chunks, M numbers of a state.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.operators.spec import SPAN


def states_before_chunks(
    made: Tensor, log_decay: Tensor | None, initial: Tensor | None, *, final: bool
) -> tuple[Tensor, Tensor | None]:
    """States before each chunk, and the one after the last.

    Args:
        made: the contribution of each chunk, (R, K, M).
        log_decay: log decay over each whole chunk, (R, K); None without decay.
        initial: state before the first chunk, (R, M); None for zeros.
        final: whether the last state is wanted.

    Returns:
        (R, K, M), and (R, M) or None.
    """
    if log_decay is None:
        first = torch.zeros_like(made[:, :1]) if initial is None else initial.unsqueeze(1)
        states = torch.cat([first, made], 1).cumsum(1)
        return states[:, :-1], states[:, -1]
    rows, chunks, numbers = made.shape
    if chunks == 1:
        before = torch.zeros_like(made) if initial is None else initial.unsqueeze(1)
        return before, torch.addcmul(made, before, log_decay.exp().unsqueeze(-1)).squeeze(1) if final else None
    if chunks <= SPAN:
        weights = _weights(log_decay)
        end = _weighted(weights[:, -1:], made, initial).squeeze(1) if final else None
        return _weighted(weights[:, :-1], made, initial), end
    spans = -(-chunks // SPAN)
    size = -(-chunks // spans)
    missing = spans * size - chunks  # added without decay and content
    made = F.pad(made, (0, 0, 0, missing)).reshape(rows * spans, size, numbers)
    log_decay = F.pad(log_decay, (0, missing)).reshape(rows * spans, size)
    weights = _weights(log_decay)
    added = _weighted(weights[:, -1:], made, None).reshape(rows, spans, numbers)
    begins, end = states_before_chunks(added, log_decay.sum(1).reshape(rows, spans), initial, final=final)
    before = _weighted(weights[:, :-1], made, begins.reshape(rows * spans, numbers))
    return before.reshape(rows, spans * size, numbers)[:, :chunks], end


def _weights(log_decay: Tensor) -> Tensor:
    """(R, K) -> (R, K + 1, K + 1): of the initial state and of each chunk in the states before chunks 0 to K."""
    count = log_decay.shape[1]
    place = torch.arange(count + 1, device=log_decay.device)
    # Row k, column j: the sum of log decays j to k - 1. Each is added up by itself: differences of cumulated sums would
    # lose the digits of slow decays that come after fast ones.
    terms = log_decay.unsqueeze(-1).masked_fill(place[:-1, None] < place, 0.0)
    sums = F.pad(terms.cumsum(1), (0, 0, 1, 0))
    return sums.masked_fill(place[:, None] < place, float("-inf")).exp()


def _weighted(weights: Tensor, made: Tensor, initial: Tensor | None) -> Tensor:
    """Rows of weights (R, k, K + 1) of the initial state (R, M) and of contributions (R, K, M): (R, k, M)."""
    if initial is None:
        return torch.bmm(weights[..., 1:], made)
    return torch.baddbmm(weights[..., :1] * initial.unsqueeze(1), weights[..., 1:], made)
