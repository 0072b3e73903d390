"""Forks of a growing backbone: an edit is kept only where training on with it pays (``growth.forks``)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from evodevo.backbone.model import Backbone
from evodevo.experiments.trainer import Branch, Trainer
from evodevo.growth.backbone.spec import GrowthPlan
from evodevo.growth.backbone.windows import cut_windows, forward_flops
from evodevo.growth.forks.budget import STEP, ForkBudget
from evodevo.growth.forks.plan import ForkPlan, ForkSamples, plan_forks
from evodevo.growth.forks.records import ForkRecord
from evodevo.growth.forks.running import Forked, Forks
from evodevo.growth.forks.sides import Batches, Side
from evodevo.tasks.base import SampleTask
from evodevo.tasks.inputs import Batch
from evodevo.training.settings import TrainingSettings
from evodevo.training.step_timer import seconds_of_steps
from evodevo.training.surgery import Origins


@dataclass
class ForkedBackbone:
    """A backbone as a side of a fork.

    Attributes:
        network: The backbone, trained in place.
        window: Tokens of its training windows.
        progress: Share of the budget that is used up, on which nothing in a backbone depends.
    """

    network: Backbone
    window: int
    progress: float = 0.0

    def spare(self, moved: Callable[[Origins], None]) -> Self:
        """See ``growth.forks.forkable.Forkable``; copies are not edited."""
        return replace(self, network=copy.deepcopy(self.network))


class BackboneForks:
    """The forks of one run.

    Args:
        bench: Trainer of the procedure.
        plan: Plan of the growth.
        training: Settings of the training, after a race.
        task: Task with the split ``architecture``.
        batches: Batches of the training by number of the step, in windows of the task.
        start: The backbone at the start.

    Attributes:
        plan: Their number and length.
    """

    def __init__(
        self,
        bench: Trainer,
        plan: GrowthPlan,
        training: TrainingSettings,
        task: SampleTask,
        batches: Batches,
        start: ForkedBackbone,
    ) -> None:
        self.bench = bench
        self.settings = plan.forks
        self.task = task
        self.batches = batches
        self.training = training
        budget = ForkBudget.of(training.budget, training.batch_size)
        self._whole = task.inputs[0].length
        forward = forward_flops(task, start.network.structure, start.window)
        step = STEP * forward * training.batch_size
        if budget.unit == "seconds":
            # Recorded, so that an interrupted run has the same plan.
            step = bench.once("seconds of a step at the start", lambda: self._seconds(start))
            forward = step / (STEP * training.batch_size)
        samples = ForkSamples.of(plan.forks, task.count("architecture"))
        # Without room for forks none of the choices is made.
        required = plan.forks.model_copy(update={"required": True})
        self.plan: ForkPlan = plan_forks(
            required, budget.amount, plan.events.count, step, forward, samples, budget.unit
        )
        self._forks = Forks(bench, plan.forks, self.plan, samples, training, forward) if self.plan.most else None

    @property
    def happen(self) -> bool:
        """Whether the budget has room for any."""
        return self._forks is not None

    def run(
        self,
        edits: tuple[str, ...],
        edited: tuple[ForkedBackbone, Branch],
        without: tuple[ForkedBackbone, Branch],
        *,
        number: int,
        earlier: Sequence[ForkRecord],
    ) -> Forked:
        """One fork, which trains both networks in place; for the arguments see ``growth.forks.running.Forks``."""
        assert self._forks is not None, "there is room for forks"
        return self._forks.run(
            edits,
            self._side(*edited),
            self._side(*without),
            task=self.task,
            batches=self.batches,
            number=number,
            earlier=earlier,
            branch=without[1],
            price=lambda side: forward_flops(self.task, side.zoo.network.structure, self._whole),
        )

    def facts(self, tried: Sequence[tuple[int, ForkRecord]]) -> dict[str, object]:
        """What reports read: the plan, the share of the budget that forks took, and each fork with its event."""
        budget, in_seconds = self.training.budget, self.plan.unit == "seconds"
        used = sum(fork.seconds if in_seconds else fork.spent + fork.winner_flops for _, fork in tried)
        whole = budget.seconds if in_seconds else budget.flops
        assert whole is not None, "the budget is in the unit of the plan"
        return {
            **self.plan.model_dump(mode="json"),
            "level": self.settings.level,
            "share": used / whole,
            "tried": [{"event": number, **fork.model_dump(mode="json")} for number, fork in tried],
        }

    # Within

    def _side(self, grown: ForkedBackbone, branch: Branch) -> Side[ForkedBackbone]:
        return Side(grown, branch.snapshot, lambda grown, share: None, cut=self._cut(grown))

    def _cut(self, grown: ForkedBackbone) -> Callable[[Batch], Batch]:
        return cut_windows(self._whole, grown.window)

    def _seconds(self, start: ForkedBackbone) -> float:
        """Seconds of a step at the start, on a copy."""
        cut = self._cut(start)
        network, optimizer = copy.deepcopy(start.network), self.bench.training.optimizer
        return min(seconds_of_steps(network, lambda step: cut(self.batches(step)), self.bench.precision, optimizer))
