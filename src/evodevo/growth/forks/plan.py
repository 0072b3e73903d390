"""Plan of the forks of a run: their number and length follow from their share of the budget.

In FLOPs all follow from structures, so that an interrupted run has the same plan; in seconds the plan is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from evodevo.growth.forks.unit import Unit, amount_in_words
from evodevo.growth.spec import ForkSettings
from evodevo.settings import Settings


class ForkPlan(Settings):
    """Forks of a run.

    Attributes:
        most: Largest number of forks; 0 for none.
        unit: Unit of the budget.
        side: FLOPs or seconds for which each training of a fork lasts.
        allowed: FLOPs or seconds of all forks together.
        steps: Steps of the network at the start in a training of a fork.
        instead: Why there are none; empty where there are some.
        edits: Whether edits are made where there are none.
    """

    most: int = 0
    unit: Unit = Field(default="flops", exclude_if=lambda value: value == "flops")
    side: float = 0.0
    allowed: float = 0.0
    steps: int = 0
    instead: str = ""
    edits: bool = Field(default=True, exclude_if=lambda value: value)


NOTHING_EDITED = "Nothing is edited"
"""Effect of a budget without room for forks, where edits need one."""


def forks_planned(most: int, steps: int, instead: str, *, edits: bool = True, nothing: str = NOTHING_EDITED) -> str:
    """How many forks a run has and how long they are, or why it has none: a sentence from the fields of a plan.

    Args:
        most, steps, instead, edits: Fields of the plan.
        nothing: Effect of having none where edits need one, without a full stop.
    """
    if instead:
        return f"No forks: {instead.rstrip('.')}. {'Edits are made without' if edits else nothing}."
    return f"{most} fork{'' if most == 1 else 's'} at most, of about {steps:,} steps a side."


@dataclass(frozen=True)
class ForkSamples:
    """Numbers of samples of a fork.

    Attributes:
        choosing: Samples that choose.
        published: Other samples, of the published gain.
    """

    choosing: int
    published: int

    @classmethod
    def of(cls, settings: ForkSettings, count: int) -> ForkSamples:
        """So many of a split of this size, each at most half of it."""
        half = min(settings.samples, count // 2)
        return cls(half, half)

    def forwards(self, settings: ForkSettings, orders: int) -> int:
        """Samples that are judged in a fork: both sides on all, each other training on those that choose.

        Where both sides are followed, they are judged on the published samples once more.
        """
        followed = 2 * self.published if settings.follow else 0
        return 2 * (self.choosing + self.published) + trainings(settings, orders) * self.choosing + followed


def trainings(settings: ForkSettings, orders: int) -> int:
    """Number of trainings in so many other orders."""
    return orders * (2 if settings.paired else 1)


def plan_forks(
    settings: ForkSettings,
    budget: float,
    events: int,
    step: float,
    forward: float,
    samples: ForkSamples,
    unit: Unit = "flops",
) -> ForkPlan:
    """As many forks, at most one per event, as the share pays for with ``least`` steps a side.

    Where it pays for none, one of ``least`` steps a side, if ``most_share`` pays for it.

    Args:
        settings: Settings of the forks.
        budget: FLOPs or seconds of the whole training.
        events: Number of events.
        step: Cost of a training step of the network at the start.
        forward: Cost of its forward pass on one sample.
        samples: Numbers of samples.
        unit: Unit of the budget and of costs.
    """
    allowed = settings.share * budget
    edits = not settings.required
    if samples.choosing < 2:
        return ForkPlan(instead="the split architecture has fewer than 4 samples.", edits=edits)

    def judging(count: int) -> float:
        again = (count - 1) * samples.forwards(settings, settings.orders_again)
        return forward * (samples.forwards(settings, settings.orders) + again)

    def trained(count: int) -> int:
        others = trainings(settings, settings.orders) + (count - 1) * trainings(settings, settings.orders_again)
        return 2 * (1 + settings.follow) * count + others

    for count in range(events, 0, -1):
        side = (allowed - judging(count)) / trained(count)
        if side >= settings.least * step:
            return ForkPlan(most=count, unit=unit, side=side, allowed=allowed, steps=int(side / step))
    least, share = judging(1) + trained(1) * settings.least * step, max(settings.share, settings.most_share)
    if least <= settings.most_share * budget:
        return ForkPlan(most=1, unit=unit, side=settings.least * step, allowed=least, steps=settings.least)
    return ForkPlan(
        unit=unit,
        instead=f"{share:g} of {amount_in_words(budget, unit)} has no room for a fork of {settings.least} "
        f"steps a side; give {amount_in_words(least / share, unit)} or more.",
        edits=edits,
    )
