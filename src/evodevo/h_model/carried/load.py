"""The load of hidden layers, pooled over iterations, and the loss on its imbalance (Fedus et al. 2022, eq. 4-6).

Pooled, since a loss in each iteration would forbid that all samples use one layer in one iteration and another in the
next.

Legend: B samples, H hidden layers, M slots; P is 1, or S positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RoutedLoad:
    """Sums over samples, real positions and iterations.

    Attributes:
        run: Number of decisions that chose each layer, divided by the number of layers that each one chose, (H,).
        chance: Sum of the probabilities before any is left out, (H,).
        count: Number of decisions.
    """

    run: Tensor | float = 0.0
    chance: Tensor | float = 0.0
    count: Tensor | float = 0.0

    def plus(self, dense: Tensor, chosen: Tensor, active: Tensor, real: Tensor | None) -> RoutedLoad:
        """With the decisions of one more step.

        Args:
            dense: Weights of each layer before any is left out, summed over sources, (B, P, H).
            chosen: Layers that were chosen, (B, P, M).
            active: True at those of them that are addressed, (B, P, M).
            real: True at real positions, (B, P); None for all.
        """
        here = active.any(-1) if real is None else active.any(-1) & real
        share = active * here.unsqueeze(-1) / active.sum(-1, keepdim=True).clamp(min=1)
        run = torch.zeros_like(dense).scatter_add(-1, chosen, share.to(dense.dtype)).sum((0, 1))
        total = dense.sum(-1, keepdim=True)
        chance = (dense / torch.where(total > 0, total, torch.ones_like(total)) * here.unsqueeze(-1)).sum((0, 1))
        return RoutedLoad(self.run + run, self.chance + chance, self.count + here.sum())

    def loss(self, layers: Tensor | float) -> Tensor:
        """H sum_k f_k p_k - 1, with f the share of the decisions and p the mean probability; 0 where all are equal."""
        assert isinstance(self.count, Tensor)
        assert isinstance(self.chance, Tensor)
        count = self.count.clamp(min=1)
        # Without any decision there is nothing to balance.
        return (layers * (self.run / count * (self.chance / count)).sum() - 1) * (self.count > 0)
