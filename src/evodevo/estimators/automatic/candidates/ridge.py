"""Ridge regression of a quantity on standardised numbers, one-hot categories, tf-idf and pixels, by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.automatic.candidates.base import FitCandidate, LabelledSamples, Limit, ProbabilityModel
from evodevo.estimators.automatic.candidates.linear import MOST_SAMPLES, LinearPredictor
from evodevo.estimators.automatic.candidates.threads import threads
from evodevo.estimators.automatic.features.linear import LinearFeatures
from evodevo.randomness import generator


class Ridge(FitCandidate):
    """Least squares with a quadratic penalty.

    Args:
        strength: Strength of the penalty, alpha of scikit-learn: the squared errors are summed, not averaged.
        characters: Whether texts are characters beside words.
        texts: Whether there are texts, which the name then states.
    """

    def __init__(self, strength: float, *, characters: bool = False, texts: bool = False) -> None:
        self.strength, self.characters = strength, characters
        unit = (" on words and characters" if characters else " on words") if texts else ""
        self.name = f"ridge regression{unit}, alpha = {strength:g}"

    def train(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], held: NDArray[np.int64], limit: Limit
    ) -> ProbabilityModel:
        from sklearn import linear_model

        if len(rows) > MOST_SAMPLES:
            rows = np.sort(generator(lesson.seed, "ridge").permutation(rows)[:MOST_SAMPLES])
        shown = lesson.samples.take(rows)
        features = LinearFeatures.of(shown, lesson.levels, characters=self.characters)
        table = features.read(shown)
        with threads(0 if lesson.samples.texts else table.size):
            model = linear_model.Ridge(alpha=self.strength).fit(table, lesson.answers[rows])
        return LinearPredictor(features, model.coef_[:, None], np.asarray([model.intercept_]), lesson.link)

    def retrain(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], trained: Sequence[ProbabilityModel], limit: Limit
    ) -> ProbabilityModel:
        return self.train(lesson, rows, rows, limit)
