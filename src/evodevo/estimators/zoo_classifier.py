"""A zoo of modules as a scikit-learn classifier: of numbers, texts, images, or all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from evodevo.errors import UsageError
from evodevo.estimators.reading import VECTORS, Columns, Reading, columns_of
from evodevo.estimators.targets import Targets, read_targets
from evodevo.settings import validate
from evodevo.spaces.zoo_genotype import ZooModule
from evodevo.spaces.zoo_structure import ZooStructure
from evodevo.tasks.in_memory import InMemoryTask

if TYPE_CHECKING:
    from evodevo.models.module_zoo import ModuleZoo


class ZooClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose modules are chosen per sample by a router.

    ``X`` is a table of numbers (n, features); texts; images as uint8 (n, height, width) or (n, height, width,
    channels); or a mapping or data frame with some of the columns ``image``, ``text`` and ``vectors``. In such
    columns None, an empty text and a row with NaN say that a sample lacks that input. ``y`` holds one class per
    sample, or is an indicator matrix (n, labels).

    Args:
        width: d of the zoo.
        modules: ``start`` (one of each of the six archetypes), ``table_3`` (nine), names of archetypes, or modules.
        epochs: at most.
        seconds: of training at most; a fit that the clock ends cannot be repeated exactly.
        learning_rate: the highest, after a warm-up.
        batch_size: samples of a step.
        validation_fraction: of the samples (of the groups), kept aside to choose the best epoch by its AUC, by its
            loss where the AUC is not defined; 0 keeps the last epoch. Below 20 samples none are kept aside.
        patience: epochs without improvement after which training stops; None trains to the end.
        text_length: words of a text that are read.
        dropout: on the embeddings of each input.
        device: auto, cpu, cuda, cuda:N.
        random_state: of initial weights, order and dropout: a number, or a generator.
        verbose: above 0 prints a line for each epoch.

    Attributes:
        classes_: the classes in order; of labels their numbers.
        n_features_in_: columns of a table of numbers.
        modules_: ids of the modules.
        metric_: what chose the epoch: ``auc``, ``loss``, or ``none``.
        best_epoch_, n_epochs_: counted from 1; epochs that were trained, the last one perhaps in part.
        history_: per finished epoch ``train_loss`` and, where samples were kept aside, ``loss`` and ``auc``.
        network_: the ``ModuleZoo``.
    """

    classes_: NDArray[Any]
    network_: ModuleZoo

    def __init__(
        self,
        *,
        width: int = 64,
        modules: str | Sequence[str] | Sequence[ZooModule] = "start",
        epochs: int = 60,
        seconds: float | None = None,
        learning_rate: float = 2e-3,
        batch_size: int = 32,
        validation_fraction: float = 0.1,
        patience: int | None = 10,
        text_length: int = 64,
        dropout: float = 0.1,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.width = width
        self.modules = modules
        self.epochs = epochs
        self.seconds = seconds
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.text_length = text_length
        self.dropout = dropout
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Train from scratch.

        Args:
            X: samples; see the class.
            y: classes (n,) or labels (n, labels).
            groups: (n,) what must not stand on both sides of the validation split, for example the author.

        Raises:
            ValueError: samples, targets or parameters that cannot be used.
        """
        from evodevo.estimators.fitting import Plan, build, divided, fit

        columns, y = self._columns(X, y, first=True)
        reading = Reading.of(columns, self.text_length)
        batch = reading.read(columns)
        targets, answers = read_targets(y, len(next(iter(batch.values()))))
        seed = int(check_random_state(self.random_state).randint(2**31))
        train, validation = divided(answers, groups, self.validation_fraction)
        samples = {**batch, f"{targets.output.name}/target": answers}
        parts: Any = {"train": {name: array[train] for name, array in samples.items()}}
        if len(validation):
            parts["validation"] = {name: array[validation] for name, array in samples.items()}
        task = InMemoryTask(reading.inputs, (targets.output,), parts)
        plan = Plan(
            epochs=self.epochs,
            seconds=self.seconds,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            patience=self.patience,
            device=self.device,
            verbose=bool(self.verbose),
        )
        network = build(self._structure(seed), task.inputs, task.outputs, seed)
        course = fit(network, task, plan, seed)
        self._take(reading, targets, network)
        self.metric_ = course.metric
        self.best_epoch_ = course.best_epoch
        self.n_epochs_ = course.epochs
        self.history_ = course.history
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities: of classes (n, classes), each row sums to 1; of labels (n, labels), each for itself."""
        from evodevo.estimators.answering import probabilities

        batch = self._batch(X)
        return probabilities(self.network_, batch, self._targets.output, self.device)

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class (n,), or the labels with a probability above one half, as an indicator (n, labels)."""
        found = self.predict_proba(X)
        if self._targets.output.kind == "labels":
            return (found > 0.5).astype(np.int64)
        chosen: NDArray[Any] = self.classes_[found.argmax(1)]
        return chosen

    def routing(self, X: Any) -> dict[str, NDArray[np.float64]]:
        """How much each module counts for each sample: id -> weights (n,)."""
        from evodevo.estimators.answering import weights

        batch = self._batch(X)
        return weights(self.network_, batch, self.device)

    def save(self, folder: str | Path) -> None:
        """Write the fitted classifier: ``zoo.json`` and ``weights.safetensors``; nothing in them is code.

        Raises:
            UsageError: classes that are neither texts nor numbers, or a folder that holds other files.
        """
        from evodevo.estimators.keeping import save

        check_is_fitted(self)
        save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A classifier that was saved.

        Raises:
            NotFoundError: nothing there.
            UnsafeFileError: files of another kind, or damaged ones.
        """
        from evodevo.estimators.keeping import load

        return load(cls, Path(folder))

    def _columns(self, X: Any, y: Any = None, *, first: bool = False) -> tuple[Columns, Any]:
        columns = columns_of(X)
        if columns is None:
            more = {"y": y, "multi_output": True} if first else {}
            checked: Any = validate_data(self, X, reset=first, dtype=np.float64, **more)
            table, y = checked if first else (checked, None)
            return {VECTORS: table}, y
        if first and y is None:
            raise UsageError("the classifier requires y to be passed, but the target y is None.")
        if first and "n_features_in_" in vars(self):
            del self.n_features_in_
        return columns, y

    def _batch(self, X: Any) -> Any:
        check_is_fitted(self)
        reading: Reading = self._reading
        return reading.read(self._columns(X)[0])

    def _structure(self, seed: int) -> ZooStructure:
        from evodevo.estimators.zoos import zoo

        modules = [module.model_dump(mode="json") for module in zoo(self.modules, self.width, seed)]
        values = {"width": self.width, "modules": modules, "dropout": self.dropout}
        return validate(ZooStructure, values, what="ZooClassifier")

    def _take(self, reading: Reading, targets: Targets, network: ModuleZoo) -> None:
        self._reading = reading
        self._targets = targets
        self.classes_ = targets.classes
        self.network_ = network
        self.modules_ = [module.id for module in network.structure.modules]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.input_tags.string = True
        tags.input_tags.three_d_array = True
        return tags
