"""What a budget pays for a race; no torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from evodevo.training.settings import TrainingSettings


class RaceTerms(Protocol):
    """The terms of a race, which its options have.

    Attributes:
        share: Largest share of the budget for the race, 0 to 1.
        samples: Number of samples by which a network is judged.
        judge: Criterion by which networks go on: the ``loss`` so far, or the loss to which its ``trend`` leads.
    """

    @property
    def share(self) -> float: ...

    @property
    def samples(self) -> int: ...

    @property
    def judge(self) -> Literal["loss", "trend"]: ...


@dataclass(frozen=True)
class RaceRoom:
    """The budget of a training that begins with a race.

    Attributes:
        unit: What costs are counted in: the first of these that the budget has.
        budget: The whole budget in this unit.
        most_steps: Largest number of steps where a budget in FLOPs has one, too.
        judging: Cost of judging a network once, in steps of its own.
    """

    unit: Literal["flops", "steps", "seconds"]
    budget: float
    most_steps: float | None
    judging: float

    @classmethod
    def of(cls, training: TrainingSettings, options: RaceTerms) -> RaceRoom:
        """Of a budget of which the race may use a share."""
        budget, batch = training.budget, training.batch_size
        steps = (budget.steps, None if budget.tokens is None else budget.tokens // batch)
        known = min((float(amount) for amount in steps if amount is not None), default=None)
        judging = options.samples / (3 * batch)  # a forward pass is a third of a step
        if budget.flops is not None:
            return cls("flops", budget.flops, known, judging)
        if known is not None:
            return cls("steps", known, None, 0.0)
        return cls("seconds", budget.seconds or 0.0, None, judging)

    def race(self, options: RaceTerms, costs: Sequence[float]) -> float:
        """What the whole race may cost: no network is cheaper than the cheapest of these."""
        race = self.budget * options.share
        if self.most_steps is not None:
            race = min(race, self.most_steps * options.share * min(costs))
        return race

    def judging_of(self, number: int, options: RaceTerms) -> float:
        """Cost of judging a network in a rung, in steps of its own; a trend needs one look more in the first."""
        return (2 if options.judge == "trend" and number == 0 else 1) * self.judging
