"""Before a module goes, the others learn what it said (Architect Thyself eq. 94).

Source: docs/spec/architect_thyself.md#pruning.

The teacher is the zoo itself while it still has the module: what it made of some training batches is kept first. The
student is the same zoo without it; only modules, router and what gives the router its keys may learn. What modules are
told is kept as well, because nothing before them changes: a step costs modules and router alone.

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
from evodevo.growth.training.lessons import OPTIMIZER, Distilled, learn_in_turn, mean_loss, mode
from evodevo.training.precision import Batch, Precision, decide
from evodevo.training.settings import OptimizerSettings

LEARNING = ("pool.", "router.", "genotype_keys.", "predictor.", "heads.")
"""Beginnings of the names of what may learn. Eq. 94 asks nothing of heads: they are as they were."""


class Mixed(Protocol):
    """A pass of a zoo, as far as it is compared."""

    @property
    def mixed(self) -> Tensor:
        """z_r, (B, d)."""
        ...


class Zoo(Protocol):
    """What is asked of a network of modules (``models.module_zoo.ModuleZoo``)."""

    active: frozenset[str] | None

    @property
    def live(self) -> tuple[str, ...]:
        """Modules that run and count."""
        ...

    def fuse(self, batch: Any) -> Any:
        """What modules are told."""
        ...

    def consult(self, heard: Any) -> Mixed:
        """What comes of it."""
        ...


@dataclass(frozen=True)
class Taught:
    """One batch as the teacher saw it: what its modules were told, and z_r (B, d)."""

    heard: Any
    mixed: Tensor


@torch.no_grad()
def taught(zoo: nn.Module, batches: Sequence[Batch], precision: Precision | None = None) -> tuple[Taught, ...]:
    """What a zoo makes of batches as it is now, in evaluation mode."""
    precision = precision or decide()
    one: Any = zoo
    with mode(zoo, training=False), precision.autocast():
        heard = [one.fuse(precision.place(batch)) for batch in batches]
        return tuple(Taught(each, one.consult(each).mixed.detach()) for each in heard)


def distance(zoo: nn.Module, lessons: Sequence[Taught], precision: Precision | None = None) -> float:
    """L_kd: the mean over samples of the squared distance to the teacher's z_r, in evaluation mode."""
    precision = precision or decide()
    return mean_loss(zoo, len(lessons), lambda number: _loss(zoo, lessons[number]), precision)


@contextmanager
def without(zoo: nn.Module, module: str) -> Iterator[None]:
    """The zoo with a module masked: in the logits, in the synergy and at the gate.

    Raises:
        UsageError: it is not there, or alone.
    """
    one: Any = zoo
    if module not in one.live:
        raise unknown_name("module", module, list(one.live))
    if len(one.live) == 1:
        raise UsageError(f"{module!r} is the only module; nobody is left to learn from it.")
    before = one.active
    one.active = frozenset(one.live) - {module}
    try:
        yield
    finally:
        one.active = before


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
    """Let the others learn, in place, what a module says; who may learn and who is active is as before afterwards.

    Args:
        zoo: see ``Zoo``; an optimiser of its own is made, moments of the training are not touched.
        module: that is to go. It does not change.
        batch_at: batches of training samples, without targets if they are at hand; the first ``batches`` are kept and
            learned in turn.
        steps: at most (T_kd); 0 only measures.
        tolerance: L_kd, over the kept batches, at which it ends early.
        batch_size: samples of a batch.
        seed: of what modules draw while they learn.
        batches: kept.
        optimizer: how.
        precision: device and number format.

    Raises:
        UsageError: no such module, or it is alone.
    """
    precision = precision or decide()
    lessons = taught(zoo, [batch_at(number) for number in range(max(1, min(batches, steps)))], precision)
    with without(zoo, module):
        # The module that is masked is not run, has no gradient, and so does not change either.
        return learn_in_turn(
            zoo,
            len(lessons),
            lambda number: _loss(zoo, lessons[number]),
            steps,
            may_learn=lambda name: name.startswith(LEARNING),
            tolerance=tolerance,
            batch_size=batch_size,
            seed=seed,
            precision=precision,
            optimizer=optimizer,
        )


def _loss(zoo: nn.Module, lesson: Taught) -> Tensor:
    student: Any = zoo
    mixed: Tensor = student.consult(lesson.heard).mixed
    return (mixed - lesson.mixed).float().square().sum(-1).mean()
