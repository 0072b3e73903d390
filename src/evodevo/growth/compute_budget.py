"""Budget of a growth: keeps probes, distillation and replay within a share of the cost of training.

Source: docs/spec/architect_thyself.md#events.

All in FLOPs that follow from structures (``prices``), so that an interrupted run gets the same portions as one that was
not. Where the budget is in seconds, the measured time of a FLOP of growth, in that of one of training, counts too
(``pace``).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from evodevo.growth.flops import Prices
from evodevo.growth.spec import GrowthSettings
from evodevo.settings import Settings

FEWEST = 64
"""Samples below which a probe is too noisy and costs no less: one batch."""
USUAL = 1.6
"""Time of a FLOP of growth, in that of one of training, where no clock may decide: its operations are smaller ones, as
benchmarks/growth_overhead.py measures."""
SLOWEST = 2.5
"""Pace beyond which fewer samples save no time, since what is left is the fixed cost of every call."""
OF_PROBES = 0.5
"""Share of the remaining budget for probes where it is not enough for everything."""


class Portions(Settings):
    """Limits of the next event and all that follows from it.

    Attributes:
        samples: Number of samples of the split ``architecture`` in each probe.
        distil_steps: Number of training steps before each module that is removed.
        replay_steps: Number of steps with replayed samples.
        looks: Largest number of probes until the next event.
        mature: Whether newborns are probed at the end of their warm-up.
    """

    samples: int
    distil_steps: int
    replay_steps: int
    looks: int = 1000
    mature: bool = True

    def looks_at(self, place: int, wished: int) -> bool:
        """Whether look ``place`` (from 0) of the ``wished`` ones is made: those that are made are spread evenly."""
        looks = min(self.looks, wished)
        return (place + 1) * looks // wished > place * looks // wished


@dataclass(frozen=True)
class Means:
    """The budget until the next event.

    Attributes:
        training: FLOPs of training from the beginning until then.
        spent: FLOPs of growth so far.
        prices: Prices of the network as it is now.
        batch: Number of samples in a step.
        probes: Number of probes until then that are made in any case: the event's, its reward's, the one at the end.
        looks: Number of probes between events that are wished until then.
        refined: FLOPs of the strategist's own gradient at the event.
        pace: Seconds of a FLOP of growth, as a multiple of those of training; None where seconds do not count.
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
    """Limits as wished, shortened to keep within ``events.overhead``.

    A probe keeps ``FEWEST`` samples in any case; where the budget is too small even for these, looks are left out
    first, then the probe of grown-up newborns. Probes come before one module's distillation, and that before replay. An
    event with several prunings gives each as many steps, and the next event has less.
    """
    wished, price, batch = settings.fitness.samples, means.prices.probe, means.batch
    pace = USUAL if means.pace is None else min(max(means.pace, 1.0), SLOWEST)
    allowed = settings.events.overhead * means.training / pace
    left = max(0.0, allowed - means.spent - means.refined)
    least = min(FEWEST, wished)
    smallest = int(left / (least * price))  # number of probes that the budget covers
    mature = smallest > means.probes
    looks = max(0, min(means.looks, smallest - means.probes - 1))
    a_sample = price * (means.probes + mature + looks)
    a_step = means.prices.step * batch

    def distillation(steps: int) -> float:
        return batch * means.prices.distillation(steps, steps)

    distil, replay = settings.prune.distil_steps, settings.replay.steps
    teaching = distillation(distil) + a_step * replay * bool(settings.replay.capacity)
    for_probes = max(OF_PROBES * left, left - teaching)
    samples = min(wished, max(least, int(for_probes / a_sample)))
    left = max(0.0, left - samples * a_sample)
    distil = bisect_right(range(1, distil + 1), left, key=distillation)
    left -= distillation(distil)
    return Portions(
        samples=samples,
        distil_steps=distil,
        replay_steps=min(replay, int(left / a_step)),
        looks=looks,
        mature=mature,
    )
