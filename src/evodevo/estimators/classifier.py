"""Base of the library's classifiers: inputs, targets, predictions, and saving.

A subclass adds its parameters in ``__init__`` (scikit-learn reads their names there), and ``_train``.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from evodevo.errors import UsageError
from evodevo.estimators.reading import VECTORS, Columns, InputReading, columns_of
from evodevo.estimators.targets import EstimatorTargets, read_targets
from evodevo.module_zoo.plain_surroundings import PLAIN_SURROUNDINGS
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import merge, validate
from evodevo.tasks.base import Split
from evodevo.tasks.in_memory import InMemoryTask
from evodevo.tasks.inputs import Batch

if TYPE_CHECKING:
    from evodevo.estimators.automatic.candidates.base import ProbabilityModel
    from evodevo.estimators.plain_models import PlainModels
    from evodevo.module_zoo.model import ModuleZoo


@dataclass(frozen=True)
class Lesson:
    """Data on which a classifier is fitted.

    Attributes:
        reading: Conversion of samples to arrays.
        targets: Output and classes.
        samples: Inputs and targets of all samples.
        answers: Targets alone: classes (n,) or labels (n, labels).
        groups: Groups as passed to ``fit``.
        seed: Seed of everything that is drawn.
    """

    reading: InputReading
    targets: EstimatorTargets
    samples: Batch
    answers: NDArray[Any]
    groups: Any
    seed: int

    def task(self, places: Mapping[Split, NDArray[np.int64]]) -> InMemoryTask:
        """A task with the samples of each split that has some."""
        parts: Any = {
            split: {name: array[rows] for name, array in self.samples.items()}
            for split, rows in places.items()
            if len(rows)
        }
        return InMemoryTask(self.reading.inputs, (self.targets.output,), parts)


class Classifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A zoo of modules as a classifier; see the subclasses for the possible ``X`` and ``y``.

    Attributes:
        kept_format: Format name in a saved classifier.
        kept_facts: Attributes that are saved with it, as JSON.
        surroundings: Settings of ``ZooStructure`` where the parameter ``network`` does not say otherwise.
        comparison_: The zoo beside plain models on the samples that were held out, as plain data: ``metric``, ``held``
            (number of samples), ``scores`` by name, ``best`` of all, ``best_plain`` and its ``lead`` over the zoo with
            a 95 % interval (``lead_low``, ``lead_high``), ``p_value`` of an exact sign test, ``better`` (the interval
            is above 0 and the p-value below 0.025), ``left_out``. None where nothing was compared.
        chosen_: Who answers: ``zoo``, or the name of a plain model.
    """

    kept_format: ClassVar[str]
    kept_facts: ClassVar[tuple[str, ...]]
    surroundings: ClassVar[Mapping[str, Any]] = PLAIN_SURROUNDINGS
    width: int
    modules: Any
    network: Mapping[str, Any] | None
    dropout: float
    text_length: int
    device: str
    random_state: Any
    plain: Any
    verbose: int
    classes_: NDArray[Any]
    network_: ModuleZoo
    modules_: list[str]
    comparison_: dict[str, Any] | None
    chosen_: str
    _plain_model: ProbabilityModel | None

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Train from scratch.

        Args:
            X: Samples; see the class.
            y: Classes (n,) or labels (n, labels).
            groups: Group of each sample, (n,), which no split may divide, for example the author.

        Raises:
            ValueError: Samples, targets or parameters that cannot be used.

        Warns:
            UserWarning: A plain model is better than the zoo by more than noise, and ``plain`` is ``report``.
        """
        if self.plain not in (False, "best", "report"):
            raise UsageError(f"plain is {self.plain!r}; give 'best', 'report' or False.")
        columns, y = self._columns(X, y, first=True)
        reading = InputReading.of(columns, self.text_length)
        batch = reading.read(columns)
        targets, answers = read_targets(y, len(next(iter(batch.values()))))
        samples = {**batch, f"{targets.output.name}/target": answers}
        seed = int(check_random_state(self.random_state).randint(2**31))
        lesson = Lesson(reading, targets, samples, answers, groups, seed)
        places = self._divided(lesson)
        self._structure(seed)  # what is wrong with it is said before the work
        rivals = self._rivals(lesson, columns, places)
        self._train(lesson, places)
        self._compare(lesson, rivals)
        return self

    @abstractmethod
    def _divided(self, lesson: Lesson) -> dict[Split, NDArray[np.int64]]:
        """Rows of each split."""

    @abstractmethod
    def _train(self, lesson: Lesson, places: Mapping[Split, NDArray[np.int64]]) -> None:
        """Train a network, ``_take`` it, and set the other attributes of a fit."""

    @abstractmethod
    def _seconds(self) -> float | None:
        """Largest training time; None for no limit."""

    def _rivals(
        self, lesson: Lesson, columns: Columns, places: Mapping[Split, NDArray[np.int64]]
    ) -> PlainModels | None:
        """The plain models; None where they are not wanted, or nothing is held out by which to judge them."""
        if not self.plain or not len(places["validation"]):
            return None
        from evodevo.estimators.answering import kind_of
        from evodevo.estimators.plain_models import PlainModels, labelled, plain_samples

        output = lesson.targets.output
        samples = plain_samples(columns, lesson.reading)
        data = labelled(samples, lesson.answers, kind_of(output), output.size, lesson.seed)
        return PlainModels.of(data, places["train"], places["validation"], self._seconds())

    def _compare(self, lesson: Lesson, rivals: PlainModels | None) -> None:
        from evodevo.estimators.answering import probabilities
        from evodevo.estimators.plain_models import ZOO

        self.comparison_, self.chosen_, self._plain_model = None, ZOO, None
        if rivals is None:
            return
        batch = {name: array[rivals.held] for name, array in lesson.samples.items()}
        found = rivals.compared(probabilities(self.network_, batch, lesson.targets.output, self.device))
        self.comparison_ = found
        if found is None:
            return
        if self.plain == "best" and found["best"] != ZOO:
            self.chosen_ = found["best"]
            self._plain_model = rivals.final(self.chosen_)
        if self.verbose:
            print(self.verdict_)
        if found["better"] and self.chosen_ == ZOO:
            warnings.warn(
                f"{self.verdict_} plain='best' answers with what is best, plain=False trains no plain models.",
                UserWarning,
                stacklevel=3,
            )

    @property
    def verdict_(self) -> str:
        """Which model is best and which answers, the noise, and the score of every other, in words."""
        from evodevo.estimators.plain_models import sentence

        check_is_fitted(self, "chosen_")
        found = self.comparison_
        return "the zoo answers; nothing was compared with it." if found is None else sentence(found, self.chosen_)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities: of classes (n, classes), where each row sums to 1; of labels (n, labels), independent."""
        from evodevo.estimators.answering import probabilities

        check_is_fitted(self)
        if self._plain_model is not None:
            from evodevo.estimators.plain_models import plain_samples

            return self._plain_model.probabilities(plain_samples(self._columns(X)[0], self._reading))
        batch = self._batch(X)
        return probabilities(self.network_, batch, self._targets.output, self.device)

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class (n,), or the labels with a probability above one half, as an indicator (n, labels)."""
        chances = self.predict_proba(X)
        if self._targets.output.kind == "labels":
            return (chances > 0.5).astype(np.int64)
        chosen: NDArray[Any] = self.classes_[chances.argmax(1)]
        return chosen

    def routing(self, X: Any) -> dict[str, NDArray[np.float64]]:
        """Router weight of each module of the zoo for each sample, (n,), by id."""
        from evodevo.estimators.answering import weights

        batch = self._batch(X)
        return weights(self.network_, batch, self.device)

    def save(self, folder: str | Path) -> None:
        """Write the fitted classifier: ``zoo.json`` and ``weights.safetensors``; neither holds code.

        Raises:
            UsageError: Classes that are neither texts nor numbers, or a folder that holds other files.
        """
        from evodevo.estimators.keeping import save

        check_is_fitted(self)
        save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a classifier that was saved.

        Raises:
            NotFoundError: The folder holds no classifier.
            UnsafeFileError: Files of another kind, or damaged ones.
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
        reading: InputReading = self._reading
        return reading.read(self._columns(X)[0])

    def _structure(self, seed: int) -> ZooStructure:
        from evodevo.estimators.zoos import zoo

        if self.network is not None and not isinstance(self.network, Mapping):
            raise UsageError(f"network is {self.network!r}; give settings of the structure by name, as a mapping.")
        given = dict(self.network or {})
        for name in ("width", "modules", "dropout"):
            if name in given:
                raise UsageError(f"network holds {name!r}; set it by the parameter {name} alone.")
        modules = [module.model_dump(mode="json") for module in zoo(self.modules, self.width, seed)]
        values = {"width": self.width, "modules": modules, "dropout": self.dropout}
        return validate(ZooStructure, {**merge(dict(self.surroundings), given), **values}, what=type(self).__name__)

    def _take(self, reading: InputReading, targets: EstimatorTargets, network: ModuleZoo) -> None:
        self._reading = reading
        self._targets = targets
        self.classes_ = targets.classes
        self.network_ = network
        self.modules_ = [module.id for module in network.structure.modules]

    def _more_files(self) -> dict[str, bytes]:
        """Contents by file name of what is saved beside settings and weights."""
        from evodevo.estimators.plain_models import to_files

        return {} if self._plain_model is None else to_files(self._plain_model)

    def _take_files(self, files: Mapping[str, bytes]) -> None:
        """Take over these files of a classifier that is being loaded.

        Raises:
            UsageError: They hold something else.
        """
        from evodevo.estimators.plain_models import of_files

        self._plain_model = of_files(files)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.input_tags.string = True
        tags.input_tags.three_d_array = True
        return tags
