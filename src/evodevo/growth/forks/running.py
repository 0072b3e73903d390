"""Running a fork: both sides, other orders of the batches, judgement, and which side goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from evodevo.experiments.trainer import Branch, Trainer
from evodevo.growth.forks.budget import ForkBudget
from evodevo.growth.forks.decision import ForkLosses, Losses, decided, known, published_gain
from evodevo.growth.forks.forkable import Grown
from evodevo.growth.forks.interval import gain_of
from evodevo.growth.forks.judging import parts_of_split, sample_losses
from evodevo.growth.forks.plan import ForkPlan, ForkSamples, trainings
from evodevo.growth.forks.records import ForkGain, ForkRecord
from evodevo.growth.forks.sides import Batches, Side, reordered, share_used, train_side
from evodevo.growth.spec import ForkSettings
from evodevo.tasks.base import SampleTask
from evodevo.training.loop import TrainingResult
from evodevo.training.settings import TrainingSettings

NO_ROOM = "its fork has no room for a step of each side"
NONE_LEFT = "no fork is left"


@dataclass(frozen=True)
class Forked:
    """The outcome of a fork.

    Attributes:
        record: What is recorded.
        result: Result of the training of the side that goes on; None where neither does.
        apart: Share of the budget that was used up beside it.
    """

    record: ForkRecord
    result: TrainingResult | None = None
    apart: float = 0.0


@dataclass(frozen=True)
class _Order(Generic[Grown]):
    """Trainings in another order: without the edit and with it, None where it ended early, and their FLOPs."""

    without: Side[Grown] | None
    edited: Side[Grown] | None
    flops: float


class Forks:
    """The forks of one run.

    Args:
        bench: Trainer of the procedure.
        settings: Settings of the forks.
        plan: Their number and length, at least one.
        samples: Numbers of samples by which they are judged.
        training: Settings of the training, in FLOPs or in seconds.
        forward: Cost of a forward pass of the network at the start, on one sample.
    """

    def __init__(
        self,
        bench: Trainer,
        settings: ForkSettings,
        plan: ForkPlan,
        samples: ForkSamples,
        training: TrainingSettings,
        forward: float,
    ) -> None:
        self.bench = bench
        self.settings = settings
        self.plan = plan
        self.samples = samples
        self.training = training
        self.forward = forward
        self.budget = ForkBudget.of(training.budget, training.batch_size)

    def run(
        self,
        edits: tuple[str, ...],
        edited: Side[Grown],
        without: Side[Grown],
        *,
        task: SampleTask,
        batches: Batches,
        number: int,
        earlier: Sequence[ForkRecord],
        branch: Branch,
        price: Callable[[Side[Grown]], float],
    ) -> Forked:
        """One fork: trains both sides in place.

        Args:
            edits: The edits, in words.
            edited, without: Both sides, at one position of the training.
            task: Task with the split ``architecture``.
            batches: Batch by number of the step.
            number: Number of the event.
            earlier: Forks before.
            branch: Position of the training, with what has been spent.
            price: FLOPs of a forward pass on one sample by side.
        """
        tried = [fork for fork in earlier if fork.spent]
        if len(tried) >= self.plan.most:
            return Forked(ForkRecord(edits=edits, reason=NONE_LEFT))
        budget, since = self.budget, time.monotonic()
        orders = self.settings.orders_again if tried else self.settings.orders
        begin = without.snapshot.cursor
        for side in (edited, without):
            # A moment after the position, so that newborns count.
            side.count(self.bench, batches, math.nextafter(share_used(self.training.budget, begin), 2.0) + 1e-9)
            if budget.unit == "seconds":
                side.time(self.bench, batches)
        judged = price(edited), price(without)
        judging = self._judging(*judged, orders)
        forwards = budget.forward(edited, judged[0]), budget.forward(without, judged[1])
        amount = self._amount(self._judging(*forwards, orders), orders, budget.left(branch))
        steps = int(amount / budget.step(edited)), int(amount / budget.step(without))
        if min(steps) < 1:
            return Forked(ForkRecord(edits=edits, reason=NO_ROOM))
        sides, paired = (edited, without), self.settings.paired
        spares = [self._spares(sides if paired else (without,)) for _ in range(orders)]
        results = [self._train(side, batches, count) for side, count in zip(sides, steps, strict=True)]
        longest = max(steps) if paired else steps[1]
        others = [
            self._in_order(spare, steps, reordered(batches, begin.step, longest, self.bench.seed, number, place))
            for place, spare in enumerate(spares)
        ]
        made = [result.steps - begin.step for result in results]
        costs = made[0] * edited.flops, made[1] * without.flops
        spent = judging + sum(other.flops for other in others)
        lasted = amount if budget.unit == "flops" else steps[1] * without.flops
        record = ForkRecord(edits=edits, steps=(made[0], made[1]), side_flops=lasted)
        ended = [count == wanted for count, wanted in zip(made, steps, strict=True)]
        complete = [side if end else None for side, end in zip(sides, ended, strict=True)]
        record = self._judged(record, complete, others, tried, task)
        if all(ended) and self.settings.follow:
            followed, more = self._followed(sides, results, steps, batches, task)
            record, spent = record.model_copy(update={"followed": followed}), spent + more
        # Where the training without edits came to an end by itself, it goes on to there, and says so.
        winner, loser = (0, 1) if record.kept else (1, 0)
        record = record.model_copy(update={"winner_flops": costs[winner], "spent": spent + costs[loser]})
        if budget.unit == "flops":
            return Forked(record, results[winner], record.spent / budget.amount)
        took, own = time.monotonic() - since, results[winner].seconds - begin.seconds
        record = record.model_copy(update={"seconds": took, "winner_seconds": own})
        return Forked(record, results[winner], (took - own) / budget.amount)

    # Within

    def _spares(self, sides: Sequence[Side[Grown]]) -> list[Side[Grown]]:
        return [replace(side, zoo=self._copy(side)) for side in sides]

    def _in_order(self, spares: Sequence[Side[Grown]], steps: Sequence[int], batches: Batches) -> _Order[Grown]:
        """Train copies of both sides, or of the one without the edit alone, in another order of the batches."""
        trained: list[Side[Grown] | None] = []
        flops = 0.0
        for side, count in zip(spares, steps[-len(spares) :], strict=True):
            begin = side.snapshot.cursor.step
            made = self._train(side, batches, count).steps - begin
            flops += made * side.flops
            trained.append(side if made == count else None)
        return _Order(trained[-1], trained[0] if len(trained) > 1 else None, flops)

    def _train(self, side: Side[Grown], batches: Batches, steps: int) -> TrainingResult:
        return train_side(self.bench, side, self.training, batches, steps, average=self.settings.average)

    def _followed(
        self,
        sides: Sequence[Side[Grown]],
        results: Sequence[TrainingResult],
        steps: Sequence[int],
        batches: Batches,
        task: SampleTask,
    ) -> tuple[ForkGain | None, float]:
        """The gain after copies of both sides were trained on, and the FLOPs of that without the judgement.

        No gain where one of them did not come so far: the end of the budget, or a loss that is not finite.
        """
        copies, flops, complete = [], 0.0, True
        for side, result, count in zip(sides, results, steps, strict=True):
            copied = replace(side, zoo=self._copy(side), snapshot=result.snapshot)
            later = self._train(copied, batches, self.settings.follow * count)
            made = later.steps - result.steps
            flops, complete = flops + made * side.flops, complete and made == self.settings.follow * count
            copies.append(copied)
        if not complete:
            return None, flops
        _, published = parts_of_split(task, self.samples)
        edited, without = (self._losses(side, task, published) for side in copies)
        return gain_of(*known(without, edited), 0.0, 0, self.settings.level), flops

    def _judged(
        self,
        record: ForkRecord,
        sides: Sequence[Side[Grown] | None],
        others: Sequence[_Order[Grown]],
        tried: Sequence[ForkRecord],
        task: SampleTask,
    ) -> ForkRecord:
        """The record with losses, gains and decision; a side that could not be trained is None."""
        choosing, published = parts_of_split(task, self.samples)

        def losses(side: Side[Grown] | None) -> Losses | None:
            return None if side is None else self._losses(side, task, choosing)

        level, paired = self.settings.level, self.settings.paired
        judged = ForkLosses(
            edited=losses(sides[0]),
            without=losses(sides[1]),
            others=[losses(other.without) for other in others],
            others_edited=[losses(other.edited) for other in others] if paired else (),
        )
        record = decided(record, judged, tried, level, paired=paired)
        if record.chose is None:
            return record
        edited, without = (self._losses(side, task, published) for side in sides if side is not None)
        return record.model_copy(update={"published": published_gain(without, edited, record, level)})

    def _losses(self, side: Side[Grown], task: SampleTask, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        return sample_losses(
            side.judged,
            task,
            chosen,
            batch_size=max(32, self.training.batch_size),
            precision=self.bench.precision,
        )

    def _judging(self, edited: float, without: float, orders: int) -> float:
        """Cost of the judgement, from that of a forward pass of each side on one sample."""
        chosen, published = self.samples.choosing, self.samples.published
        both = chosen + published * (2 if self.settings.follow else 1)
        each = edited + without if self.settings.paired else without
        return both * (edited + without) + orders * chosen * each

    def _amount(self, judging: float, orders: int, left: float) -> float:
        """Cost for which each side is trained: as planned, less where this judgement costs more than was planned."""
        count = 2 * (1 + self.settings.follow) + trainings(self.settings, orders)
        allotted = count * self.plan.side + self.forward * self.samples.forwards(self.settings, orders)
        return min(self.plan.side, (min(allotted, left) - judging) / count)

    def _copy(self, side: Side[Grown]) -> Grown:
        return spare_of(side.zoo, self.bench)


def spare_of(zoo: Grown, bench: Trainer) -> Grown:
    """A network that grows and equals this one, and shares nothing with it."""
    return zoo.spare(bench.carry)
