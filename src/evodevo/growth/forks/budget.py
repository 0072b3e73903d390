"""The budget that forks are charged to, in its unit: what a training has used of it, and what sides cost."""

from __future__ import annotations

import time
from dataclasses import dataclass

from evodevo.experiments.trainer import Branch
from evodevo.growth.forks.forkable import Grown
from evodevo.growth.forks.sides import Side
from evodevo.growth.forks.unit import Unit, unit_of
from evodevo.training.settings import Budget

STEP = 3
"""Forward passes in a step."""


@dataclass(frozen=True)
class ForkBudget:
    """The budget of a training with forks.

    Attributes:
        unit: Its unit.
        amount: How much of it there is.
        batch: Samples of a step.
    """

    unit: Unit
    amount: float
    batch: int

    @classmethod
    def of(cls, budget: Budget, batch: int) -> ForkBudget:
        """That of a budget which ``unit_of`` knows."""
        unit = unit_of(budget)
        assert unit is not None, "checked before"
        amount = budget.flops if unit == "flops" else budget.seconds
        assert amount is not None, "the unit has an amount"
        return cls(unit, amount, batch)

    def left(self, branch: Branch) -> float:
        """What is left between two segments, now."""
        cursor = branch.snapshot.cursor
        if self.unit == "flops":
            return self.amount - cursor.flops
        return self.amount - cursor.seconds - (time.monotonic() - branch.since)

    def step(self, side: Side[Grown]) -> float:
        """Cost of a step of a side that has been counted."""
        return side.flops if self.unit == "flops" else side.seconds

    def forward(self, side: Side[Grown], flops: float) -> float:
        """Cost of a forward pass on one sample, which takes so many FLOPs."""
        return flops if self.unit == "flops" else side.seconds / (STEP * self.batch)
