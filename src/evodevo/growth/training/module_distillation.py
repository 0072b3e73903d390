"""Distillation of a module of a zoo into the others before it is removed (Architect Thyself eq. 94).

Source: docs/spec/architect_thyself.md#pruning.

The teacher is the zoo itself while it still has the module: its mixtures for some training batches are kept first. The
student is the same zoo without it; only modules, router and the networks of the router's keys are trained. The modules'
inputs are kept as well, because nothing before them changes: a step costs modules and router alone.
Legend: B samples, d width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError, unknown_name
from evodevo.growth.training.distillation_buffer import OPTIMIZER, Distilled, learn_in_turn, mean_loss, mode
from evodevo.training.precision import Batch, Precision, decide
from evodevo.training.settings import OptimizerSettings

LEARNING = ("pool.", "router.", "genotype_keys.", "predictor.", "heads.")
"""Prefixes of the parameters that are trained. Eq. 94 does not involve heads: they stay as they are."""


class Mixed(Protocol):
    """The part of a zoo's pass that is compared."""

    @property
    def mixed(self) -> Tensor:
        """z_r, (B, d)."""
        ...


class Zoo(Protocol):
    """The interface of a network of modules (``module_zoo.model.ModuleZoo``) that distillation needs."""

    active: frozenset[str] | None

    @property
    def live(self) -> tuple[str, ...]:
        """Ids of the modules that run and count."""
        ...

    def fuse(self, batch: Any) -> Any:
        """The input of the modules."""
        ...

    def consult(self, inputs: Any) -> Mixed:
        """The pass of modules and router for that input."""
        ...


@dataclass(frozen=True)
class TeacherBatch:
    """One batch as the teacher processed it: the input of its modules, and z_r (B, d)."""

    inputs: Any
    mixed: Tensor


@torch.no_grad()
def taught(zoo: nn.Module, batches: Sequence[Batch], precision: Precision | None = None) -> tuple[TeacherBatch, ...]:
    """Inputs and mixtures of a zoo for some batches as it is now, in evaluation mode."""
    precision = precision or decide()
    network: Any = zoo
    with mode(zoo, training=False), precision.autocast():
        inputs = [network.fuse(precision.place(batch)) for batch in batches]
        return tuple(TeacherBatch(each, network.consult(each).mixed.detach()) for each in inputs)


def distance(zoo: nn.Module, teacher_batches: Sequence[TeacherBatch], precision: Precision | None = None) -> float:
    """L_kd: the mean over samples of the squared distance to the teacher's z_r, in evaluation mode."""
    precision = precision or decide()
    return mean_loss(zoo, len(teacher_batches), lambda number: _loss(zoo, teacher_batches[number]), precision)


@contextmanager
def without(zoo: nn.Module, module: str) -> Iterator[None]:
    """Context in which a module is masked: in the logits, in the synergy and at the gate.

    Raises:
        UsageError: It is not in the zoo, or the only one.
    """
    network: Any = zoo
    if module not in network.live:
        raise unknown_name("module", module, list(network.live))
    if len(network.live) == 1:
        raise UsageError(f"{module!r} is the only module; nobody is left to learn from it.")
    before = network.active
    network.active = frozenset(network.live) - {module}
    try:
        yield
    finally:
        network.active = before


def distil_module(
    zoo: nn.Module,
    module: str,
    batch_at: Callable[[int], Batch],
    steps: int,
    *,
    tolerance: float,
    batch_size: int,
    seed: int,
    batches: int = 8,
    optimizer: OptimizerSettings = OPTIMIZER,
    precision: Precision | None = None,
) -> Distilled:
    """Train the other modules, in place, to replace one; active modules and trainable parameters are restored.

    Args:
        zoo: Zoo, see ``Zoo``; it gets an optimiser of its own, moments of the training are not touched.
        module: Id of the module that will be removed. It does not change.
        batch_at: Returns batch k of training samples, targets not needed; the first ``batches`` are kept and
            used in turn.
        steps: Largest number of steps (T_kd); 0 only measures.
        tolerance: L_kd, over the kept batches, at which it ends early.
        batch_size: Number of samples in a batch.
        seed: Seed of random numbers drawn by modules in training.
        batches: Number of batches that are kept.
        optimizer: Settings of the optimiser.
        precision: Device and number format.

    Raises:
        UsageError: No such module, or it is the only one.
    """
    precision = precision or decide()
    teacher_batches = taught(zoo, [batch_at(number) for number in range(max(1, min(batches, steps)))], precision)
    with without(zoo, module):
        # The masked module is not run and has no gradient, and so does not change either.
        return learn_in_turn(
            zoo,
            len(teacher_batches),
            lambda number: _loss(zoo, teacher_batches[number]),
            steps,
            may_learn=lambda name: name.startswith(LEARNING),
            tolerance=tolerance,
            batch_size=batch_size,
            seed=seed,
            precision=precision,
            optimizer=optimizer,
        )


def _loss(zoo: nn.Module, batch: TeacherBatch) -> Tensor:
    student: Any = zoo
    mixed: Tensor = student.consult(batch.inputs).mixed
    return (mixed - batch.mixed).float().square().sum(-1).mean()
