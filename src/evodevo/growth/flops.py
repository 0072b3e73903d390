"""FLOPs per sample that growing costs beside training, from the structure alone.

Source: docs/spec/architect_thyself.md#events.

Nothing is measured: an interrupted run computes the same numbers as one that was not. A test recounts all of it.

Legend: N modules, K unrolled steps.
"""

from __future__ import annotations

from dataclasses import dataclass

STEP = 3
"""FLOPs of one training step, as a multiple of those of one forward pass."""
KEPT = 8
"""Most batches of distillation for which teacher outputs are kept."""
OUTSIDE = 0.1
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

    def distillation(self, batches: int, steps: int) -> float:
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
