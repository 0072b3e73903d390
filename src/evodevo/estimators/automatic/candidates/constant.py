"""The answer that does not look at a sample: how frequent each class or label is, or the mean of a quantity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.automatic.candidates.arrays import taken
from evodevo.estimators.automatic.candidates.base import Arrays, FitCandidate, LabelledSamples, Limit, ProbabilityModel
from evodevo.tasks.rows.samples import Samples


class ConstantPredictor(ProbabilityModel):
    """Equal probabilities for all samples, or an equal value.

    Args:
        shares: Probabilities, (C,), or the value, (1,).
    """

    form = "constant"

    def __init__(self, shares: NDArray[np.float64]) -> None:
        self.shares = shares

    def probabilities(self, samples: Samples) -> NDArray[np.float64]:
        return np.tile(self.shares, (samples.count, 1))

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {"shares": self.shares}

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        return cls(taken(arrays, "shares", 1))


class Constant(FitCandidate):
    """The frequencies of the training rows."""

    name = "always the most frequent"

    def train(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], held: NDArray[np.int64], limit: Limit
    ) -> ProbabilityModel:
        answers = lesson.answers[rows]
        if lesson.kind == "labels":
            return ConstantPredictor((answers.sum(0) + 1) / (len(rows) + 2))
        counts = np.bincount(answers.astype(np.int64), minlength=lesson.classes) + 1e-3
        return ConstantPredictor(counts / counts.sum())

    def retrain(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], trained: Sequence[ProbabilityModel], limit: Limit
    ) -> ProbabilityModel:
        return self.train(lesson, rows, rows, limit)


class MeanValue(FitCandidate):
    """The mean of a quantity in the training rows."""

    name = "always the mean"

    def train(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], held: NDArray[np.int64], limit: Limit
    ) -> ProbabilityModel:
        return ConstantPredictor(np.asarray([lesson.answers[rows].mean()], np.float64))

    def retrain(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], trained: Sequence[ProbabilityModel], limit: Limit
    ) -> ProbabilityModel:
        return self.train(lesson, rows, rows, limit)
