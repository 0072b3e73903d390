"""Nearest neighbours among the training samples, by the Euclidean distance of their features.

Legend: n samples, m stored samples, D features, C classes or labels, 1 of a quantity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.errors import UsageError
from evodevo.estimators.automatic.candidates.arrays import taken
from evodevo.estimators.automatic.candidates.base import Arrays, FitCandidate, LabelledSamples, Limit, ProbabilityModel
from evodevo.estimators.automatic.features.linear import LinearFeatures
from evodevo.randomness import generator
from evodevo.settings import Settings, validate
from evodevo.tasks.rows.samples import Samples

MOST_SAMPLES = 20_000
_AT_ONCE = 256
SMOOTHING = 0.5


class _NeighboursFacts(Settings):
    features: LinearFeatures
    neighbours: int = Field(ge=1)
    smoothing: float = Field(default=SMOOTHING, ge=0)


class NeighboursPredictor(ProbabilityModel):
    """The k nearest stored samples; each counts by the inverse of its distance.

    Args:
        features: How samples become features.
        stored: Features (m, D).
        answers: One row of 0 and 1 for each, (m, C), or its value, (m, 1).
        shares: How frequent each class or label is, (C,), or the mean value.
        neighbours: k.
        smoothing: Weight of ``shares`` in neighbours, without which a class that none has would be impossible.
    """

    form = "neighbours"

    def __init__(
        self,
        features: LinearFeatures,
        stored: NDArray[np.float32],
        answers: NDArray[np.uint8] | NDArray[np.float64],
        shares: NDArray[np.float64],
        neighbours: int,
        smoothing: float = SMOOTHING,
    ) -> None:
        self.features, self.stored, self.answers = features, stored, answers
        self.shares, self.neighbours, self.smoothing = shares, min(neighbours, len(stored)), smoothing

    def probabilities(self, samples: Samples) -> NDArray[np.float64]:
        table = np.asarray(self.features.read(samples), np.float32)
        stored = self.stored.astype(np.float64)
        lengths = (stored**2).sum(1)
        parts = []
        for begin in range(0, len(table), _AT_ONCE):
            some = table[begin : begin + _AT_ONCE].astype(np.float64)
            distances = lengths - 2 * some @ stored.T + (some**2).sum(1, keepdims=True)
            chosen = np.argpartition(distances, self.neighbours - 1, axis=1)[:, : self.neighbours]
            near = np.sqrt(np.maximum(np.take_along_axis(distances, chosen, 1), 0))
            weights = 1 / (near + near.mean(1, keepdims=True) * 0.1 + 1e-9)
            weights *= self.neighbours / weights.sum(1, keepdims=True)
            votes = (weights[:, :, None] * self.answers[chosen]).sum(1) + self.smoothing * self.shares
            parts.append(votes / (self.neighbours + self.smoothing))
        return np.concatenate(parts) if parts else np.zeros((0, len(self.shares)))

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        facts = {
            "features": self.features.model_dump(mode="json"),
            "neighbours": self.neighbours,
            "smoothing": self.smoothing,
        }
        return facts, {"stored": self.stored, "answers": self.answers, "shares": self.shares}

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        known = validate(_NeighboursFacts, dict(facts), what="a model of nearest neighbours")
        stored, answers, shares = taken(arrays, "stored", 2), taken(arrays, "answers", 2), taken(arrays, "shares", 1)
        if answers.shape != (len(stored), len(shares)) or not len(stored):
            raise UsageError(f"stored samples {stored.shape} have answers {answers.shape}.")
        own = answers if arrays["answers"].dtype.kind == "f" else answers.astype(np.uint8)
        return cls(known.features, stored.astype(np.float32), own, shares, known.neighbours, known.smoothing)


class Neighbours(FitCandidate):
    """Nearest neighbours.

    Args:
        neighbours: k.
    """

    def __init__(self, neighbours: int) -> None:
        self.neighbours = neighbours
        self.name = f"{neighbours} nearest neighbours"

    def train(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], held: NDArray[np.int64], limit: Limit
    ) -> ProbabilityModel:
        if len(rows) > MOST_SAMPLES:
            rows = np.sort(generator(lesson.seed, "neighbours").permutation(rows)[:MOST_SAMPLES])
        shown, answers = lesson.samples.take(rows), lesson.answers[rows]
        features = LinearFeatures.of(shown, lesson.levels)
        stored = np.asarray(features.read(shown), np.float32)
        if lesson.kind == "quantity":
            values = answers[:, None].astype(np.float64)
            return NeighboursPredictor(features, stored, values, values.mean(0), self.neighbours, smoothing=0.0)
        table = answers if lesson.kind == "labels" else np.eye(lesson.classes)[answers.astype(np.int64)]
        return NeighboursPredictor(features, stored, table.astype(np.uint8), table.mean(0), self.neighbours)

    def retrain(
        self, lesson: LabelledSamples, rows: NDArray[np.int64], trained: Sequence[ProbabilityModel], limit: Limit
    ) -> ProbabilityModel:
        return self.train(lesson, rows, rows, limit)
