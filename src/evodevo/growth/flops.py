"""FLOPs per sample that growing costs beside training, from the structure alone.

Source: docs/spec/architect_thyself.md#events.

Nothing is measured: an interrupted run computes the same numbers as one that was not. A test recounts all of it.

Legend: N modules, K unrolled steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from evodevo.growth.h_model.pool import HModelPool, PoolStructure
from evodevo.growth.resources import TaskSizes
from evodevo.growth.spec import FitnessSettings
from evodevo.module_zoo.cost import zoo_work
from evodevo.operators.cost import total_work

STEP = 3
"""FLOPs of one training step, as a multiple of those of one forward pass."""
KEPT = 8
"""Most batches of distillation for which teacher outputs are kept."""
AROUND = 0.1
"""Extra cost of a zoo's probe beside its pass, as a share of it; benchmarks/zoo_leave_one_out.py measures it."""
FIRST, SECOND = 1, 10
"""Passes of an unrolled step with its second derivative: of the whole network, and of what the step changes."""


@dataclass(frozen=True)
class Prices:
    """Prices in FLOPs of one sample.

    Attributes:
        forward: FLOPs of a forward pass in which every module runs.
        probe: FLOPs of a probe.
        share: Share of ``forward`` that is trained when a module is distilled, 0 to 1: modules and router.
    """

    forward: float
    probe: float
    share: float

    @property
    def step(self) -> float:
        """FLOPs of a training step."""
        return STEP * self.forward

    def lessons(self, batches: int, steps: int) -> float:
        """FLOPs of distillation: the teacher's outputs, the distance before and after, and the steps.

        Args:
            batches: Number of batches that are available, at most one per step.
            steps: Number of steps that were made.
        """
        kept = min(KEPT, batches)
        return self.forward * (kept * (1 + 2 * self.share) + STEP * self.share * steps)

    def meta_gradient(self, steps: int, inner: int, outer: int) -> float:
        """FLOPs of K unrolled steps on ``inner`` samples, a loss on ``outer`` ones, and the backward pass (98)."""
        single = self.forward * (FIRST + SECOND * self.share)
        return steps * inner * single + outer * self.forward * (1 + 2 * self.share)


def prices(structure: PoolStructure, task: TaskSizes, settings: FitnessSettings) -> Prices:
    """Prices of a network as it is now."""
    if isinstance(structure, HModelPool):
        forward = float(structure.cost(task.inputs, task.outputs).flops)
        # Without one of N layers N - 1 run, and alone one does: together a pass for each; a layer set to 0 still runs.
        sparse, zeroed = structure.model.inference.mode != "dense", settings.ablation == "zero"
        return Prices(forward, forward * (len(structure.live) + 2 + sparse + zeroed), 1.0)
    work = zoo_work(structure, task.inputs, task.outputs)
    forward = float(total_work(work.values()).total)
    learns = total_work([work["modules"], work["router"]]).total
    return Prices(forward, (1 + AROUND) * forward, learns / max(forward, 1.0))
