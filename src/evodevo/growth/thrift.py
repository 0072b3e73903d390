"""How much growth may cost: probes, distillation and replay within a share of what training costs.

Source: docs/spec/architect_thyself.md#events.

All in FLOPs that follow from structures (``prices``), so that a run that was killed portions as the one that was not.
Where the budget is in seconds, what a FLOP of growth takes beside one of training is measured and counts too
(``pace``).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from evodevo.growth.prices import Prices
from evodevo.growth.spec import GrowthSettings
from evodevo.settings import Settings

FEWEST = 64
"""Samples without which a probe says nothing, and costs no less: one batch."""
USUAL = 1.6
"""Time of a FLOP of growth in that of one of training, where no clock may decide: its operations are smaller ones, as
benchmarks/growth_overhead.py measures."""
SLOWEST = 2.5
"""Pace beyond which fewer samples save no time, since what is left is what every call costs."""
OF_PROBES = 0.5
"""Share of what is left that goes to probes where all cannot be had."""


class Portions(Settings):
    """What the next event and all that follows from it may use.

    Attributes:
        samples: of the split ``architecture`` in each probe.
        distil_steps: before each module that goes.
        replay_steps: with samples that are seen again.
        looks: probes until the next event at most.
        mature: whether newborns are probed when they are grown up.
    """

    samples: int
    distil_steps: int
    replay_steps: int
    looks: int = 1000
    mature: bool = True

    def looks_at(self, place: int, wished: int) -> bool:
        """Whether that one of the looks until the next event (from 0) is made: those that are, evenly among all."""
        looks = min(self.looks, wished)
        return (place + 1) * looks // wished > place * looks // wished


@dataclass(frozen=True)
class Means:
    """What there is to spend until the next event.

    Attributes:
        training: FLOPs of training that will be done by then, since the beginning.
        spent: FLOPs of growth so far.
        prices: of the network now.
        batch: samples of a step.
        probes: that come until then whatever they cost: the event's own, its reward's, and the one in the end.
        looks: that are wished until then.
        refined: FLOPs of the strategist's own gradient at the event.
        pace: seconds of a FLOP of growth, in those of one of training; None where seconds do not count.
    """

    training: float
    spent: float
    prices: Prices
    batch: int
    probes: int
    looks: int = 0
    refined: float = 0.0
    pace: float | None = None


def portions(settings: GrowthSettings, means: Means) -> Portions:
    """As much as was wished, shortened to hold ``events.overhead``.

    A probe keeps ``FEWEST`` samples in any case; where not even these can be paid, looks are left out first, then the
    probe of newborns that are grown up. Probes come before one module's distillation, and that before replay. An event
    with several prunings gives each as many steps, and the next event has less.
    """
    wished, price, batch = settings.fitness.samples, means.prices.probe, means.batch
    pace = USUAL if means.pace is None else min(max(means.pace, 1.0), SLOWEST)
    allowed = settings.events.overhead * means.training / pace
    left = max(0.0, allowed - means.spent - means.refined)
    least = min(FEWEST, wished)
    smallest = int(left / (least * price))  # probes that can be had
    mature = smallest > means.probes
    looks = max(0, min(means.looks, smallest - means.probes - 1))
    a_sample = price * (means.probes + mature + looks)
    a_step = means.prices.step * batch

    def lessons(steps: int) -> float:
        return batch * means.prices.lessons(steps, steps)

    distil, replay = settings.prune.distil_steps, settings.replay.steps
    teaching = lessons(distil) + a_step * replay * bool(settings.replay.capacity)
    for_probes = max(OF_PROBES * left, left - teaching)
    samples = min(wished, max(least, int(for_probes / a_sample)))
    left = max(0.0, left - samples * a_sample)
    distil = bisect_right(range(1, distil + 1), left, key=lessons)
    left -= lessons(distil)
    return Portions(
        samples=samples,
        distil_steps=distil,
        replay_steps=min(replay, int(left / a_step)),
        looks=looks,
        mature=mature,
    )
