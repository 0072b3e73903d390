"""Bayesian linear regression of gains on features of edits, in closed form.

Source: docs/spec/architect_thyself.md#gains-of-edits.

    asinh(gain / s) = x . w + e,   w ~ N(0, sigma^2 / lambda),   e ~ N(0, sigma^2),   s the median of |gain|

A few edits cost twenty times as much as most do: asinh is linear for gains below s, logarithmic above, and keeps sign
and order. Every feature but the constant has mean 0 and spread 1 over the rows; one that does not vary is 0. lambda is
the one of a grid with the largest evidence, sigma its best value for it. Without rows w is drawn from its prior alone.

Legend: n rows, d features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

PRECISIONS = tuple(float(10.0**power) for power in np.arange(-1.0, 4.5, 0.5))
"""Grid of lambda, the precision of the prior beside that of the noise."""
LEAST_SPREAD = 1e-9
FARTHEST = 20.0
"""Largest asinh(gain / s): a memory is a file, and more would leave the range of numbers at last."""


@dataclass(frozen=True)
class Posterior:
    """The distribution of the weights, for features that are standardised as the rows were.

    Attributes:
        centre, spread: (d,) mean and standard deviation of each feature over the rows.
        mean: (d,) mean of the weights.
        root: (d, d) L with L L' their covariance.
        scale: s in nats.
        noise: sigma: what the features do not tell of asinh(gain / s). 0 without rows.
        precision: lambda; 0 without rows.
        rows: n.
    """

    centre: Numbers
    spread: Numbers
    mean: Numbers
    root: Numbers
    scale: float
    noise: float
    precision: float
    rows: int

    def standardised(self, features: Numbers) -> Numbers:
        """(..., d) features in the unit of the rows."""
        return np.where(self.spread > 0, (features - self.centre) / np.where(self.spread > 0, self.spread, 1.0), 0.0)

    def predict(self, features: Numbers) -> Numbers:
        """(...,) gain in nats for features (..., d) under the mean of the weights."""
        return self._gain(features, self.mean)

    def drawn(self, features: Numbers, rng: np.random.Generator) -> Numbers:
        """(...,) gain in nats under one draw of the weights."""
        return self._gain(features, self.mean + self.root @ rng.standard_normal(len(self.mean)))

    def _gain(self, features: Numbers, weights: Numbers) -> Numbers:
        gain: Numbers = self.scale * np.sinh(np.clip(self.standardised(features) @ weights, -FARTHEST, FARTHEST))
        return gain


def fit(features: Numbers, gains: Numbers, prior: float) -> Posterior:
    """The posterior of the weights.

    Args:
        features: (n, d) features, of which the first is the constant 1; n may be 0.
        gains: (n,) gains in nats.
        prior: s in nats without rows; each weight has the standard deviation 1 / sqrt(d) then.
    """
    count, size = features.shape
    constant = np.arange(size) == 0
    if not count:
        root = np.eye(size) / np.sqrt(size)
        return Posterior(np.zeros(size), np.ones(size), np.zeros(size), root, prior, 0.0, 0.0, 0)
    centre = np.where(constant, 0.0, features.mean(0))
    deviation = features.std(0)
    spread = np.where(constant, 1.0, np.where(deviation > LEAST_SPREAD, deviation, 0.0))
    scale = float(np.median(np.abs(gains))) or float(np.abs(gains).max())
    if scale == 0.0:
        return Posterior(centre, spread, np.zeros(size), np.zeros((size, size)), 0.0, 0.0, 0.0, count)
    inputs = np.where(spread > 0, (features - centre) / np.where(spread > 0, spread, 1.0), 0.0)
    with np.errstate(over="ignore"):
        targets = np.clip(np.arcsinh(gains / scale), -FARTHEST, FARTHEST)
    # X = U diag(s) V': all that the grid needs are the rotated targets.
    left, singular, right = np.linalg.svd(inputs, full_matrices=False)
    rotated = left.T @ targets
    outside = max(float(targets @ targets - rotated @ rotated), 0.0)

    def noise_of(precision: float) -> float:
        """sigma^2 at its most likely value: y' (I + X X' / lambda)^-1 y / n."""
        inside = float((rotated**2 * precision / (precision + singular**2)).sum())
        return float(max(inside + outside, 1e-12) / count)

    def evidence(precision: float) -> float:
        """log p(targets), without what does not depend on lambda."""
        spreading = float(np.log1p(singular**2 / precision).sum())
        return float(-(count * math.log(noise_of(precision)) + spreading) / 2)

    precision = max(PRECISIONS, key=evidence)
    variance = noise_of(precision)
    mean = right.T @ (singular / (singular**2 + precision) * rotated)
    covariance = variance * np.linalg.inv(inputs.T @ inputs + precision * np.eye(size))
    return Posterior(
        centre,
        spread,
        mean,
        np.asarray(np.linalg.cholesky((covariance + covariance.T) / 2), np.float64),
        scale,
        math.sqrt(variance),
        precision,
        count,
    )
