"""How much growth may cost: probes, distillation and replay within a share of what training costs (issue 5.5).

All in counted FLOPs, so that a run that was killed portions as the one that was not. Where the budget is in seconds,
what a FLOP of growth takes beside one of training is measured and counts too (``pace``).
"""

from __future__ import annotations

from dataclasses import dataclass

from evodevo.settings import Settings
from evodevo.spaces.zoo_growth import GrowthSettings

STEP = 3
"""A step of learning costs about as much as so many passes."""
FEWEST = 64
"""Samples without which a probe says nothing, and costs no less: one batch."""
SLOWEST = 2.0
"""Pace beyond which fewer samples save no time, since what is left is what every call costs."""
OF_PROBES = 0.5
"""Share of what is left that goes to probes where all cannot be had."""


class Portions(Settings):
    """What the next event and all that follows from it may use.

    Attributes:
        samples: of the split ``architecture`` in each probe.
        distil_steps: before each module that goes.
        replay_steps: with samples that are seen again.
    """

    samples: int
    distil_steps: int
    replay_steps: int


@dataclass(frozen=True)
class Means:
    """What there is to spend until the next event.

    Attributes:
        training: FLOPs of training that will be done by then, since the beginning.
        spent: FLOPs of growth so far.
        forward: FLOPs of one sample's answer.
        batch: samples of a step.
        probes: that are to come until then, the event's own included.
        pace: seconds of a FLOP of growth, in those of one of training; 1 where seconds do not count.
    """

    training: float
    spent: float
    forward: float
    batch: int
    probes: int
    pace: float = 1.0


def portions(settings: GrowthSettings, means: Means) -> Portions:
    """As much as was wished, shortened to hold ``events.overhead``; a probe keeps ``FEWEST`` samples in any case.

    Probes come first, then one module's distillation, then replay. An event with several prunings gives each as many
    steps, and the next event has less.
    """
    wished = settings.fitness.samples
    left = max(0.0, settings.events.overhead * means.training / min(max(means.pace, 1.0), SLOWEST) - means.spent)
    a_step = STEP * means.forward * means.batch
    a_sample = means.forward * means.probes
    teaching = a_step * (settings.prune.distil_steps + settings.replay.steps * bool(settings.replay.capacity))
    for_probes = max(OF_PROBES * left, left - teaching)
    samples = min(wished, max(min(FEWEST, wished), int(for_probes / a_sample)))
    left = max(0.0, left - samples * a_sample)
    distil = min(settings.prune.distil_steps, int(left / a_step))
    left -= distil * a_step
    return Portions(samples=samples, distil_steps=distil, replay_steps=min(settings.replay.steps, int(left / a_step)))
