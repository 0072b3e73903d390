"""Means over seeds with their 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean over seeds.

    Attributes:
        mean: mean.
        low, high: ends of the 95 % interval of the mean (Student's t); None for one seed, which has no spread.
        count: number of seeds.
    """

    mean: float
    low: float | None
    high: float | None
    count: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Interval | None:
        """Interval of the finite values; None where there is none."""
        known = [float(value) for value in values if value is not None and math.isfinite(value)]
        if not known:
            return None
        mean, count = fmean(known), len(known)
        if count == 1:
            return cls(mean, None, None, 1)
        from scipy.stats import t

        half = float(t.ppf((1 + LEVEL) / 2, count - 1)) * stdev(known) / math.sqrt(count)
        return cls(mean, mean - half, mean + half, count)

    @property
    def half(self) -> float | None:
        """Half of its length; None for one seed."""
        return None if self.high is None else self.high - self.mean

    def side(self) -> int:
        """1 where all of it is above 0, -1 where all of it is below, else 0."""
        if self.low is None or self.high is None:
            return 0
        return (self.low > 0) - (self.high < 0)

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)
