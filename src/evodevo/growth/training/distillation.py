"""Distillation of one network into another (Hinton et al. 2015): after a layer was removed, or before.

Works for any two networks with the same named outputs (``networks.base.Network``), whatever they are made of.

Legend: B samples, L positions, d width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.errors import UsageError
from evodevo.settings import Settings
from evodevo.tasks.base import OutputSpec
from evodevo.training.loop import LossFunction, TrainingProgress, TrainingResult, train
from evodevo.training.precision import Batch, Precision, decide
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings


class DistillationSettings(Settings):
    """Targets of distillation and their weights.

    Attributes:
        temperature: Temperature of both outputs; the loss is multiplied by its square, so that gradients keep size.
        answers: Weight of the divergence between outputs, at least 0.
        representation: Weight of the mean squared distance between pooled representations, relative to the mean square
            of the teacher's; both must be of one width.
        task: Weight of the student's own loss, which needs targets; at least 0.
    """

    temperature: float = Field(default=2.0, gt=0, le=100)
    answers: float = Field(default=1.0, ge=0)
    representation: float = Field(default=0.0, ge=0)
    task: float = Field(default=0.0, ge=0)


class DistillationLoss:
    """A loss function for ``training.loop.train``: the distance of the student from the teacher.

    Args:
        teacher: Teacher; set to evaluation mode and not changed otherwise.
        settings: Terms and weights.

    Raises:
        UsageError: All weights are 0.
    """

    def __init__(self, teacher: nn.Module, settings: DistillationSettings | None = None) -> None:
        self.settings = settings or DistillationSettings()
        if not (self.settings.answers or self.settings.representation or self.settings.task):
            raise UsageError("nothing is distilled: give answers, representation or task a weight above 0.")
        self.teacher = teacher.eval()

    def __call__(self, student: nn.Module, batch: Any) -> Tensor:
        """The loss on a batch."""
        wanted, losses = self.settings, []
        network: Any = student
        if wanted.answers:
            with torch.no_grad():
                taught = self.teacher(batch)
            specs = tuple(network.output_specs)
            _check_answers(specs, taught)
            student_answers = network(batch)
            parts = []
            for spec in specs:
                real = batch.get(f"{spec.of}/mask") if spec.kind == "tokens" else None
                parts.append(divergence(spec, student_answers[spec.name], taught[spec.name], wanted.temperature, real))
            losses.append(wanted.answers * torch.stack(parts).mean())
        if wanted.representation:
            losses.append(wanted.representation * self._distance(network, batch))
        if wanted.task:
            losses.append(wanted.task * network.loss(batch))
        return torch.stack(losses).sum()

    def _distance(self, student: Any, batch: Any) -> Tensor:
        teacher: Any = self.teacher
        with torch.no_grad():
            goal: Tensor = teacher.represent(batch).pooled
        representation: Tensor = student.represent(batch).pooled
        if representation.shape != goal.shape:
            raise UsageError(
                f"the student's representation is {representation.shape[-1]} wide, the teacher's {goal.shape[-1]}; "
                "distil answers only, or take equal widths."
            )
        return F.mse_loss(representation, goal) / goal.square().mean().clamp(min=torch.finfo(goal.dtype).eps)


def divergence(
    spec: OutputSpec, student: Tensor, teacher: Tensor, temperature: float, real: Tensor | None = None
) -> Tensor:
    """KL(teacher || student) of softened outputs times the squared temperature, mean over samples (and positions).

    Args:
        spec: Specification of the output; the divergences of independent labels are summed.
        student, teacher: Logits, (B, size) or (B, L, size).
        temperature: Temperature of both, above 0.
        real: Mask of the positions that count, (B, L); all if left out.
    """
    precise = torch.promote_types(student.dtype, torch.float32)
    student, teacher = student.to(precise) / temperature, teacher.to(precise) / temperature
    if spec.kind == "labels":
        goal = torch.sigmoid(teacher)
        yes = goal * (F.logsigmoid(teacher) - F.logsigmoid(student))
        each = (yes + (1 - goal) * (F.logsigmoid(-teacher) - F.logsigmoid(-student))).sum(-1)
    else:
        goal = teacher.log_softmax(-1)
        each = (goal.exp() * (goal - student.log_softmax(-1))).sum(-1)
    if real is None:
        mean = each.mean()
    else:
        mean = (each * real).sum() / real.sum().clamp(min=1)
    return mean * temperature**2


def distil(
    teacher: nn.Module,
    student: nn.Module,
    batch_at: Callable[[int], Batch],
    steps: int,
    *,
    batch_size: int,
    seed: int,
    settings: DistillationSettings | None = None,
    optimizer: OptimizerSettings | None = None,
    report: Callable[[TrainingProgress], bool | None] | None = None,
    precision: Precision | None = None,
) -> TrainingResult:
    """Train a student, in place, to match the teacher's outputs.

    Args:
        teacher: Teacher, moved to the student's device; not changed otherwise.
        student: Network to train; frozen parameters stay.
        batch_at: Returns the batch of step k, a function of k alone; needs no targets unless the task counts.
        steps: Number of optimiser steps.
        batch_size: Number of samples in a batch.
        seed: Seed of random numbers drawn in the forward pass.
        settings: Terms and weights of the loss.
        optimizer: Settings of the optimiser.
        report: Progress callback, as in ``train``.
        precision: Device and number format.

    Raises:
        UsageError: The outputs differ from the teacher's, or nothing is trainable.
    """
    loss: LossFunction = DistillationLoss(teacher, settings)
    training = TrainingSettings(
        budget=Budget(steps=steps), optimizer=optimizer or OptimizerSettings(), batch_size=batch_size
    )
    precision = precision or decide()
    teacher.to(precision.device)
    return train(
        student,
        training,
        batch_at=batch_at,
        tokens_per_step=batch_size,
        seed=seed,
        loss_function=loss,
        report=report,
        precision=precision,
    )


def _check_answers(specs: Sequence[OutputSpec], taught: Mapping[str, Tensor]) -> None:
    for spec in specs:
        if spec.name not in taught:
            raise UsageError(f"the teacher does not answer {spec.name!r}; it answers {', '.join(taught)}.")
        if taught[spec.name].shape[-1] != spec.size:
            raise UsageError(
                f"the teacher's answer {spec.name!r} has {taught[spec.name].shape[-1]} values, "
                f"the student's {spec.size}."
            )
