"""Metrics of probabilities, decisions by them, and intervals.

Legend: n samples, C classes or labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import unknown_name
from evodevo.randomness import generator

Kind = Literal["class", "labels"]
Chances = NDArray[np.float64]
Answers = NDArray[np.int64] | NDArray[np.float32]
RESAMPLES = 1_000
_LEAST = 1e-7


def log_loss(chances: Chances, answers: Answers) -> float:
    """Mean negative log-probability of the right answers, in nats; of several labels the mean over them."""
    clipped = chances.clip(_LEAST, 1 - _LEAST)
    if answers.ndim == 1:
        found = clipped / clipped.sum(1, keepdims=True)
        return float(-np.log(found[np.arange(len(answers)), answers.astype(np.int64)]).mean())
    return float(-(answers * np.log(clipped) + (1 - answers) * np.log(1 - clipped)).mean())


def _accuracy(chosen: NDArray[np.int64], answers: Answers) -> float:
    return float((chosen == answers).mean())


def _balanced(chosen: NDArray[np.int64], answers: Answers) -> float:
    return float(np.mean([(chosen[answers == name] == name).mean() for name in np.unique(answers)]))


def _micro_f1(chosen: NDArray[np.int64], answers: Answers) -> float:
    positive, true = chosen > 0.5, answers > 0.5
    return 2 * int((positive & true).sum()) / max(1, int(positive.sum()) + int(true.sum()))


@dataclass(frozen=True)
class Metric:
    """A metric of decisions, 0 to 1; higher is better.

    Attributes:
        name: Name.
        kind: Kind of the answers that it judges.
        score: Function of decisions and answers.
        balanced: Whether decisions weigh every class alike, however frequent it is.
    """

    name: str
    kind: Kind
    score: Callable[[NDArray[np.int64], Answers], float]
    balanced: bool = False

    def decide(self, chances: Chances, shares: NDArray[np.float64]) -> NDArray[np.int64]:
        """Decisions that the metric wants: classes (n,), or labels (n, C) of 0 and 1.

        Args:
            chances: Probabilities (n, C).
            shares: How frequent each class is in training, (C,).
        """
        if self.kind == "labels":
            return (chances > 0.5).astype(np.int64)
        weighted = chances / np.maximum(shares, _LEAST) if self.balanced else chances
        return np.asarray(weighted.argmax(1), np.int64)


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "class", _accuracy),
        Metric("balanced_accuracy", "class", _balanced, balanced=True),
        Metric("micro_f1", "labels", _micro_f1),
    )
}
DEFAULTS: Mapping[Kind, str] = {"class": "accuracy", "labels": "micro_f1"}


def metric_of(name: str | None, kind: Kind) -> Metric:
    """A metric by name; the usual one where there is none.

    Raises:
        UsageError: An unknown name, or one for answers of another kind.
    """
    chosen = DEFAULTS[kind] if name is None else name
    fitting = [metric.name for metric in METRICS.values() if metric.kind == kind]
    if chosen not in fitting:
        raise unknown_name("metric", chosen, fitting)
    return METRICS[chosen]


@dataclass(frozen=True)
class ScoreInterval:
    """A value with its 95 % interval over resampled samples."""

    value: float
    low: float
    high: float


def score(metric: Metric, chosen: NDArray[np.int64], answers: Answers) -> ScoreInterval:
    """The metric with its interval."""
    drawn = [metric.score(chosen[rows], answers[rows]) for rows in _resamples(len(answers))]
    return _interval(metric.score(chosen, answers), drawn)


def difference(metric: Metric, chosen: NDArray[np.int64], other: NDArray[np.int64], answers: Answers) -> ScoreInterval:
    """The metric of some decisions minus that of others on the same samples, with its paired interval."""
    drawn = [
        metric.score(chosen[rows], answers[rows]) - metric.score(other[rows], answers[rows])
        for rows in _resamples(len(answers))
    ]
    return _interval(metric.score(chosen, answers) - metric.score(other, answers), drawn)


def _resamples(count: int) -> NDArray[np.int64]:
    rng = generator(0, "resamples", count)
    number = RESAMPLES if count <= 20_000 else 100
    return rng.integers(0, count, size=(number, count))


def _interval(value: float, drawn: list[float]) -> ScoreInterval:
    low, high = np.quantile(drawn, (0.025, 0.975)).tolist()
    return ScoreInterval(value, low, high)
