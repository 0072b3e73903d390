"""The training of one child by the one training loop: its loss, its validations, and the weights that it keeps.

Source: docs/spec/munet.md#training. The model may be anything that answers logits; only the components that are
named learn, whatever else it is made of.

Legend: B samples, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.multitask.training.objective import ACCURACY, share_of
from evodevo.multitask.training.values import PathTrainingSettings
from evodevo.objectives.answered import Answered
from evodevo.tasks.multitask.batches import BatchPlan
from evodevo.training.loop import TrainingProgress, train
from evodevo.training.precision import Precision
from evodevo.training.settings import MomentumSettings

State = Mapping[str, Tensor]
Samples = tuple[Any, Tensor]
"""Input of the model, and classes (B,)."""


@dataclass(frozen=True)
class PathResult:
    """The result of a child's training.

    Attributes:
        state: "diverged" where a loss or a gradient was not finite, which ends the training; what was kept stays kept.
        evals: Accuracy at each validation, 0 to 1; with ``first_look`` the first one is before the first step.
        kept: Number of the validation whose weights are ``weights``, from 0; None where none exceeded the bar.
        weights: Role -> state of each component that learned, at that validation, on the CPU.
        losses: Mean training loss before each validation, in nats.
        steps: Number of steps.
        samples: Number of training samples, repetitions included.
    """

    state: Literal["finished", "diverged"]
    evals: tuple[float, ...]
    kept: int | None
    weights: Mapping[str, State]
    losses: tuple[float, ...]
    steps: int
    samples: int

    @property
    def quality(self) -> float | None:
        """The best accuracy, 0 to 1; None before the first validation."""
        return max(self.evals, default=None)


class _Learner(nn.Module):
    """A model of which only some components learn, with the losses of its steps since the last validation.

    The components come before the model, since the joint norm of the gradients is summed up in the order of parameters.
    """

    def __init__(self, model: nn.Module, components: Mapping[str, nn.Module]) -> None:
        super().__init__()
        model.requires_grad_(False)
        self.components = nn.ModuleList(components.values()).requires_grad_(True)
        self.model = model
        self.losses: list[Tensor] = []

    def loss(self, batch: Mapping[str, Any]) -> Tensor:
        """Mean cross-entropy, in nats."""
        logits: Tensor = self.model(batch["inputs"])
        # Under autocast logits have 16 bits; the loss is computed in float32 at least.
        loss = F.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), batch["classes"])
        self.losses.append(loss.detach())
        return loss


def train_path(
    model: nn.Module,
    components: Mapping[str, nn.Module],
    training: Callable[[int], Samples],
    judged: Callable[[], float],
    plan: BatchPlan,
    settings: PathTrainingSettings,
    optimizer: MomentumSettings,
    *,
    bar: float | None,
    precision: Precision,
    seed: int = 0,
    factors: Mapping[str, float] | None = None,
    on_validation: Callable[[int, int], None] = lambda step, steps: None,
) -> PathResult:
    """Train a child.

    Args:
        model: Model that maps inputs to logits (B, C), on its device. All its parameters are set to learn or not to.
        components: Role -> component of the model that learns; without any, the model is validated once.
        training: Function of the step that returns its batch.
        judged: Function that returns the model's quality on the validation split, 0 to 1.
        plan: Numbers of samples and steps.
        settings: Settings of the agent.
        optimizer: Settings of the child's optimiser.
        bar: Accuracy that has to be exceeded for weights to be kept; None = no bar.
        precision: Device and number format.
        seed: Seed of draws in a forward.
        factors: Role -> factor of its learning rate.
        on_validation: Function called after each validation with the number of steps and that of all steps.

    Returns:
        The result. The model has the weights that were kept, or where none were, the last ones.
    """
    learner = _Learner(model, components)
    evals: list[float] = []
    losses: list[float] = []
    kept: int | None = None
    weights: dict[str, State] = {}
    learns = any(parameter.requires_grad for parameter in learner.parameters())
    steps = settings.most(plan) if learns else 0

    def validate(step: int) -> None:
        nonlocal bar, kept, weights
        value = judged()
        # Strictly better: of equal validations the first is kept.
        if bar is None or value > bar:
            kept, bar = len(evals), value
            weights = {role: _copied(part) for role, part in components.items()}
        evals.append(value)
        on_validation(step, steps)

    def after_interval(progress: TrainingProgress) -> bool:
        losses.append(math.fsum(torch.stack(learner.losses).tolist()) / plan.between)
        learner.losses.clear()
        validate(progress.step)
        learner.train()
        ended = progress.step % (plan.between * settings.validations) == 0
        return not (ended and settings.is_flat(evals))

    def batch_at(step: int) -> dict[str, Any]:
        inputs, classes = training(step)
        return {"inputs": inputs, "classes": classes}

    diverged, made = False, 0
    if learns:
        if settings.first_look:
            validate(0)
        numbers = {role: f"components.{number}" for number, role in enumerate(components)}
        result = train(
            learner,
            settings.loop(plan, optimizer),
            batch_at=batch_at,
            tokens_per_step=plan.batch,
            seed=seed,
            report=after_interval,
            precision=precision,
            factors={numbers[role]: factor for role, factor in (factors or {}).items() if role in numbers},
        )
        diverged, made = result.state == "nan", result.steps
    else:
        validate(0)
    for role, weight in weights.items():
        components[role].load_state_dict(dict(weight))
    return PathResult(
        "diverged" if diverged else "finished", tuple(evals), kept, weights, tuple(losses), made, made * plan.batch
    )


@torch.no_grad()
def quality(objective: str, model: nn.Module, batches: Iterable[Samples], precision: Precision) -> float:
    """The quality by which children are selected, 0 to 1.

    Args:
        objective: Objective of the agent; see ``multitask.training.objective``.
        model: Model that maps inputs to logits (B, C).
        batches: Inputs and classes (B,) of batches of one size.
        precision: Device and number format.
    """
    if objective == ACCURACY:
        return accuracy(model, batches, precision)
    model.eval()
    answers: list[tuple[Tensor, Tensor]] = []
    for inputs, classes in batches:
        with precision.autocast():
            logits: Tensor = model(inputs)
        answers.append((logits.double().cpu(), classes.cpu()))
    logits, classes = (torch.cat(parts) for parts in zip(*answers, strict=True))
    return share_of(objective, Answered("class", logits.numpy(), classes.numpy()))


@torch.no_grad()
def accuracy(model: nn.Module, batches: Iterable[Samples], precision: Precision) -> float:
    """The mean accuracy of batches of one size, 0 to 1; the model is in evaluation mode afterwards."""
    model.eval()
    shares = []
    for inputs, classes in batches:
        with precision.autocast():
            logits: Tensor = model(inputs)
        shares.append(int((logits.argmax(1) == classes).sum()) / len(classes))
    return math.fsum(shares) / len(shares)


def _copied(part: nn.Module) -> State:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in part.state_dict().items()}
