"""Interval of a gain: the paired error of the samples, and the noise of a training.

Two trainings that differ only in the order of their batches end apart. What an edit is credited with must exceed that,
too; so its variance enters beside the sampling variance of the paired differences, and the degrees of freedom are
those of Welch and Satterthwaite. Both sides of a fork have one order, and share part of the noise: the interval is wide
rather than narrow.

Legend: S samples, M other orders.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from evodevo.growth.forks.records import ForkGain


def scatter(losses: Sequence[float]) -> float:
    """Sum of squared deviations from the mean of the losses of one training in M + 1 orders: M degrees of freedom."""
    values = np.asarray(losses, dtype=np.float64)
    return float(((values - values.mean()) ** 2).sum()) if len(values) else 0.0


def noise_variance(scattered: float, freedom: int) -> float:
    """Variance of the difference of two trainings, from sums of squares with so many degrees of freedom."""
    return 2 * scattered / freedom if freedom else 0.0


def gain_of(
    without: NDArray[np.float64], edited: NDArray[np.float64], noise: float, freedom: int, level: float
) -> ForkGain:
    """The gain with the ends of its one-sided intervals.

    Args:
        without, edited: (S,) loss of each sample in nats, S at least 2.
        noise: Variance of the noise of a difference; 0 where it was not measured.
        freedom: Its degrees of freedom.
        level: Level of the interval.
    """
    change = without - edited
    count = len(change)
    error = float(change.var(ddof=1)) / count
    total = error + noise
    mean = float(change.mean())
    if total == 0.0:
        return ForkGain(gain=mean, lower=mean, upper=mean, samples=count, error=0.0)
    parts = error**2 / (count - 1) + (noise**2 / freedom if freedom else 0.0)
    width = float(stdtrit(total**2 / parts, level)) * total**0.5
    return ForkGain(gain=mean, lower=mean - width, upper=mean + width, samples=count, error=error**0.5)
