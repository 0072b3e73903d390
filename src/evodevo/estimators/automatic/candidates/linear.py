"""Logistic regression on standardised numbers, one-hot categories, tf-idf and pixels, by scikit-learn.

Legend: n samples, D features, O outputs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, UsageError
from evodevo.estimators.automatic.candidates.arrays import taken
from evodevo.estimators.automatic.candidates.base import (
    Arrays,
    FitCandidate,
    LabelledSamples,
    Limit,
    Link,
    ProbabilityModel,
    probabilities,
)
from evodevo.estimators.automatic.candidates.threads import threads
from evodevo.estimators.automatic.features.linear import LinearFeatures
from evodevo.randomness import generator
from evodevo.settings import Settings, validate
from evodevo.tasks.rows.samples import Samples

MOST_SAMPLES = 30_000
"""Largest number of training samples; of more a random part is used."""
ITERATIONS = 200
TRIED = 10
"""Iterations after which the time of all is known, where the training is a large one."""
ENOUGH = 50
"""Iterations without which a large training that is not the first of its kind is left out."""
LARGE = 20_000_000
"""Multiplications in an iteration above which a training is large."""
_FAR = 30.0
"""Output of a label that is the same in all training rows."""


class _LinearFacts(Settings):
    features: LinearFeatures
    link: Literal["softmax", "two", "sigmoid", "identity"]


class LinearPredictor(ProbabilityModel):
    """A linear model.

    Args:
        features: How samples become features.
        weights: (D, O).
        bias: (O,).
        link: Function from outputs to probabilities.
    """

    form = "linear"

    def __init__(
        self, features: LinearFeatures, weights: NDArray[np.float64], bias: NDArray[np.float64], link: Link
    ) -> None:
        self.features, self.weights, self.bias, self.link = features, weights, bias, link

    def probabilities(self, samples: Samples) -> NDArray[np.float64]:
        outputs = np.asarray(self.features.read(samples) @ self.weights) + self.bias
        return probabilities(outputs, self.link)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        facts = {"features": self.features.model_dump(mode="json"), "link": self.link}
        return facts, {"weights": self.weights, "bias": self.bias}

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        known = validate(_LinearFacts, dict(facts), what="a linear model")
        weights, bias = taken(arrays, "weights", 2), taken(arrays, "bias", 1)
        if weights.shape[1] != len(bias):
            raise UsageError(f"a linear model has weights {weights.shape} and {len(bias)} biases.")
        return cls(known.features, weights, bias, known.link)


class Linear(FitCandidate):
    """Logistic regression.

    Args:
        strength: Inverse strength of the quadratic penalty, C of scikit-learn.
        characters: Whether texts are characters beside words.
        texts: Whether there are texts.
        least: Iterations for which there has to be time.
    """

    def __init__(self, strength: float, *, characters: bool = False, texts: bool = False, least: int = ENOUGH) -> None:
        self.strength, self.characters, self.least = strength, characters, least
        self._iterations = ITERATIONS
        unit = (" on words and characters" if characters else " on words") if texts else ""
        self.name = f"logistic regression{unit}, C = {strength:g}"

    def train(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], held: NDArray[np.int64], limit: Limit
    ) -> ProbabilityModel:
        return self._trained(lesson, rows, limit)

    def _trained(self, lesson: LabelledSamples, rows: NDArray[np.int64], limit: Limit | None) -> ProbabilityModel:
        """The model of these rows; without a limit after as many iterations as those before had at least."""
        if len(rows) > MOST_SAMPLES:
            rows = np.sort(generator(lesson.seed, "linear").permutation(rows)[:MOST_SAMPLES])
        shown = lesson.samples.take(rows)
        features = LinearFeatures.of(shown, lesson.levels, characters=self.characters)
        table, answers = features.read(shown), lesson.answers[rows]
        if lesson.kind == "labels":
            columns = [
                self._fitted(table, answers[:, place], 2, limit and limit.part(lesson.classes - place))
                for place in range(lesson.classes)
            ]
            weights = np.concatenate([weight for weight, _ in columns], axis=1)
            bias = np.concatenate([own for _, own in columns])
        else:
            weights, bias = self._fitted(table, answers, lesson.classes, limit)
        return LinearPredictor(features, weights, bias, lesson.link)

    def retrain(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], trained: Sequence[ProbabilityModel], limit: Limit
    ) -> ProbabilityModel:
        return self._trained(lesson, rows, None)  # whether there is time for it was asked before

    def _fitted(
        self, table: Any, answers: NDArray[Any], classes: int, limit: Limit | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights (D, O) and biases (O,); a class without a sample gets no probability."""
        from sklearn.exceptions import ConvergenceWarning

        there = np.unique(answers).astype(np.int64)
        outputs = 1 if classes == 2 else classes
        weights, bias = np.zeros((table.shape[1], outputs)), np.full(outputs, -_FAR)
        if len(there) == 1:
            bias[0 if classes == 2 else there[0]] = _FAR if classes > 2 or there[0] == 1 else -_FAR
            return weights, bias
        sparse = not isinstance(table, np.ndarray)
        with warnings.catch_warnings(), threads(0 if sparse else table.size):
            warnings.simplefilter("ignore", ConvergenceWarning)  # so many iterations are near enough
            model = self._model(table, answers, outputs, limit)
        if classes == 2:
            return model.coef_.T, model.intercept_
        if len(there) == 2:  # scikit-learn has one output for two classes, that of the second
            weights[:, there[1]], bias[there] = model.coef_[0], (0.0, model.intercept_[0])
        else:
            weights[:, there], bias[there] = model.coef_.T, model.intercept_
        return weights, bias

    def _model(self, table: Any, answers: NDArray[Any], outputs: int, limit: Limit | None) -> Any:
        """The model; of a large training after as many iterations as the time allows, or as the shortest one had.

        Raises:
            DataError: There is no time for ``least``.
        """
        from sklearn.linear_model import LogisticRegression

        sparse = not isinstance(table, np.ndarray)

        def fitted(iterations: int) -> Any:
            model = LogisticRegression(C=self.strength, max_iter=iterations, tol=1e-3 if sparse else 1e-4)
            return model.fit(table, answers)

        if (table.nnz if sparse else table.size) * outputs < LARGE:
            return fitted(ITERATIONS)
        if limit is None:
            return fitted(self._iterations)
        began = time.monotonic()
        first = fitted(TRIED)
        each = (time.monotonic() - began) / TRIED
        allowed = int(limit.left / each)
        if allowed < self.least:
            raise DataError(f"{ITERATIONS} iterations take about {each * ITERATIONS:.0f} s")
        self._iterations = min(self._iterations, max(allowed, TRIED))
        return fitted(min(allowed, ITERATIONS)) if allowed > TRIED else first
