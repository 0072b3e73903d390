"""Distillation of a part of a network: kept batches are learned in turn, before the part is removed.

The caller defines the loss on a batch and which parameters are trained; this file trains and measures, and restores
everything else.
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

from evodevo.training.loop import State, TrainingProgress, train
from evodevo.training.precision import Precision
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

OPTIMIZER = OptimizerSettings(learning_rate=1e-3, warmup=0.0, weight_decay=0.0)


@dataclass(frozen=True)
class Distilled:
    """Result of a distillation.

    Attributes:
        before, after: Mean loss over the batches in evaluation mode.
        steps: Number of steps made; 0 where the loss was below the tolerance already.
        state: Final state of the training; after "nan" the network must not be used.
    """

    before: float
    after: float
    steps: int
    state: State = "finished"


def learn_in_turn(
    network: nn.Module,
    batches: int,
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
    """Train on the batches in place, one per step, with an optimiser of its own; other optimisers are not touched.

    Args:
        network: Network to train; its mode and its trainable parameters are restored.
        batches: Number of batches.
        loss_of: Returns the network's loss on a batch, a scalar, by its number.
        steps: Largest number of steps; 0 only measures.
        may_learn: Returns whether a parameter is trained, by its name.
        tolerance: Loss, the mean over all batches, at which it ends early.
        batch_size: Number of samples in a batch.
        seed: Seed of random numbers drawn by the network in training.
        precision: Device and number format.
        optimizer: Settings of the optimiser.
    """
    losses: deque[float] = deque(maxlen=batches)

    def goes_on(progress: TrainingProgress) -> bool:
        losses.append(progress.loss)
        return len(losses) < batches or fmean(losses) >= tolerance

    before = mean_loss(network, batches, loss_of, precision)
    if not steps or before < tolerance:
        return Distilled(before, before, 0)
    budget = Budget(steps=steps)
    with _only(network, may_learn), mode(network, training=True):
        result = train(
            _Hidden(network),
            TrainingSettings(budget=budget, optimizer=optimizer, batch_size=batch_size, report_every=1),
            batch_at=lambda step: np.asarray(step % batches),
            tokens_per_step=batch_size,
            seed=seed,
            loss_function=lambda _, number: loss_of(int(number)),
            report=goes_on,
            precision=precision,
        )
    state: State = "finished" if result.state == "stopped" else result.state
    return Distilled(before, mean_loss(network, batches, loss_of, precision), result.steps, state)


@torch.no_grad()
def mean_loss(network: nn.Module, batches: int, loss_of: Callable[[int], Tensor], precision: Precision) -> float:
    """Mean loss over all batches, in evaluation mode."""
    with mode(network, training=False), precision.autocast():
        return float(torch.stack([loss_of(number) for number in range(batches)]).mean())


@contextmanager
def mode(network: nn.Module, *, training: bool) -> Iterator[None]:
    """Context in which the network is in this mode; its mode is restored."""
    before = network.training
    network.train(training)
    try:
        yield
    finally:
        network.train(before)


class _Hidden(nn.Module):
    """Hides a network from the training loop, which would set its progress, statistics and learning rates."""

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
