"""The training of one child: a number of steps, validations between them, the best weights kept.

Source: docs/spec/munet.md#training. The model may be anything that answers logits; only the components that are
named learn, whatever else it is made of.

Legend: B samples, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.multitask.training.optimizer import Momentum, clip
from evodevo.multitask.training.values import OptimizerValues, PathTrainingSettings, learning_rate
from evodevo.tasks.multitask.batches import BatchPlan
from evodevo.training.precision import Precision

State = Mapping[str, Tensor]


class Data(Protocol):
    """The data of a child's training and validation, in the form that the model reads."""

    def training(self, step: int) -> tuple[Any, Tensor]:
        """Inputs and classes (B,) of a step."""
        ...

    def validation(self, batch: int) -> tuple[Any, Tensor]:
        """Inputs and classes (B,) of a batch of the validation split; the same at every look."""
        ...


@dataclass(frozen=True)
class PathResult:
    """The result of a training.

    Attributes:
        state: "diverged" where a loss or a gradient was not finite; it ended there, and the weights kept before remain.
        evals: accuracy at each validation, 0 to 1.
        kept: index of the validation whose weights are ``weights``; None where none passed the bar.
        weights: role -> state of each component that learned, at that validation, on the CPU.
        losses: mean training loss before each validation.
        steps: number of steps.
        samples: number of training samples.
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
        """The best accuracy."""
        return max(self.evals, default=None)


def train_path(
    model: nn.Module,
    components: Mapping[str, nn.Module],
    data: Data,
    plan: BatchPlan,
    settings: PathTrainingSettings,
    values: OptimizerValues,
    *,
    bar: float | None,
    precision: Precision,
    factors: Mapping[str, float] | None = None,
    tell: Callable[[int, int], None] = lambda step, steps: None,
) -> PathResult:
    """Train a child.

    Args:
        model: inputs of ``data`` -> logits (B, C). All its parameters are set to learn or not to.
        components: role -> component, part of the model, that learns. There may be none: then it is validated once.
        data: samples.
        plan: numbers of samples, steps and validations.
        settings: training settings of the agent.
        values: optimizer values of the child.
        bar: accuracy that has to be exceeded for weights to be kept; None lets any pass.
        precision: device and number format.
        factors: role -> factor of its learning rate.
        tell: called with the steps done and all steps after each validation.

    Returns:
        The result. The model has the kept weights, or where none were kept, the last ones.
    """
    learners = _unfreeze(model, components)
    momentum = Momentum(learners, values, torch.bfloat16 if settings.momentum_format == "bfloat16" else None, factors)
    looks = settings.validations if learners else 1
    steps = plan.between * looks if learners else 0
    evals: list[float] = []
    losses: list[float] = []
    kept: int | None = None
    weights: dict[str, State] = {}
    made = 0
    state: Literal["finished", "diverged"] = "finished"
    for look in range(looks):
        if learners:
            model.train()
            interval: list[float] = []
            for step in range(made, made + plan.between):
                rate = learning_rate(values, step, steps, plan.between)
                loss = _step(model, momentum, data.training(step), settings.clip, rate, precision)
                if loss is None:
                    break
                interval.append(loss)
            made += len(interval)
            if len(interval) < plan.between:
                state = "diverged"
                break
            losses.append(math.fsum(interval) / len(interval))
        quality = accuracy(model, (data.validation(number) for number in range(plan.validation_batches)), precision)
        # Strictly better: of equal validations the first is kept, as in the published code.
        if bar is None or quality > bar:
            kept, bar, weights = look, quality, {role: _copied(part) for role, part in components.items()}
        evals.append(quality)
        tell(made, steps)
    for role, weight in weights.items():
        components[role].load_state_dict(dict(weight))
    return PathResult(state, tuple(evals), kept, weights, tuple(losses), made, made * plan.batch)


@torch.no_grad()
def accuracy(model: nn.Module, batches: Any, precision: Precision) -> float:
    """The plain mean of the batches' accuracies, as all batches of a look have one size."""
    model.eval()
    shares = [_right(model, inputs, classes, precision) / len(classes) for inputs, classes in batches]
    return math.fsum(shares) / len(shares)


@torch.no_grad()
def _right(model: nn.Module, inputs: Any, classes: Tensor, precision: Precision) -> int:
    with precision.autocast():
        logits: Tensor = model(inputs)
    return int((logits.argmax(1) == classes).sum())


def _step(
    model: nn.Module, momentum: Momentum, batch: tuple[Any, Tensor], largest: float, rate: float, precision: Precision
) -> float | None:
    """The loss; None where it or a gradient is not finite, and nothing was changed."""
    inputs, classes = batch
    momentum.zero()
    with precision.autocast():
        logits: Tensor = model(inputs)
    # Under autocast logits have 16 bits; the loss is computed in float32 at least.
    loss = F.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), classes)
    loss.backward()  # type: ignore[no-untyped-call]
    norm = clip(list(momentum.parameters.values()), largest)
    value = float(loss.detach())
    # A finite loss may have gradients that are not, so both are checked, before anything is changed.
    if not (math.isfinite(value) and math.isfinite(norm)):
        return None
    momentum.step(rate)
    return value


def _unfreeze(model: nn.Module, components: Mapping[str, nn.Module]) -> dict[str, nn.Parameter]:
    """Let the components learn and nothing else; their parameters by "role.name"."""
    model.requires_grad_(False)
    learners: dict[str, nn.Parameter] = {}
    for role, part in components.items():
        part.requires_grad_(True)
        learners |= {f"{role}.{name}": parameter for name, parameter in part.named_parameters()}
    return learners


def _copied(part: nn.Module) -> State:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in part.state_dict().items()}
