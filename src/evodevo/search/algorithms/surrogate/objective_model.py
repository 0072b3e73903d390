"""What is predicted of one objective that only an evaluation tells.

Scores of trainings are skewed: a few bad networks lie far from the many good ones. The process is therefore fitted to
log(u + SHIFT), where u is 0 at the best and 1 at the median value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evodevo.search.algorithms.surrogate.features import Features
from evodevo.search.algorithms.surrogate.gaussian_process import GaussianProcess, KernelPrior, fit
from evodevo.search.algorithms.surrogate.improvement import Shortfall, log_normal_shortfall
from evodevo.search.dominance import Floats, Integers

SHIFT = 3.0
"""Smaller shifts leave no room for values below the best; larger ones let the worst values decide."""


@dataclass(frozen=True)
class Fitted:
    """Transform and hyperparameters of one objective.

    A value v becomes t = (log((v - best) / unit + SHIFT) - center) / spread.

    Attributes:
        best: Smallest value.
        unit: Median above the best, > 0.
        center: Mean of the logarithms.
        spread: Their standard deviation, > 0.
        scales: Scale of each group of features by its name.
        noise: Noise of t as a share of the process's variance.
    """

    best: float
    unit: float
    center: float
    spread: float
    scales: Mapping[str, float]
    noise: float

    def transform(self, values: Floats) -> Floats:
        """t of values; of later ones that are better than the best, at most so much that the logarithm is 0."""
        logs = np.log(np.maximum((values - self.best) / self.unit + SHIFT, 1.0))
        return np.asarray((logs - self.center) / self.spread)


def fit_objective(features: Features, places: Integers, values: Floats) -> Fitted | None:
    """Fit to observed values.

    Args:
        features: Features of at least the observed genomes.
        places: Their indices, shape (n,).
        values: Their values, shape (n,).

    Returns:
        None where nothing can be learnt: fewer than three values, or all equal.
    """
    best = float(values.min())
    above = values[values > best] - best
    if len(values) < 3 or not len(above):
        return None
    unit = float(np.median(values)) - best or float(np.median(above))
    logs = np.log((values - best) / unit + SHIFT)
    center, spread = float(logs.mean()), float(logs.std())
    found = fit(features.by_group(places, places), (logs - center) / spread)
    return Fitted(best, unit, center, spread, dict(zip(features.names, found.scales, strict=True)), found.noise)


class ObjectiveModel:
    """The distribution of one objective over candidates, after the observed and after imagined evaluations.

    Args:
        fitted: Transform and hyperparameters.
        features: Features of the observed and of the candidates.
        observed: Indices of the observed, shape (n,).
        values: Their values, shape (n,).
        candidates: Indices of the candidates, shape (m,).
    """

    def __init__(
        self, fitted: Fitted, features: Features, observed: Integers, values: Floats, candidates: Integers
    ) -> None:
        usual = float(np.exp(KernelPrior().scale))  # of groups in which the genomes of the fit did not differ
        self._fitted, self._candidates = fitted, candidates
        scales = np.array([fitted.scales.get(name, usual) for name in features.names])
        kernel = np.exp(-features.distance(observed, observed, scales))
        self._process = GaussianProcess(kernel, fitted.transform(values), fitted.noise)
        self._distance_to = features.from_all(candidates, scales)
        self._means, self._explained = self._process.predict(np.exp(-self._distance_to(observed)))

    @property
    def deviations(self) -> Floats:
        """Standard deviations of t, without noise, shape (m,)."""
        left = np.maximum(1.0 - (self._explained**2).sum(axis=1), 1e-9)
        return np.asarray(np.sqrt(self._process.variance * left))

    def medians(self) -> Floats:
        """Medians of the values, shape (m,)."""
        one = self._fitted
        return np.asarray(one.best + one.unit * (np.exp(one.center + one.spread * self._means) - SHIFT))

    def shortfall(self) -> Shortfall:
        """ψ of the candidates' values."""
        one = self._fitted
        means = one.center + one.spread * self._means + np.log(one.unit)
        return log_normal_shortfall(means, one.spread * self.deviations, one.unit * SHIFT - one.best)

    def optimistic(self, candidate: int) -> float:
        """The value one standard deviation below the mean."""
        one = self._fitted
        t = self._means[candidate] - self.deviations[candidate]
        return float(one.best + one.unit * (np.exp(one.center + one.spread * t) - SHIFT))

    def imagine(self, candidate: int) -> None:
        """Count this candidate as evaluated with the mean as its value: nearby deviations shrink, means stay."""
        own = self._candidates[[candidate]]
        kernel = np.exp(-self._distance_to(own))[:, 0]
        row = self._explained[candidate]
        left = max(1.0 - float(row @ row), 1e-9) + self._process.noise
        added = (kernel - self._explained @ row) / np.sqrt(left)
        self._explained = np.column_stack([self._explained, added])
