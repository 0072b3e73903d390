"""A scikit-learn classifier with a zoo of modules: for numbers, texts, images, or all of them together.

What a default is worth: docs/results.md (2026-11-28), by ``benchmarks/zoo_classifier.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.classifier import Classifier, Lesson
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.plain_surroundings import PLAIN_SURROUNDINGS
from evodevo.tasks.base import Split


class ZooClassifier(Classifier):
    """A classifier with a router that weights its modules per sample.

    ``X`` is a table of numbers (n, features); texts; images as uint8 (n, height, width) or (n, height, width,
    channels); or a mapping or data frame with some of the columns ``image``, ``text`` and ``vectors``. In such
    columns None, an empty text and a row with NaN mark that a sample lacks that input. ``y`` holds one class per
    sample, or is an indicator matrix (n, labels).

    Args:
        width: Width d of the zoo.
        modules: Names of archetypes, ``start`` (one of each of the six), ``table_3`` (nine), or modules. More of them
            make a step slower, which a short training seldom makes up for.
        network: Any other setting of ``ZooStructure``, as plain data, where it is not to be that of ``surroundings``:
            ``{"pool": "mean"}``.
        epochs: Largest number of epochs, at least 1.
        seconds: Largest training time in seconds; None for no limit. A fit that the clock ends cannot be repeated
            exactly.
        learning_rate: Highest learning rate, after a warm-up.
        batch_size: Number of samples in a step, at least 1.
        validation_fraction: Fraction of the samples (or groups) held out to choose the best epoch by its AUC, by its
            loss where the AUC is not defined; 0 keeps the last epoch. Below 20 samples none are held out.
        patience: Number of epochs without improvement after which training stops; None trains to the end.
        text_length: Number of words of a text that are read.
        dropout: Dropout on the embeddings of each input, 0 to below 1.
        plain: Plain models (logistic regression, neighbours, trees) that are trained on the same samples before the
            zoo, and compared with it on the held out ones: with ``best`` whichever is best answers, a plain model
            then trained on all samples; with ``report`` the zoo does, and a warning names a plain model that is better
            by more than noise; False trains none. With a limit of seconds they have as many again.
        device: Device: auto, cpu, cuda, cuda:N.
        random_state: Seed of initial weights, order and dropout: a number, or a generator.
        verbose: Whether a line is printed for each epoch: above 0.

    Attributes:
        classes_: Classes in order; for labels their numbers.
        n_features_in_: Number of columns of a table of numbers.
        modules_: Ids of the modules.
        metric_: Metric that chose the epoch: ``auc``, ``loss``, or ``none``.
        best_epoch_, n_epochs_: Best epoch, from 1, and number of epochs trained, the last one perhaps in part.
        history_: Values per finished epoch: ``train_loss`` and, where samples were held out, ``loss`` and ``auc``.
        network_: Trained ``ModuleZoo``.
        comparison_, chosen_: The zoo beside plain models, and who answers; see ``Classifier``.
    """

    kept_format = "evodevo.zoo_classifier/1"
    surroundings: ClassVar[Mapping[str, Any]] = {**PLAIN_SURROUNDINGS, "pool": "positions"}
    kept_facts = ("metric_", "best_epoch_", "n_epochs_", "history_", "comparison_", "chosen_")

    def __init__(
        self,
        *,
        width: int = 64,
        modules: str | Sequence[str] | Sequence[ZooModule] = ("mlp",),
        network: Mapping[str, Any] | None = None,
        epochs: int = 60,
        seconds: float | None = None,
        learning_rate: float = 2e-3,
        batch_size: int = 32,
        validation_fraction: float = 0.1,
        patience: int | None = 10,
        text_length: int = 64,
        dropout: float = 0.1,
        plain: str | bool = "best",
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.width = width
        self.modules = modules
        self.network = network
        self.epochs = epochs
        self.seconds = seconds
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.text_length = text_length
        self.dropout = dropout
        self.plain = plain
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _divided(self, lesson: Lesson) -> dict[Split, NDArray[np.int64]]:
        from evodevo.estimators.fitting import divided

        return divided(lesson.answers, lesson.groups, self.validation_fraction)

    def _seconds(self) -> float | None:
        return self.seconds

    def _train(self, lesson: Lesson, places: Mapping[Split, NDArray[np.int64]]) -> None:
        from evodevo.estimators.fitting import FitPlan, build, fit

        task = lesson.task(places)
        plan = FitPlan(
            epochs=self.epochs,
            seconds=self.seconds,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            patience=self.patience,
            device=self.device,
            verbose=bool(self.verbose),
        )
        network = build(self._structure(lesson.seed), task.inputs, task.outputs, lesson.seed)
        course = fit(network, task, plan, lesson.seed)
        self._take(lesson.reading, lesson.targets, network)
        self.metric_ = course.metric
        self.best_epoch_ = course.best_epoch
        self.n_epochs_ = course.epochs
        self.history_ = course.history
