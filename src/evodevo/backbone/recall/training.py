"""How much a genome's architecture remembers, apart from what a corpus taught it.

A network of the genome, of the same sizes but with the vocabulary of the task, is trained from scratch on a generated
recall task for the small budget of ``RecallProbeSettings``; the answer is its accuracy on validation sequences.
"""

from __future__ import annotations

import math
from math import log

from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.recall.settings import RecallProbeSettings
from evodevo.experiments.measure import measure, places
from evodevo.networks.build import build_network
from evodevo.objectives.base import Measurement, Subject
from evodevo.randomness import integer_seed
from evodevo.settings import validate
from evodevo.tasks.base import TASKS
from evodevo.training.loop import train
from evodevo.training.precision import decide
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

_MEASURED_AT_ONCE = 128


def recall_accuracy(task_name: str, subject: Subject) -> Measurement:
    """Share of answers that the genome's architecture gives after the budget, 0 to 1; NaN where the training failed."""
    settings: RecallProbeSettings = subject.recall or RecallProbeSettings()
    device = "cpu" if subject.model is None else str(next(subject.model.parameters()).device)
    row = TASKS.get(task_name)
    sizes = {"length": settings.length, "vocabulary": settings.vocabulary}
    task = row.open(validate(row.settings_class, sizes, what=f"settings of the task {task_name!r}"))
    network = build_network(
        BackboneNetwork.of(subject.space, subject.genome), task.inputs, task.outputs, seed=subject.seed
    )
    training = TrainingSettings(
        budget=Budget(steps=settings.steps),
        batch_size=settings.batch_size,
        optimizer=OptimizerSettings(learning_rate=settings.learning_rate),
        device=device,
    )
    data_seed = integer_seed(subject.seed, "recall", task_name)
    result = train(
        network,
        training,
        batch_at=lambda step: task.batch("train", data_seed, step, settings.batch_size),
        tokens_per_step=settings.batch_size * settings.length,
        seed=subject.seed,
        uniform_loss=log(settings.vocabulary),
    )
    if result.state != "finished":
        return Measurement(math.nan)
    chosen = places(task, "validation", None)
    found = measure(network, task, "validation", chosen, batch_size=_MEASURED_AT_ONCE, precision=decide(device))
    return Measurement(found.accuracy)
