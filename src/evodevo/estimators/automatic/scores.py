"""Metrics of decisions, the decisions that models' answers give, and intervals.

Legend: n samples, C classes or labels; of a quantity C is 1, and a model's answers are values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import unknown_name
from evodevo.randomness import generator
from evodevo.tasks.rows.targets import Answers, Kind

Chances = NDArray[np.float64]
Decisions = NDArray[np.int64] | NDArray[np.float64]
RESAMPLES = 1_000
_LEAST = 1e-7


def log_loss(chances: Chances, answers: Answers) -> float:
    """Mean negative log-probability of the right answers, in nats; of several labels the mean over them."""
    clipped = chances.clip(_LEAST, 1 - _LEAST)
    if answers.ndim == 1:
        found = clipped / clipped.sum(1, keepdims=True)
        return float(-np.log(found[np.arange(len(answers)), answers.astype(np.int64)]).mean())
    return float(-(answers * np.log(clipped) + (1 - answers) * np.log(1 - clipped)).mean())


def _accuracy(chosen: Decisions, answers: Answers) -> float:
    return float((chosen == answers).mean())


def _balanced(chosen: Decisions, answers: Answers) -> float:
    return float(np.mean([(chosen[answers == name] == name).mean() for name in np.unique(answers)]))


def _micro_f1(chosen: Decisions, answers: Answers) -> float:
    positive, true = chosen > 0.5, answers > 0.5
    return 2 * int((positive & true).sum()) / max(1, int(positive.sum()) + int(true.sum()))


def _r2(chosen: Decisions, answers: Answers) -> float:
    """1 minus the squared error as a fraction of that of the answers' mean; 0 where all answers are equal."""
    spread = float(((answers - answers.mean()) ** 2).sum())
    return 1 - float(((chosen - answers) ** 2).sum()) / spread if spread > 0 else 0.0


def _rmse(chosen: Decisions, answers: Answers) -> float:
    return float(np.sqrt(((chosen - answers) ** 2).mean()))


def _mae(chosen: Decisions, answers: Answers) -> float:
    return float(np.abs(chosen - answers).mean())


def _of_values(error: Callable[[Decisions, Answers], float]) -> Callable[[Chances, Answers], float]:
    return lambda values, answers: error(values[:, 0], answers)


@dataclass(frozen=True)
class Metric:
    """A metric of decisions.

    Attributes:
        name: Name.
        kind: Kind of the answers that it judges.
        score: Function of decisions and answers; 0 to 1 for classes and labels, at most 1 for r2, errors in the unit of
            the quantity.
        balanced: Whether decisions weigh every class alike, however frequent it is.
        lower: Whether lower is better.
        loss: Function of a model's answers (n, C) and the right ones, by which ensembles are made and equal scores are
            decided; lower is better.
    """

    name: str
    kind: Kind
    score: Callable[[Decisions, Answers], float]
    balanced: bool = False
    lower: bool = False
    loss: Callable[[Chances, Answers], float] = log_loss

    def decide(self, chances: Chances, shares: NDArray[np.float64]) -> Decisions:
        """Decisions that the metric wants: classes (n,), labels (n, C) of 0 and 1, or values (n,).

        Args:
            chances: A model's answers: probabilities (n, C), or values (n, 1).
            shares: How frequent each class is in training, (C,).
        """
        if self.kind == "quantity":
            return np.asarray(chances[:, 0])
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
        Metric("r2", "quantity", _r2, loss=_of_values(_rmse)),
        Metric("rmse", "quantity", _rmse, lower=True, loss=_of_values(_rmse)),
        Metric("mae", "quantity", _mae, lower=True, loss=_of_values(_mae)),
    )
}
DEFAULTS: Mapping[Kind, str] = {"class": "accuracy", "labels": "micro_f1", "quantity": "r2"}


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


def further(metric: Metric) -> tuple[Metric, ...]:
    """Metrics that are shown beside this one, and decide nothing."""
    if metric.kind != "quantity":
        return ()
    return tuple(other for other in METRICS.values() if other.kind == metric.kind and other is not metric)


@dataclass(frozen=True)
class ScoreInterval:
    """A value with its 95 % interval over resampled samples."""

    value: float
    low: float
    high: float


def score(metric: Metric, chosen: Decisions, answers: Answers) -> ScoreInterval:
    """The metric with its interval."""
    drawn = [metric.score(chosen[rows], answers[rows]) for rows in _resamples(len(answers))]
    return _interval(metric.score(chosen, answers), drawn)


def difference(metric: Metric, chosen: Decisions, other: Decisions, answers: Answers) -> ScoreInterval:
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
