"""Lessons that are kept and learned in turn, before a part of a network goes: what all distillation of parts shares.

Whoever distils says what a lesson's loss is and which parameters may learn; here it is learned and measured, and all
else is left as it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch
from torch import Tensor, nn

from evodevo.training.loop import Progress, State, train
from evodevo.training.precision import Precision
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

OPTIMIZER = OptimizerSettings(learning_rate=1e-3, warmup=0.0, weight_decay=0.0)


@dataclass(frozen=True)
class Distilled:
    """How it went.

    Attributes:
        before, after: mean loss of the lessons in evaluation mode.
        steps: that were made; 0 where nothing had to be learned.
        state: of the training; after "nan" the network must not be used.
    """

    before: float
    after: float
    steps: int
    state: State = "finished"


def learn_in_turn(
    network: nn.Module,
    lessons: int,
    loss_of: Callable[[int], Tensor],
    steps: int,
    *,
    may_learn: Callable[[str], bool],
    tolerance: float,
    batch_size: int,
    seed: int,
    precision: Precision,
    optimizer: OptimizerSettings = OPTIMIZER,
) -> Distilled:
    """Learn lessons in place, one a step, with an optimiser of its own; moments of another training are not touched.

    Args:
        network: that learns; its mode and who may learn are as before afterwards.
        lessons: how many there are.
        loss_of: number of a lesson -> the network's loss on it, a scalar.
        steps: at most; 0 only measures.
        may_learn: name of a parameter -> whether it changes.
        tolerance: loss, the mean over all lessons, at which it ends early.
        batch_size: samples of a lesson.
        seed: of what the network draws while it learns.
        precision: device and number format.
        optimizer: how.
    """
    losses: deque[float] = deque(maxlen=lessons)

    def goes_on(progress: Progress) -> bool:
        losses.append(progress.loss)
        return len(losses) < lessons or fmean(losses) >= tolerance

    before = mean_loss(network, lessons, loss_of, precision)
    if not steps or before < tolerance:
        return Distilled(before, before, 0)
    budget = Budget(steps=steps)
    with _only(network, may_learn), mode(network, training=True):
        result = train(
            _Hidden(network),
            TrainingSettings(budget=budget, optimizer=optimizer, batch_size=batch_size, report_every=1),
            batch_at=lambda step: np.asarray(step % lessons),
            tokens_per_step=batch_size,
            seed=seed,
            loss_function=lambda _, number: loss_of(int(number)),
            report=goes_on,
            precision=precision,
        )
    state: State = "finished" if result.state == "stopped" else result.state
    return Distilled(before, mean_loss(network, lessons, loss_of, precision), result.steps, state)


@torch.no_grad()
def mean_loss(network: nn.Module, lessons: int, loss_of: Callable[[int], Tensor], precision: Precision) -> float:
    """Over all lessons, in evaluation mode."""
    with mode(network, training=False), precision.autocast():
        return float(torch.stack([loss_of(number) for number in range(lessons)]).mean())


@contextmanager
def mode(network: nn.Module, *, training: bool) -> Iterator[None]:
    """The network in this mode, and afterwards as it was."""
    before = network.training
    network.train(training)
    try:
        yield
    finally:
        network.train(before)


class _Hidden(nn.Module):
    """Hides what the training loop tells a network of its own training: progress, statistics, learning rates."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network


@contextmanager
def _only(network: nn.Module, may_learn: Callable[[str], bool]) -> Iterator[None]:
    named = network.named_parameters()
    closed = [parameter for name, parameter in named if parameter.requires_grad and not may_learn(name)]
    for parameter in closed:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in closed:
            parameter.requires_grad_(True)
