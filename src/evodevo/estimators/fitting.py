"""Training in this process, epoch by epoch; the weights of the best epoch are kept.

Legend: n samples.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.estimators.answering import kind_of, logits
from evodevo.estimators.targets import ANSWER
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.build import build_network
from evodevo.randomness import generator
from evodevo.settings import Settings, validate
from evodevo.tasks.base import OutputSpec, Split
from evodevo.tasks.in_memory import InMemoryTask
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.table.group_splits import Shares, divide
from evodevo.training.loop import TrainingProgress, TrainingResult, train
from evodevo.training.metrics import judge
from evodevo.training.precision import Precision, decide
from evodevo.training.settings import TrainingSettings

FEWEST = 20
"""Number of samples below which none are held out: a handful is too few to judge an epoch."""
SPLITS: tuple[Split, ...] = ("train", "validation", "architecture")


class FitPlan(Settings):
    """Settings of a training; the parameters of ``ZooClassifier`` by the same names."""

    epochs: int
    seconds: float | None
    learning_rate: float
    batch_size: int
    patience: int | None
    device: str
    verbose: bool


@dataclass
class FitHistory:
    """Record of a training; see the attributes of ``ZooClassifier``."""

    metric: str
    best_epoch: int = 0
    epochs: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


def build(
    structure: ZooStructure, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...], seed: int
) -> ModuleZoo:
    """Build an untrained network."""
    return build_network(ModuleZooNetwork(structure=structure), inputs, outputs, seed)


def divided(
    answers: NDArray[Any], groups: Any, validation: float, architecture: float = 0.0
) -> dict[Split, NDArray[np.int64]]:
    """Indices of each split; classes are spread evenly, groups stay together.

    Where there are too few samples or groups for all, the split ``architecture`` stays empty first, then validation.

    Args:
        answers: Classes (n,) or labels (n, labels).
        groups: Group of each sample, (n,); None where every sample is its own group.
        validation, architecture: Fractions of the samples, 0 to below 1.

    Raises:
        UsageError: A fraction out of range, or groups of another number than samples.
    """
    count = len(answers)
    if not 0 <= validation < 1:
        raise UsageError(f"validation_fraction is {validation}; it must be 0 or more and below 1.")
    if not 0 <= architecture < 1 - validation:
        raise UsageError(
            f"architecture_fraction is {architecture}; it must be 0 or more, and leave training samples beside a "
            f"validation_fraction of {validation}."
        )
    names = np.arange(count) if groups is None else np.asarray(groups)
    if names.shape != (count,):
        raise UsageError(f"groups need one value for each of {count} samples; they have the shape {names.shape}.")
    shares: dict[Split, float] = {"train": 1 - validation - architecture}
    shares |= {"validation": validation} if validation else {}
    shares |= {"architecture": architecture} if architecture else {}
    most = 1 if count < FEWEST else len(np.unique(names))
    splits = list(shares)[:most]
    indices: dict[Split, NDArray[np.int64]] = {"train": np.arange(count)}
    if len(splits) > 1:
        classes = [row.tobytes() for row in np.ascontiguousarray(answers)]
        given = Shares(**{split: shares[split] for split in splits})
        indices = divide([str(name).encode() for name in names.tolist()], classes, given, splits)
    return {"train": indices["train"], **{split: indices.get(split, np.zeros(0, np.int64)) for split in SPLITS[1:]}}


def fit(network: ModuleZoo, task: InMemoryTask, plan: FitPlan, seed: int) -> FitHistory:
    """Train in place; afterwards the network has the weights of its best epoch.

    Raises:
        UsageError: An invalid parameter, a loss that is not finite, or a budget of less than one step.
    """
    count = task.count("train")
    size = min(positive("batch_size", plan.batch_size), count)
    steps = -(-count // size)
    values = {
        "budget": {"steps": positive("epochs", plan.epochs) * steps, "seconds": plan.seconds},
        "optimizer": {"learning_rate": plan.learning_rate},
        "batch_size": size,
        "device": plan.device,
        "report_every": steps,
    }
    settings = validate(TrainingSettings, values, what="ZooClassifier")
    precision = decide(plan.device)
    if plan.patience is not None:
        positive("patience", plan.patience)
    choice = _Choice(network, task, plan, precision)

    def batch_at(step: int) -> Batch:
        epoch, place = divmod(step, steps)
        order = generator(seed, epoch, "order").permutation(count)
        return task.fetch("train", order[place * size : (place + 1) * size])

    result = train(
        network,
        settings,
        batch_at=batch_at,
        tokens_per_step=size,
        seed=seed,
        report=lambda now: choice.look(now, now.step // steps),
        precision=precision,
    )
    check_result(result)
    choice.course.epochs = -(-result.steps // steps)
    if result.steps < steps:
        warnings.warn(
            f"{plan.seconds:g} seconds ended the training after {result.steps / steps:.0%} of one epoch; give more.",
            ConvergenceWarning,
            stacklevel=4,
        )
    choice.restore()
    network.to("cpu").eval()
    return choice.course


class _Choice:
    """Evaluates on the validation samples after every epoch, and keeps the best weights."""

    def __init__(self, network: ModuleZoo, task: InMemoryTask, plan: FitPlan, precision: Precision) -> None:
        self.network, self.plan, self.precision = network, plan, precision
        self.output = network.output_specs[0]
        self.samples: Batch | None = None
        self.course = FitHistory("none")
        self._best = (-math.inf, -math.inf)
        self._weights: dict[str, Tensor] | None = None
        if "validation" in task.splits:
            self.samples = task.fetch("validation", np.arange(task.count("validation")))
            self.course.metric = "auc" if has_auc(self.output, self.samples[f"{ANSWER}/target"]) else "loss"

    def look(self, now: TrainingProgress, epoch: int) -> bool | None:
        """Evaluate after an epoch; False ends the training."""
        course = self.course
        known = {"train_loss": now.loss}
        if self.samples is None:
            course.best_epoch = epoch
        else:
            scores = logits(self.network, self.samples, self.output, self.precision)
            metrics = judge(kind_of(self.output), scores, self.samples[f"{ANSWER}/target"]).metrics
            known |= {"loss": metrics["log_loss"], "auc": metrics["auc"]}
            # Few samples often have the same AUC; then the loss decides.
            value = (metrics["auc"] if course.metric == "auc" else 0.0, -metrics["log_loss"])
            if value > self._best:
                self._best, course.best_epoch = value, epoch
                self._weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        course.history.append(known)
        if self.plan.verbose:
            print(f"epoch {epoch}: " + ", ".join(f"{name} {value:.4f}" for name, value in known.items()))
        patience = self.plan.patience
        return patience is None or self.samples is None or epoch - course.best_epoch < patience

    def restore(self) -> None:
        """Load the best weights, where there are some."""
        if self._weights is not None:
            self.network.load_state_dict(self._weights)


def has_auc(output: OutputSpec, targets: NDArray[Any]) -> bool:
    """Whether the AUC is defined on these samples, for any prediction."""
    guess = np.zeros((len(targets), output.size))
    return not math.isnan(judge(kind_of(output), guess, targets).metrics["auc"])


def positive(name: str, value: int) -> int:
    """Return the value, where it is above 0.

    Raises:
        UsageError: It is below 1.
    """
    if value < 1:
        raise UsageError(f"{name} is {value}; it must be 1 or more.")
    return value


def check_result(result: TrainingResult) -> None:
    """Check that a training succeeded.

    Raises:
        UsageError: Its loss was not finite or diverged, or there was no step.
    """
    if result.state in ("nan", "diverged"):
        raise UsageError(f"the training failed: {result.reason}. Try a smaller learning_rate.")
    if result.steps == 0:
        raise UsageError("the budget ended before the first step; give more seconds.")
