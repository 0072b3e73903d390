"""The terms of the loss, averaged over the steps between two points of a curve."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class LossTerms:
    """Sums that wait for the device only when they are read.

    Args:
        kept: result of ``to_json`` before an interruption.
    """

    def __init__(self, kept: Mapping[str, tuple[float, int]]) -> None:
        self._sums = {name: torch.tensor(total, dtype=torch.float64) for name, (total, _) in kept.items()}
        self._steps = {name: steps for name, (_, steps) in kept.items()}

    def add(self, terms: Mapping[str, Tensor]) -> None:
        """Scalars of one step."""
        for name, value in terms.items():
            before = self._sums.get(name)
            now = value.detach().double()
            self._sums[name] = now if before is None else before.to(now.device) + now
            self._steps[name] = self._steps.get(name, 0) + 1

    def take_means(self) -> dict[str, float]:
        """Name -> mean since the last call."""
        means = {name: float(total) / self._steps[name] for name, total in self._sums.items()}
        self._sums, self._steps = {}, {}
        return means

    def to_json(self) -> dict[str, tuple[float, int]]:
        """Name -> (sum, steps): exactly what is needed to go on."""
        return {name: (float(total), self._steps[name]) for name, total in self._sums.items()}
