"""Hit rates: the number of finalists that are at least as good as every baseline (STAR, Finding 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_ROUNDING = 1e-9
"""Means of equal sums may differ by the rounding of their sums."""


def mean_accuracy(accuracies: Sequence[float]) -> float:
    """The average over downstream tasks, in the unit of the accuracies."""
    return math.fsum(accuracies) / len(accuracies)


def is_hit(value: float, baselines: Sequence[float], *, higher_is_better: bool = True) -> bool:
    """Whether a value is at least as good as every baseline's.

    Args:
        value: the finalist's mean over downstream tasks, or another number on the test split.
        baselines: values of the baselines; at least one.
        higher_is_better: whether larger values are better.
    """
    sign = 1.0 if higher_is_better else -1.0
    return all(sign * value >= sign * other - _ROUNDING * max(1.0, abs(other)) for other in baselines)


def hit_rate(finalists: Mapping[str, Sequence[float]], baselines: Mapping[str, Sequence[float]]) -> tuple[int, int]:
    """Hits, and the number of finalists, by the mean accuracy over downstream tasks.

    Args:
        finalists: name -> accuracies, one per task.
        baselines: name -> accuracies of the baselines; a hit is at least as good as each of them.
    """
    bars = [mean_accuracy(values) for values in baselines.values()]
    hits = [is_hit(mean_accuracy(values), bars) for values in finalists.values()]
    return sum(hits), len(hits)
