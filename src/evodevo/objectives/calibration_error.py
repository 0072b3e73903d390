"""Whether a network is as right as it believes to be (Guo et al. 2017).

Shapes: A answers: samples of a class output, or entries (sample, label) of an output of labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.objectives.answered import HALF, Answered, AnswerScore
from evodevo.objectives.base import on_answers

BINS = 15


@dataclass(frozen=True)
class Reliability:
    """Answers by confidence, in bins of equal width over [0, 1]; empty bins are left out.

    Attributes:
        confidence: mean of each bin.
        accuracy: share of each bin that was right.
        count: answers in each bin.
    """

    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]
    count: tuple[int, ...]

    @property
    def error(self) -> float:
        """Expected calibration error: mean over answers of |accuracy - confidence| of their bin; NaN of none."""
        total = sum(self.count)
        gaps = zip(self.confidence, self.accuracy, self.count, strict=True)
        return math.fsum(abs(a - c) * n for c, a, n in gaps) / total if total else math.nan

    def to_json(self) -> dict[str, list[float]]:
        """The fields by name."""
        return {"confidence": [*self.confidence], "accuracy": [*self.accuracy], "count": [*map(float, self.count)]}


def reliability(confidence: NDArray[np.float64], right: NDArray[Any], bins: int = BINS) -> Reliability:
    """Sort answers into bins.

    Args:
        confidence: (A,) in [0, 1]; a confidence on a border belongs to the bin below it.
        right: (A,), 1 where the answer was right (or the label was there).
    """
    places = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(places, minlength=bins)
    sums = np.bincount(places, weights=confidence, minlength=bins)
    hits = np.bincount(places, weights=right.astype(np.float64), minlength=bins)
    filled = counts > 0
    return Reliability(
        confidence=tuple((sums[filled] / counts[filled]).tolist()),
        accuracy=tuple((hits[filled] / counts[filled]).tolist()),
        count=tuple(counts[filled].tolist()),
    )


def curve_of(answered: Answered) -> Reliability:
    """The reliability of the chosen classes, or of the probabilities of labels."""
    if answered.kind == "class":
        rows, chosen = np.arange(len(answered.targets)), answered.logits.argmax(1)
        return reliability(answered.probabilities[rows, chosen], answered.right)
    return reliability(answered.probabilities[answered.known], (answered.targets > HALF)[answered.known])


CALIBRATION_ERROR = on_answers(
    name="calibration_error",
    unit="share",
    direction="minimise",
    summary="expected calibration error on validation samples (15 bins): how far confidence is from accuracy",
    score=lambda answered: AnswerScore(curve_of(answered).error),
)
