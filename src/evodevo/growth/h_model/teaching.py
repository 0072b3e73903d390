"""Distillation of a hidden layer into the others before it is removed (after eq. 94).

The teacher is the model while it still has the layer: its outputs for some training batches are kept. The student is
the same model with the layer unborn; only hidden layers and their routers are trained. A zoo compares the mixture of
its router; an H-Model has several outputs that receive in all iterations, so that outputs are compared.

Legend: B samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.growth.growable import Growable
from evodevo.growth.h_model.probing import under
from evodevo.growth.training.distillation import divergence
from evodevo.growth.training.distillation_buffer import Distilled, learn_in_turn, mode
from evodevo.h_model.model import HModel
from evodevo.training.precision import Batch, Precision

LEARNING = ("core.layers.", "core.routers.", "core.input_routers.", "core.router.", "core.aggregation.")
"""Prefixes of the parameters that are trained."""
TEMPERATURE = 2.0
BATCHES = 8


@dataclass(frozen=True)
class TeacherAnswers:
    """A batch and the teacher's outputs for it."""

    batch: Mapping[str, Tensor]
    answers: Mapping[str, Tensor]


def distil_layer(
    model: HModel,
    pool: Growable,
    name: str,
    batch_at: Callable[[int], Batch],
    steps: int,
    *,
    tolerance: float,
    batch_size: int,
    seed: int,
    precision: Precision,
) -> Distilled:
    """Train the other layers, in place, to replace one; birth factors and trainable parameters are restored afterwards.

    Args:
        model: Model to train.
        pool: Its layers as modules.
        name: Id of the layer that will be removed. It does not change.
        batch_at: Returns batch k of training samples; the first 8 are kept and used in turn.
        steps: Largest number of steps (T_kd); 0 only measures.
        tolerance: Divergence of outputs in nats, over the kept batches, at which it ends early.
        batch_size: Number of samples in a batch.
        seed: Seed of random numbers drawn by layers in training.
        precision: Device and number format.

    Raises:
        UsageError: No such layer, or it is the only one.
    """
    place = pool.place(name)
    if len(pool.live) == 1:
        raise UsageError(f"{name!r} is the only hidden layer; nobody is left to learn from it.")
    teacher_answers = _taught(model, [batch_at(number) for number in range(max(1, min(BATCHES, steps)))], precision)
    own = f"core.layers.{place}."
    with under(model, births={**model.births, place: 0.0}):
        return learn_in_turn(
            model,
            len(teacher_answers),
            lambda number: _loss(model, teacher_answers[number]),
            steps,
            may_learn=lambda parameter: parameter.startswith(LEARNING) and not parameter.startswith(own),
            tolerance=tolerance,
            batch_size=batch_size,
            seed=seed,
            precision=precision,
        )


@torch.no_grad()
def _taught(model: HModel, batches: Sequence[Batch], precision: Precision) -> tuple[TeacherAnswers, ...]:
    outputs = []
    with mode(model, training=False), precision.autocast():
        for batch in batches:
            placed: Any = precision.place(batch)
            answers = {name: answer.float() for name, answer in model(placed).items()}
            outputs.append(TeacherAnswers(placed, answers))
    return tuple(outputs)


def _loss(model: HModel, taught: TeacherAnswers) -> Tensor:
    """Divergence of the outputs in nats, the mean over outputs."""
    outputs = model(taught.batch)
    parts = []
    for spec in model.output_specs:
        real = taught.batch.get(f"{spec.of}/mask") if spec.kind == "tokens" else None
        parts.append(divergence(spec, outputs[spec.name], taught.answers[spec.name], TEMPERATURE, real))
    return torch.stack(parts).mean()
