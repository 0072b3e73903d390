"""The part of a sequence that a router reads: one vector per sample, or one per position.

Source: docs/spec/h_model.md#what-a-router-reads.

Shapes: (B, S, d) and a mask (B, S), true at real positions, give (B, 1, d) or, per position, (B, S, d).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evodevo.networks.routing.spec import CAUSAL_POOLS, Pool

PER_POSITION = CAUSAL_POOLS


class Pooling(nn.Module):
    """One of the pools; ``attention`` alone has a parameter, a query that starts at 0 (the mean).

    Attributes:
        per_position: whether there is a decision at each position.
    """

    def __init__(self, kind: Pool, width: int) -> None:
        super().__init__()
        self.kind = kind
        self.per_position = kind in PER_POSITION
        self.query = nn.Parameter(torch.zeros(width)) if kind == "attention" else None

    def forward(self, h: Tensor, mask: Tensor | None = None, before: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Pooled vectors.

        Args:
            h: (B, S, d).
            mask: (B, S); a sample without any real position gives zeros.
            before: sum (B, d) and count (B, 1) of earlier positions, for ``prefix_mean`` over pieces of a sequence.
        """
        if self.kind == "token":
            return h
        if self.kind == "prefix_mean":
            return prefix_mean(h, mask, before)
        if self.kind == "last":
            return _last(h, mask)
        if self.kind == "max":
            return _max(h, mask)
        if self.query is None:
            return masked_mean(h, mask).unsqueeze(1)
        scores = (h @ self.query) * h.shape[-1] ** -0.5
        return softmax_mean(h, scores, mask).unsqueeze(1)


def masked_mean(h: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over real positions: (B, ..., S, d) and (B, ..., S) -> (B, ..., d); zeros where there is none."""
    if mask is None:
        return h.mean(-2)
    weights = mask.to(h.dtype).unsqueeze(-1)
    total: Tensor = (h * weights).sum(-2)
    return total / weights.sum(-2).clamp(min=1.0)


def prefix_mean(h: Tensor, mask: Tensor | None, before: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """Mean over the real positions up to each one."""
    weights = torch.ones_like(h[..., :1]) if mask is None else mask.to(h.dtype).unsqueeze(-1)
    total, count = (h * weights).cumsum(-2), weights.cumsum(-2)
    if before is not None:
        total, count = total + before[0].unsqueeze(-2), count + before[1].unsqueeze(-2)
    return total / count.clamp(min=1.0)


def _last(h: Tensor, mask: Tensor | None) -> Tensor:
    """The last real position, by mask and not by index."""
    if mask is None:
        return h[:, -1:]
    # Counted from 1, so that a masked position, which is 0, is never the largest.
    order = torch.arange(1, h.shape[1] + 1, device=h.device) * mask
    place = order.argmax(1)
    picked = h.gather(1, place[:, None, None].expand(-1, 1, h.shape[-1]))
    return picked * mask.any(1)[:, None, None]


def _max(h: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return h.amax(1, keepdim=True)
    lowest = torch.finfo(h.dtype).min
    pooled = h.masked_fill(~mask.unsqueeze(-1), lowest).amax(1, keepdim=True)
    return pooled * mask.any(1)[:, None, None]


def softmax_mean(h: Tensor, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Mean weighted by the softmax of scores over real positions: (..., S, d) and twice (..., S) -> (..., d)."""
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    if mask is not None:
        # A sample without any real position has a uniform softmax; it must be 0.
        weights = weights * mask
    return (weights.unsqueeze(-2) @ h).squeeze(-2)
