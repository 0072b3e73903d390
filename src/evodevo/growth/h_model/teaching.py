"""Before a hidden layer goes, the others learn to answer without it as they do with it (after eq. 94).

The teacher is the model while it still has the layer: its answers to some training batches are kept. The student is the
same model with the layer unborn; only hidden layers and what routes between them may learn. A zoo compares what its
router has mixed; an H-Model has several outputs that hear in all iterations, so that answers are compared.

Legend: B samples.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.growth.h_model.grown import GrownHModel
from evodevo.growth.h_model.probing import under
from evodevo.models.h_model import HModel
from evodevo.training.distillation import divergence
from evodevo.training.loop import Progress, State, train
from evodevo.training.module_distillation import OPTIMIZER, Distilled
from evodevo.training.precision import Batch, Precision
from evodevo.training.settings import Budget, TrainingSettings

LEARNING = ("core.layers.", "core.routers.", "core.input_routers.", "core.aggregation.")
"""Beginnings of the names of what may learn."""
TEMPERATURE = 2.0
BATCHES = 8


@dataclass(frozen=True)
class Taught:
    """A batch as the teacher answered it."""

    batch: Mapping[str, Tensor]
    answers: Mapping[str, Tensor]


def distil_layer(
    grown: GrownHModel,
    name: str,
    batch_at: Callable[[int], Batch],
    steps: int,
    *,
    tolerance: float,
    batch_size: int,
    seed: int,
    precision: Precision,
) -> Distilled:
    """Let the others learn, in place, what a layer is for; who may learn and who is born is as before afterwards.

    Args:
        grown: the model.
        name: id of the layer that is to go. It does not change.
        batch_at: batches of training samples; the first 8 are kept and learned in turn.
        steps: at most (T_kd); 0 only measures.
        tolerance: divergence of answers in nats, over the kept batches, at which it ends early.
        batch_size: samples of a batch.
        seed: of what layers draw while they learn.
        precision: device and number format.

    Raises:
        UsageError: no such layer, or it is alone.
    """
    model, place = grown.model, grown.place(name)
    if len(grown.live) == 1:
        raise UsageError(f"{name!r} is the only hidden layer; nobody is left to learn from it.")
    lessons = _taught(model, [batch_at(number) for number in range(max(1, min(BATCHES, steps)))], precision)
    losses: deque[float] = deque(maxlen=len(lessons))

    def goes_on(progress: Progress) -> bool:
        losses.append(progress.loss)
        return len(losses) < len(lessons) or fmean(losses) >= tolerance

    with under(model, births={**model.births, place: 0.0}):
        before = _distance(model, lessons, precision)
        if not steps or before < tolerance:
            return Distilled(before, before, 0)
        with _only_learning(model, f"core.layers.{place}."), _mode(model, training=True):
            result = train(
                _Student(model),
                TrainingSettings(
                    budget=Budget(steps=steps), optimizer=OPTIMIZER, batch_size=batch_size, report_every=1
                ),
                batch_at=lambda step: np.asarray(step % len(lessons)),
                tokens_per_step=batch_size,
                seed=seed,
                loss_function=lambda _, number: _loss(model, lessons[int(number)]),
                report=goes_on,
                precision=precision,
            )
        state: State = "finished" if result.state == "stopped" else result.state
        return Distilled(before, _distance(model, lessons, precision), result.steps, state)


class _Student(nn.Module):
    """Hides what the training loop tells a network of its own training: progress, learning rates."""

    def __init__(self, model: HModel) -> None:
        super().__init__()
        self.model = model


@torch.no_grad()
def _taught(model: HModel, batches: Sequence[Batch], precision: Precision) -> tuple[Taught, ...]:
    found = []
    with _mode(model, training=False), precision.autocast():
        for batch in batches:
            placed: Any = precision.place(batch)
            answers = {name: one.float() for name, one in model(placed).items()}
            found.append(Taught(placed, answers))
    return tuple(found)


def _loss(model: HModel, lesson: Taught) -> Tensor:
    """Divergence of answers, the mean over outputs."""
    heard = model(lesson.batch)
    parts = []
    for spec in model.output_specs:
        real = lesson.batch.get(f"{spec.of}/mask") if spec.kind == "tokens" else None
        parts.append(divergence(spec, heard[spec.name], lesson.answers[spec.name], TEMPERATURE, real))
    return torch.stack(parts).mean()


@torch.no_grad()
def _distance(model: HModel, lessons: Sequence[Taught], precision: Precision) -> float:
    with _mode(model, training=False), precision.autocast():
        return float(torch.stack([_loss(model, lesson) for lesson in lessons]).mean())


@contextmanager
def _mode(model: HModel, *, training: bool) -> Iterator[None]:
    before = model.training
    model.train(training)
    try:
        yield
    finally:
        model.train(before)


@contextmanager
def _only_learning(model: HModel, but: str) -> Iterator[None]:
    closed = [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and (name.startswith(but) or not name.startswith(LEARNING))
    ]
    for parameter in closed:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in closed:
            parameter.requires_grad_(True)
