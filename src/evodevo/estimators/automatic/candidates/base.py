"""Interface of candidates and of what they become, and their tables.

A candidate is torch-free unless its module is about networks; scikit-learn is imported where it is used.

Legend: n samples, C classes or labels, O outputs (C, or 1 for two classes). Of a quantity C and O are 1, and what is
called probabilities here are values.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.automatic.features.package_root import RootReading
from evodevo.estimators.automatic.features.towers import TowerReading
from evodevo.objectives.probabilities import sigmoid, softmax
from evodevo.registry import Registry, table
from evodevo.tasks.rows.samples import Samples
from evodevo.tasks.rows.targets import Answers, Kind

Arrays = Mapping[str, NDArray[Any]]
Link = Literal["softmax", "two", "sigmoid", "identity"]
"""Function from outputs to probabilities: of several classes; of two classes by one output; of labels; to values."""
Reading = Callable[[str, int, int], None]
"""Called with what reads the samples, those that it has read, and all of them."""

PREDICTORS: Registry[type[ProbabilityModel]] = table("fitted model", "evodevo.fitted_models")
for _name, _home in {
    "constant": "constant:ConstantPredictor",
    "linear": "linear:LinearPredictor",
    "trees": "trees:TreesPredictor",
    "neighbours": "neighbours:NeighboursPredictor",
    "mean": "mean:MeanPredictor",
    "network": "network:NetworkRow",
    "tower": "tower:TowerPredictor",
}.items():
    PREDICTORS.add(_name, f"evodevo.estimators.automatic.candidates.{_home}")


@dataclass(frozen=True)
class LabelledSamples:
    """Training data of all candidates.

    Attributes:
        samples: All samples with an answer.
        answers: Classes (n,), labels (n, C) of 0 and 1, or values (n,).
        kind: Kind of the answers.
        classes: C.
        levels: Number of codes of each category.
        seed: Seed of everything that is drawn.
        towers: Pretrained towers, each with its name in the leaderboard.
    """

    samples: Samples
    answers: Answers
    kind: Kind
    classes: int
    levels: tuple[int, ...]
    seed: int
    towers: Mapping[str, TowerReading | RootReading] = field(default_factory=dict)

    @property
    def link(self) -> Link:
        """Function from a model's outputs to probabilities."""
        if self.kind == "quantity":
            return "identity"
        if self.kind == "labels":
            return "sigmoid"
        return "two" if self.classes == 2 else "softmax"


@dataclass
class Limit:
    """The time that a candidate may take.

    Attributes:
        ends: Time by ``time.monotonic`` at which it has to end; what cannot end in the middle is not bounded by it.
        stopped: Whether the user asked to stop.
    """

    ends: float
    stopped: bool = field(default=False)

    @property
    def left(self) -> float:
        """Seconds left, 0 where there are none."""
        return 0.0 if self.stopped else max(0.0, self.ends - time.monotonic())

    def part(self, parts: int) -> Limit:
        """The limit of the first of so many equal parts of what is left."""
        return Limit(self.ends - self.left * (1 - 1 / parts), self.stopped)


class ProbabilityModel(ABC):
    """A trained model.

    Laws: ``from_state`` of ``to_state`` predicts the same, bit for bit; a prediction depends on its sample alone.
    """

    form: ClassVar[str]
    """Name in ``PREDICTORS``."""

    @abstractmethod
    def probabilities(self, samples: Samples) -> NDArray[np.float64]:
        """Probabilities (n, C): rows sum to 1 for classes, independent for labels. Of a quantity values, (n, 1)."""

    @abstractmethod
    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Facts that JSON can hold, and arrays by name."""

    def source(self, facts: dict[str, Any], files: dict[str, str | Path]) -> dict[str, Any]:
        """The facts of an export as source: those of ``to_state``, and where its further files are.

        Args:
            facts: Facts of ``to_state``.
            files: Text of each Python file so far, by name, and paths of files that are copied; those that this model
                needs are added.

        Raises:
            UsageError: A part that has no source.
        """
        return facts

    @classmethod
    @abstractmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model of these facts and arrays.

        Raises:
            UsageError: They are of something else.
        """


class FitCandidate(ABC):
    """A way to make a model of training data.

    Attributes:
        name: Name in the leaderboard.
    """

    name: str

    def prepare(self, lesson: LabelledSamples, limit: Limit, report: Reading) -> None:  # noqa: B027
        """Do what all trainings share, once, before the first.

        Args:
            lesson: Training data.
            limit: When it has to end.
            report: Called with the progress.

        Raises:
            DataError: There is no time for it.
        """

    @abstractmethod
    def train(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], held: NDArray[np.int64], limit: Limit
    ) -> ProbabilityModel:
        """Train on some rows; the held out ones may decide when training ends."""

    @abstractmethod
    def retrain(
        self,
        lesson: LabelledSamples,
        rows: NDArray[np.int64],
        trained: Sequence[ProbabilityModel],
        limit: Limit,
    ) -> ProbabilityModel:
        """The final model from all rows with an answer.

        Args:
            lesson, limit: See ``train``.
            rows: All rows.
            trained: Models of the folds.
        """


def probabilities(outputs: NDArray[np.float64], link: Link) -> NDArray[np.float64]:
    """Outputs (n, O) as probabilities (n, C), or as the values that they are."""
    if link == "identity":
        return outputs
    if link == "softmax":
        return softmax(outputs)
    if link == "sigmoid":
        return sigmoid(outputs)
    second = sigmoid(outputs[:, 0])
    return np.stack([1 - second, second], axis=1)
