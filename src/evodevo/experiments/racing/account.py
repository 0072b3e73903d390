"""The account of a training that begins with a search: what the search has used, and what is left of the budget."""

from __future__ import annotations

import math
from typing import Any

from evodevo.experiments.budget_share import seconds_of_facts
from evodevo.experiments.trainer import Trainer
from evodevo.training.settings import Budget, TrainingSettings

_LEAST_SHARE = 0.1
"""Least share of a budget in seconds that is left for the final training, however long judging took."""


class SearchAccount:
    """What a search may use of the budget of a bench.

    Args:
        bench: Trainer of the procedure.
        share: Share of the budget that the search may use, 0 to 1.
    """

    def __init__(self, bench: Trainer, share: float) -> None:
        self.bench = bench
        self.share = share

    @property
    def used_seconds(self) -> float:
        """Seconds of all trainings that have ended, and of judgements: facts of a value and its seconds."""
        return self.bench.used_seconds + math.fsum(seconds_of_facts(self.bench.facts))

    def rest(self, flops: float | None = None) -> TrainingSettings:
        """Settings of the last training: what the search has left of the budget.

        Args:
            flops: FLOPs of the search; those on the account if left out, which has nothing else yet.
        """
        budget, bench = self.bench.training.budget, self.bench
        seconds = budget.seconds
        if seconds is not None:
            seconds = max(seconds - self.used_seconds, _LEAST_SHARE * seconds * (1 - self.share))
        return self.limited(
            steps=None if budget.steps is None else budget.steps - bench.steps,
            tokens=None if budget.tokens is None else budget.tokens - bench.samples,
            seconds=seconds,
            flops=None if budget.flops is None else budget.flops - (bench.flops if flops is None else flops),
        )

    def limited(self, **limits: Any) -> TrainingSettings:
        """Settings of the bench's training with another budget."""
        return self.bench.training.model_copy(update={"budget": Budget(**limits)})
