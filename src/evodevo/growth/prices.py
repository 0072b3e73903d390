"""What growing computes beside training, in FLOPs of one sample, from the structure alone.

Source: docs/spec/architect_thyself.md#events.

Nothing is run to know it: a run that was killed reckons as the one that was not. A test recounts all of it.

Legend: N modules, K unrolled steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from evodevo.growth.h_model.pool import HModelPool, PoolStructure
from evodevo.growth.resources import Task
from evodevo.growth.spec import FitnessSettings
from evodevo.module_zoo.cost import zoo_work
from evodevo.operators.cost import total_work

STEP = 3
"""A step of learning computes about as much as so many passes."""
KEPT = 8
"""Batches of lessons that a teacher answers, at most."""
AROUND = 0.1
"""What a probe of a zoo mixes anew, beside its pass; benchmarks/zoo_leave_one_out.py holds it."""
FIRST, SECOND = 1, 10
"""Passes of an unrolled step with its second derivative: of the whole, and of what the step changes."""


@dataclass(frozen=True)
class Prices:
    """Of one sample.

    Attributes:
        forward: of an answer in which every module runs.
        probe: of being probed.
        share: of ``forward`` that learns when a module goes: modules and what routes between them.
    """

    forward: float
    probe: float
    share: float

    @property
    def step(self) -> float:
        """Of a step of training."""
        return STEP * self.forward

    def lessons(self, batches: int, steps: int) -> float:
        """Of distillation: a teacher's answers, the distance before and after, and steps on them.

        Args:
            batches: that might be learned from: steps at most.
            steps: that were made.
        """
        kept = min(KEPT, batches)
        return self.forward * (kept * (1 + 2 * self.share) + STEP * self.share * steps)

    def meta_gradient(self, steps: int, inner: int, outer: int) -> float:
        """Of K unrolled steps on so many samples, a loss on others, and the way back (98)."""
        one = self.forward * (FIRST + SECOND * self.share)
        return steps * inner * one + outer * self.forward * (1 + 2 * self.share)


def prices(structure: PoolStructure, task: Task, settings: FitnessSettings) -> Prices:
    """Of a network as it is now."""
    if isinstance(structure, HModelPool):
        forward = float(structure.cost(task.inputs, task.outputs).flops)
        # Without one of N layers N - 1 run, and alone one does: together a pass for each; who says 0 runs all the same.
        sparse, said = structure.model.inference.mode != "dense", settings.ablation == "zero"
        return Prices(forward, forward * (len(structure.live) + 2 + sparse + said), 1.0)
    work = zoo_work(structure, task.inputs, task.outputs)
    forward = float(total_work(work.values()).total)
    learns = total_work([work["modules"], work["router"]]).total
    return Prices(forward, (1 + AROUND) * forward, learns / max(forward, 1.0))
