"""Recall of a genome's architecture, apart from what a corpus taught it.

A network of the genome, of the same sizes but with the vocabulary of the task, is trained from scratch on a generated
recall task for the small budget of ``RecallProbeSettings``; the answer is its accuracy on validation sequences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import log

from evodevo import canonical
from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.recall.settings import RecallProbeSettings
from evodevo.backbone.space import BackboneSpace
from evodevo.experiments.measure import measure, places
from evodevo.networks.build import build_network
from evodevo.objectives.base import Measurement, Subject
from evodevo.randomness import integer_seed
from evodevo.settings import validate
from evodevo.tasks.base import NO_TARGET, TASKS
from evodevo.tasks.questions.accuracy import Accuracy, wilson_interval
from evodevo.training.loop import train
from evodevo.training.precision import decide
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

_MEASURED_AT_ONCE = 128


def recall_accuracy(task_name: str, subject: Subject) -> Measurement:
    """Share of answers that the genome's architecture gives after the budget, 0 to 1; NaN where the training failed."""
    device = "cpu" if subject.model is None else str(next(subject.model.parameters()).device)
    found = train_and_ask(
        task_name, subject.space, subject.genome, subject.recall or RecallProbeSettings(), subject.seed, device
    )
    return Measurement(math.nan if found is None else found.accuracy.value)


@dataclass(frozen=True)
class Recalled:
    """The recall of an architecture after its training.

    Attributes:
        digest: Digest of the sequences and of the training.
        guess: Accuracy of the best guess without memory, 0 to 1.
        accuracy: Share of right answers, 0 to 1.
    """

    digest: str
    guess: float
    accuracy: Accuracy


def train_and_ask(
    task_name: str, space: BackboneSpace, genome: BackboneGenome, settings: RecallProbeSettings, seed: int, device: str
) -> Recalled | None:
    """Train a network of a genome on a task of recall, and ask it on validation sequences; None where it diverged."""
    row = TASKS.get(task_name)
    sizes = {"length": settings.length, "vocabulary": settings.vocabulary}
    task = row.open(validate(row.settings_class, sizes, what=f"settings of the task {task_name!r}"))
    network = build_network(BackboneNetwork.of(space, genome), task.inputs, task.outputs, seed=seed)
    training = TrainingSettings(
        budget=Budget(steps=settings.steps),
        batch_size=settings.batch_size,
        optimizer=OptimizerSettings(learning_rate=settings.learning_rate),
        device=device,
    )
    data_seed = integer_seed(seed, "recall", task_name)
    result = train(
        network,
        training,
        batch_at=lambda step: task.batch("train", data_seed, step, settings.batch_size),
        tokens_per_step=settings.batch_size * settings.length,
        seed=seed,
        uniform_loss=log(settings.vocabulary),
    )
    if result.state != "finished":
        return None
    chosen = places(task, "validation", None)
    found = measure(network, task, "validation", chosen, batch_size=_MEASURED_AT_ONCE, precision=decide(device))
    targets = sum(
        int((task.fetch("validation", chosen[start : start + 1024])["next/target"] != NO_TARGET).sum())
        for start in range(0, len(chosen), 1024)
    )
    accuracy = Accuracy(found.accuracy, *wilson_interval(found.accuracy, targets), targets)
    digest = canonical.digest([task.digest, settings.model_dump(mode="json"), seed])
    return Recalled(digest, max(task.baselines("validation").values()), accuracy)
