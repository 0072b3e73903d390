"""Running a fork: both sides, other orders of the batches, judgement, and which side goes on."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evodevo.experiments.trainer import Trainer
from evodevo.growth.forks.interval import gain_of, noise_variance, scatter
from evodevo.growth.forks.judging import parts_of_split, sample_losses
from evodevo.growth.forks.plan import ForkPlan, ForkSamples
from evodevo.growth.forks.records import ForkGain, ForkRecord
from evodevo.growth.forks.sides import Batches, Side, reordered, train_side
from evodevo.growth.growable import GrowingNetwork
from evodevo.growth.spec import ForkSettings
from evodevo.tasks.base import SampleTask
from evodevo.training.loop import TrainingResult
from evodevo.training.settings import TrainingSettings

NO_ROOM = "its fork has no room for a step of each side"
NONE_LEFT = "no fork is left"
NOT_TRAINED = "with it the training diverged"
NO_GAIN = "its gain is {:+.4f} nats, and the interval begins at {:+.4f}, not above 0"


@dataclass(frozen=True)
class Forked:
    """The outcome of a fork.

    Attributes:
        record: What is recorded.
        result: Result of the training of the side that goes on; None where neither does.
    """

    record: ForkRecord
    result: TrainingResult | None = None


class Forks:
    """The forks of one run.

    Args:
        bench: Trainer of the procedure.
        settings: Settings of the forks.
        plan: Their number and length, at least one.
        task: Task with the split ``architecture``.
        training: Settings of the training, in FLOPs.
        forward: FLOPs of a forward pass of the network at the start, on one sample.
    """

    def __init__(
        self,
        bench: Trainer,
        settings: ForkSettings,
        plan: ForkPlan,
        task: SampleTask,
        training: TrainingSettings,
        forward: float,
    ) -> None:
        self.bench = bench
        self.settings = settings
        self.plan = plan
        self.task = task
        self.training = training
        self.forward = forward
        self.samples = ForkSamples.of(settings, task.count("architecture"))

    def run(
        self,
        edits: tuple[str, ...],
        edited: Side,
        without: Side,
        *,
        batches: Batches,
        number: int,
        earlier: Sequence[ForkRecord],
        left: float,
        price: Callable[[Side], float],
    ) -> Forked:
        """One fork: trains both sides in place.

        Args:
            edits: The edits, in words.
            edited, without: Both sides, at one position of the training.
            batches: Batch by number of the step.
            number: Number of the event.
            earlier: Forks before.
            left: FLOPs that are left of the budget.
            price: FLOPs of a forward pass on one sample by side.
        """
        tried = [fork for fork in earlier if fork.spent]
        if len(tried) >= self.plan.most:
            return Forked(ForkRecord(edits=edits, reason=NONE_LEFT))
        budget = self.training.budget.flops
        assert budget is not None, "forks are planned in FLOPs"
        orders = self.settings.orders_again if tried else self.settings.orders
        begin = without.snapshot.cursor
        for side in (edited, without):
            # A moment after the position, so that newborns count.
            side.count(self.bench, batches, math.nextafter(begin.flops / budget, 2.0) + 1e-9)
        judging = self._judging(price(edited), price(without), orders)
        flops = self._side_flops(judging, orders, left)
        steps = int(flops / edited.flops), int(flops / without.flops)
        if min(steps) < 1:
            return Forked(ForkRecord(edits=edits, reason=NO_ROOM))
        spares = [replace(without, zoo=self._copy(without)) for _ in range(orders)]
        sides = edited, without
        results = [self._train(side, batches, count) for side, count in zip(sides, steps, strict=True)]
        others = [
            self._train(
                spare,
                reordered(batches, begin.step, steps[1], self.bench.seed, number, place),
                steps[1],
            )
            for place, spare in enumerate(spares)
        ]
        made = [result.steps - begin.step for result in results]
        costs = made[0] * edited.flops, made[1] * without.flops
        spent = judging + sum(other.steps - begin.step for other in others) * without.flops
        record = ForkRecord(edits=edits, steps=(made[0], made[1]), side_flops=flops)
        ended = [count == wanted for count, wanted in zip(made, steps, strict=True)]
        complete = [
            spare if other.steps == begin.step + steps[1] else None for spare, other in zip(spares, others, strict=True)
        ]
        record = self._judged(record, [edited if ended[0] else None, without if ended[1] else None, *complete], tried)
        if all(ended) and self.settings.follow:
            followed, more = self._followed(sides, results, steps, batches)
            record, spent = record.model_copy(update={"followed": followed}), spent + more
        # Where the training without edits came to an end by itself, it goes on to there, and says so.
        winner, loser = (0, 1) if record.kept else (1, 0)
        record = record.model_copy(update={"winner_flops": costs[winner], "spent": spent + costs[loser]})
        return Forked(record, results[winner])

    # Within

    def _train(self, side: Side, batches: Batches, steps: int) -> TrainingResult:
        return train_side(self.bench, side, self.training, batches, steps, average=self.settings.average)

    def _followed(
        self, sides: Sequence[Side], results: Sequence[TrainingResult], steps: Sequence[int], batches: Batches
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
        _, published = parts_of_split(self.task, self.samples)
        edited, without = (self._losses(side, published) for side in copies)
        return gain_of(*_known(without, edited), 0.0, 0, self.settings.level), flops

    def _judged(self, record: ForkRecord, sides: Sequence[Side | None], tried: Sequence[ForkRecord]) -> ForkRecord:
        """The record with losses, gains and decision; a side that could not be trained is None."""
        choosing, published = parts_of_split(self.task, self.samples)
        losses = [None if side is None else self._losses(side, choosing) for side in sides]
        means = tuple(_mean(each) for each in losses)
        orders = [loss for loss in means[1:] if loss is not None]
        scattered = scatter(orders)
        freedom = max(0, len(orders) - 1) + sum(fork.freedom for fork in tried[-1:])
        squares = scattered + sum(fork.scatter for fork in tried)
        variance = noise_variance(squares, freedom)
        update = {
            "losses": means,
            "scatter": scattered,
            "freedom": freedom,
            "noise": variance**0.5 if freedom else None,
        }
        record = record.model_copy(update=update)
        if means[0] is None:
            return record.model_copy(update={"reason": NOT_TRAINED})
        if means[1] is None:
            return record.model_copy(update={"kept": True})
        edited, without = sides[:2]
        assert edited is not None, "it has a loss"
        assert without is not None, "it has a loss"
        assert losses[0] is not None, "it has a loss"
        assert losses[1] is not None, "it has a loss"
        level = self.settings.level
        chose = gain_of(*_known(losses[1], losses[0]), variance, freedom, level)
        pair = self._losses(without, published), self._losses(edited, published)
        kept = chose.lower > 0
        return record.model_copy(
            update={
                "chose": chose,
                "published": gain_of(*_known(*pair), variance, freedom, level),
                "kept": kept,
                "reason": "" if kept else NO_GAIN.format(chose.gain, chose.lower),
            }
        )

    def _losses(self, side: Side, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        return sample_losses(
            side.judged,
            self.task,
            chosen,
            batch_size=max(32, self.training.batch_size),
            precision=self.bench.precision,
        )

    def _judging(self, edited: float, without: float, orders: int) -> float:
        """FLOPs of the judgement."""
        chosen, published = self.samples.choosing, self.samples.published
        both = chosen + published * (2 if self.settings.follow else 1)
        return both * (edited + without) + orders * chosen * without

    def _side_flops(self, judging: float, orders: int, left: float) -> float:
        """FLOPs for which each side is trained: as planned, less where this judgement costs more than was planned."""
        trainings = 2 * (1 + self.settings.follow) + orders
        judged = self.samples.forwards(orders, followed=self.settings.follow > 0)
        allotted = trainings * self.plan.side_flops + self.forward * judged
        return min(self.plan.side_flops, (min(allotted, left) - judging) / trainings)

    def _copy(self, side: Side) -> GrowingNetwork:
        return spare_of(side.zoo, self.bench)


def spare_of(zoo: GrowingNetwork, bench: Trainer) -> GrowingNetwork:
    """A network that grows and equals this one, and shares nothing with it."""
    return zoo.structure.grown(copy.deepcopy(zoo.network), bench.carry)


def _known(*losses: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Losses of two sides on the samples that have a target."""
    first, second = losses
    there = ~np.isnan(first)
    return first[there], second[there]


def _mean(losses: NDArray[np.float64] | None) -> float | None:
    """Mean loss; None where it is not finite."""
    if losses is None:
        return None
    mean = float(np.nanmean(losses))
    return mean if math.isfinite(mean) else None
