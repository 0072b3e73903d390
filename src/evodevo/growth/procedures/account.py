"""The account of a growth: what has been used up, what growth costs beside training, and what it may cost."""

from __future__ import annotations

import time
from collections.abc import Sequence

from evodevo.experiments.trainer import Trainer
from evodevo.growth.compute_budget import Means, Portions, portions
from evodevo.growth.flops import Prices
from evodevo.growth.procedures.settings import total_steps
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.training.starting_race import GrowthStart
from evodevo.training.loop import TrainingResult

SECONDS = "growth_seconds"
"""Name of the seconds of growth in the trainer's state."""
PROBES = 2
"""Probes at an event and for its reward."""
FORESEEN = 1.05
"""Tolerance factor of ``exceeded``: the FLOPs of a training are foreseen to this accuracy."""


class GrowthAccount:
    """The account of one run. The race at the start is not in it.

    Args:
        bench: Trainer of the procedure.
        settings: Settings of the growth.
        start: What came before the growth.
    """

    def __init__(self, bench: Trainer, settings: GrowthSettings, start: GrowthStart) -> None:
        self.bench = bench
        self.settings = settings
        self.start = start
        self._replayed = 0.0
        self._apart = 0.0
        self._left_out = 0

    def used(self, result: TrainingResult, since: float) -> float:
        """Share of the budget that is used up, the seconds since the segment ended included."""
        training = self.start.training
        total, budget = total_steps(training), training.budget
        used = 0.0 if total is None else result.steps / total
        seconds = budget.seconds
        if budget.flops is not None:
            used = max(used, (self.bench.flops - self.start.flops) / budget.flops)
        if seconds is not None:
            used = max(used, (result.seconds + time.monotonic() - since) / seconds)
        return min(used, 1.0)

    # Booking

    def replay(self, number: int, flops: float) -> None:
        """Book the FLOPs of the replay after an event."""
        self._replayed += flops
        self.bench.spend(f"replay {number}", flops)

    def apart(self, name: str, flops: float) -> None:
        """Book FLOPs of forks and of races, which have shares of the budget of their own."""
        self.bench.spend(name, flops)
        self._apart += flops

    def leave_out(self) -> None:
        """Count a look that was not made."""
        self._left_out += 1

    def took(self, since: float, apart: float = 0.0) -> None:
        """Book the seconds of growth since then, without those of a fork."""
        self.bench.state[SECONDS] = self._seconds + time.monotonic() - since - apart

    # What it may cost

    def portions(
        self, number: int, share: float, coming: Sequence[float], *, prices: Prices, refined: float
    ) -> Portions:
        """Limits of an event and all that follows until the next; see ``compute_budget``.

        Args:
            number: Number of the event, from 1.
            share: Share of the budget that is used up.
            coming: Shares of the budget at which events come.
            prices: FLOPs of growing, per sample.
            refined: FLOPs of the strategist's own gradient at the event.
        """
        bench, spent, trained = self.bench, self._spent, self._trained
        until = coming[number] if number < len(coming) else 1.0
        growing = spent - self._replayed
        pace = None
        if bench.training.budget.seconds is not None and growing and trained and bench.seconds:
            pace = (self._seconds / growing) / (bench.seconds / trained)
        last = number == len(coming)
        means = Means(
            training=trained / share * until if share else 0.0,
            spent=spent,
            prices=prices,
            batch=bench.training.batch_size,
            probes=PROBES + last,  # the last event has one more, at the end of the training
            looks=0 if last else self.settings.events.looks,
            refined=refined,
            pace=pace,
        )
        return portions(self.settings, means)

    def look_is_made(self, number: int, portioned: Portions | None) -> bool:
        """Whether a look is made: it only informs, and is left out where growth costs more than it may."""
        bench, wished = self.bench, self.settings.events.looks
        if portioned is not None and not portioned.looks_at((number - 1) % wished, wished):
            return False
        return bench.training.budget.seconds is None or not self._exceeds(self._seconds, bench.seconds)

    def overhead(self, samples: int, distil_steps: int) -> dict[str, float]:
        """Cost of growth beside training; replay is in the FLOPs, and its seconds are those of training steps.

        It may be ``exceeded`` where even the smallest probes of so many events cost more than is ``allowed``.

        Args:
            samples: Samples in each probe.
            distil_steps: Distillation steps before a module is removed.
        """
        bench = self.bench
        trained, spent, seconds = self._trained, self._spent, self._seconds
        return {
            "flops_share": spent / trained if trained else 0.0,
            "seconds": seconds,
            "seconds_share": seconds / bench.seconds if bench.seconds else 0.0,
            "samples": samples,
            "distil_steps": distil_steps,
            "looks_left_out": self._left_out,
            "allowed": self.settings.events.overhead,
            "exceeded": self._exceeds(spent, FORESEEN * trained)
            or (bench.training.budget.seconds is not None and self._exceeds(seconds, FORESEEN * bench.seconds)),
        }

    # Within

    def _exceeds(self, growth: float, training: float) -> bool:
        return growth > self.settings.events.overhead * training

    @property
    def _seconds(self) -> float:
        """Seconds of growth so far."""
        seconds: float = self.bench.state.get(SECONDS, 0.0)
        return seconds

    @property
    def _spent(self) -> float:
        """FLOPs of growth so far, without the race, the forks and the choices at falls of a cap."""
        return self.bench.spent - self.start.spent - self._apart

    @property
    def _trained(self) -> float:
        """FLOPs of the training steps since the race, without those of forks and of networks that lost."""
        return self.bench.flops - self.start.flops - self._spent - self._apart
