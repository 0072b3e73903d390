"""The sides of a fork: networks that go on from one position of a training, for equal FLOPs or in equal time."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic

from torch import Tensor, nn

from evodevo.experiments.flop_counter import look_at_step
from evodevo.experiments.trainer import Trainer
from evodevo.growth.forks.averaging import RunningMean
from evodevo.growth.forks.forkable import Grown
from evodevo.networks.base import Network
from evodevo.randomness import generator
from evodevo.tasks.inputs import Batch
from evodevo.training.loop import Cursor, TrainingResult, TrainingSnapshot, model_loss, train
from evodevo.training.settings import Budget, TrainingSettings
from evodevo.training.step_timer import seconds_of_steps

Batches = Callable[[int], Batch]


@dataclass
class Side(Generic[Grown]):
    """A network at the position from which it is trained.

    Attributes:
        zoo: The network, changed in place.
        snapshot: Position of the training, and state of the optimiser, which is copied and not changed.
        ripen: Sets birth factors and learning rates of this network for a share of the budget.
        flops: FLOPs of one of its steps, counted.
        seconds: Seconds of one of its steps, measured; 0 where nobody needs them.
        averaged: The network with the mean of its weights over the last steps, where it was trained so; None before.
        cut: Makes its own batch of a batch of the training; None where it reads that.
    """

    zoo: Grown
    snapshot: TrainingSnapshot
    ripen: Callable[[Grown, float], None]
    flops: float = field(default=0.0)
    seconds: float = field(default=0.0)
    averaged: Network | None = None
    cut: Callable[[Batch], Batch] | None = None

    @property
    def judged(self) -> Network:
        """The network that is judged: that of the mean weights, where there is one."""
        return self.zoo.network if self.averaged is None else self.averaged

    def read(self, batches: Batches) -> Batches:
        """Its own batches by number of the step, from those of the training."""
        cut = self.cut
        return batches if cut is None else lambda step: cut(batches(step))

    def count(self, bench: Trainer, batches: Batches, share: float) -> None:
        """Count the FLOPs of its step at this share of the budget."""
        self.ripen(self.zoo, share)
        placed = bench.precision.place(self.read(batches)(self.snapshot.cursor.step))
        assert isinstance(placed, dict), "the batch is a mapping"
        self.flops = look_at_step(self.zoo.network, placed).flops

    def time(self, bench: Trainer, batches: Batches) -> None:
        """Measure the seconds of its step, on a copy."""
        begin, network, own = self.snapshot.cursor.step, copy.deepcopy(self.zoo.network), self.read(batches)
        settings = bench.training.optimizer
        self.seconds = min(seconds_of_steps(network, lambda step: own(begin + step), bench.precision, settings))


def share_used(budget: Budget, cursor: Cursor) -> float:
    """Share of a budget in FLOPs or in seconds that a training has used up."""
    if budget.flops is not None:
        return cursor.flops / budget.flops
    assert budget.seconds is not None, "forks are charged in FLOPs or in seconds"
    return cursor.seconds / budget.seconds


def train_side(
    bench: Trainer,
    side: Side[Grown],
    training: TrainingSettings,
    batches: Batches,
    steps: int,
    *,
    average: float = 0.0,
) -> TrainingResult:
    """Train a side for some steps, without curve, selection of weights, checkpoint and account.

    Args:
        bench: Trainer of the procedure.
        side: Side with its counted FLOPs, changed in place.
        training: Settings of the whole training; the schedule goes on from the snapshot.
        batches: Batch by number of the step in the whole training.
        steps: Number of steps.
        average: Share of these steps, the last ones, over which its weights are averaged for ``Side.averaged``, 0 to 1;
            0 for not.
    """
    begin, batches = side.snapshot.cursor, side.read(batches)
    network = side.zoo.network
    network.to(bench.precision.device)

    def loss_of(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        network.terms = {}
        side.ripen(side.zoo, side.zoo.progress)
        return model_loss(model, batch)

    side.ripen(side.zoo, share_used(training.budget, begin))
    mean, side.averaged = RunningMean(network) if average else None, None
    first = begin.step + steps - math.ceil(average * steps)
    result = train(
        network,
        training,
        batch_at=batches if mean is None else mean.along(batches, first),
        tokens_per_step=training.batch_size * bench.tokens_per_sample,
        seed=bench.seed,
        loss_function=loss_of,
        uniform_loss=network.uniform_loss,
        resume=side.snapshot,
        changed=True,
        until=begin.step + steps,
        precision=bench.precision,
        flops_per_step=side.flops,
        memory_bytes=bench.settings.memory_bytes,
    )
    if mean is not None and result.steps == begin.step + steps:
        side.averaged = mean.network()
    return result


def reordered(batches: Batches, first: int, steps: int, *key: int) -> Batches:
    """The same batches from one on, in another order, which the key draws."""
    order = generator(*key, "another order of batches").permutation(steps)
    return lambda step: batches(first + int(order[step - first]))
