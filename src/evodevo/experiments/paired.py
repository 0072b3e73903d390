"""The difference of two arms on the same test samples and with the same seeds, with its confidence interval.

The interval is a bootstrap over seeds and over samples at once (Efron 1979; crossed, as in Owen & Eckles 2012): each
draw takes seeds and samples with replacement and averages the differences that they have in common. With few seeds it
is too narrow, since three of them cannot show how much a fourth would differ; with one it covers samples alone.

Legend: S seeds, B samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.randomness import generator

DRAWS = 2000
LEVEL = 0.95
POWER = 0.8
_MOST_NUMBERS = 1 << 22  # of one block of draws

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """Share of samples answered rightly: this arm's minus the reference's.

    Attributes:
        mean: mean over seeds and samples, -1 to 1.
        low, high: 95 % interval.
        seeds, samples: numbers of common seeds and samples.
    """

    mean: float
    low: float
    high: float
    seeds: int
    samples: int

    def to_json(self) -> dict[str, float]:
        """The fields by name."""
        return asdict(self)


def paired_difference(ours: Sequence[Numbers], theirs: Sequence[Numbers]) -> Difference | None:
    """The difference of two arms; the same at every call.

    Args:
        ours, theirs: per seed, in the same order, (B,): how much of each sample was answered rightly; NaN where it
            has no target.

    Returns:
        None where there is nothing in common.
    """
    if not ours or len(ours) != len(theirs) or len({len(scores) for scores in (*ours, *theirs)}) != 1:
        return None
    gaps = np.stack(ours) - np.stack(theirs)
    gaps = gaps[:, ~np.isnan(gaps).any(0)]
    seeds, samples = gaps.shape
    if not samples:
        return None
    means = _draws(gaps)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Difference(float(gaps.mean()), float(low), float(high), seeds, samples)


def paired_p(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Two-sided p of a paired t-test; None for one pair, or for differences that are all alike."""
    from scipy import stats

    gaps = np.asarray(ours) - np.asarray(theirs)
    if len(gaps) < 2 or np.allclose(gaps, gaps[0], rtol=0, atol=1e-12):
        return None
    return float(stats.ttest_rel(ours, theirs).pvalue)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p of each of several tests, adjusted so that one false finding among all has at most the stated probability.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".

    Args:
        values: p of each test, 0 to 1; None where there is none, which counts as no test.
    """
    order = sorted((value, place) for place, value in enumerate(values) if value is not None)
    adjusted: list[float | None] = [None] * len(values)
    least = 0.0
    for rank, (value, place) in enumerate(order):
        least = max(least, min(1.0, value * (len(order) - rank)))
        adjusted[place] = least
    return adjusted


@dataclass(frozen=True)
class PairedMean:
    """The differences of pairs, with what so many of them can show.

    Attributes:
        mean: their mean.
        low, high: its 95 % interval by Student's t.
        detectable: difference that a paired two-sided t-test at 5 % would find about four times out of five, where
            pairs vary as these do: the sum of both quantiles of Student's t, times the standard error.
    """

    mean: float
    low: float
    high: float
    detectable: float


def paired_mean(ours: Sequence[float], theirs: Sequence[float]) -> PairedMean | None:
    """The differences of pairs; None for one pair."""
    from scipy import stats

    gaps = np.asarray(ours) - np.asarray(theirs)
    count = len(gaps)
    if count < 2:
        return None
    mean, error = float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(count))
    half, beyond = (float(stats.t.ppf(level, count - 1)) * error for level in ((1 + LEVEL) / 2, POWER))
    return PairedMean(mean, mean - half, mean + half, half + beyond)


def _draws(gaps: Numbers) -> Numbers:
    """(DRAWS,) means of resampled (S, B)."""
    seeds, samples = gaps.shape
    # Samples that are alike for all seeds are drawn together: of right and wrong answers there are few kinds.
    kinds, counts = np.unique(gaps.T, axis=0, return_counts=True)
    # A fixed seed: the same interval at every call.
    rng = generator(0, "paired bootstrap")
    block = max(1, _MOST_NUMBERS // len(kinds))
    draws = []
    for start in range(0, DRAWS, block):
        size = min(block, DRAWS - start)
        of_samples = rng.multinomial(samples, counts / samples, size=size) / samples
        of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=size) / seeds
        draws.append(((of_samples @ kinds) * of_seeds).sum(1))
    return np.concatenate(draws)
