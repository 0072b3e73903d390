"""A Gaussian process over genomes: y = mean + s · f + noise, f with the kernel exp(-Σ scale_g · distance_g).

Rasmussen, Williams, "Gaussian processes for machine learning", 2006, chapters 2 and 5. Mean and s² are found in closed
form, the scales and the share of noise by the largest posterior probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evodevo.search.dominance import Floats

LEAST_NOISE = 1e-4
STEPS = 64
"""Scales are rounded to this many steps per factor e, so that the last bits of a sum decide nothing."""


@dataclass(frozen=True)
class KernelPrior:
    """Normal priors of the natural logarithms.

    Attributes:
        scale: Mean of log scale.
        scale_spread: Its standard deviation.
        noise: Mean of log noise; noise is a share of s².
        noise_spread: Its standard deviation.
    """

    scale: float = -1.5
    scale_spread: float = 1.0
    noise: float = -5.0
    noise_spread: float = 1.5


@dataclass(frozen=True)
class KernelParameters:
    """Attributes: scales, one per group of distances, > 0; noise, a share of s², > 0."""

    scales: tuple[float, ...]
    noise: float


def fit(distances: Floats, targets: Floats, prior: KernelPrior | None = None, iterations: int = 15) -> KernelParameters:
    """The hyperparameters of the largest posterior density that a search with gradients finds.

    Args:
        distances: Distances by group, shape (groups, n, n).
        targets: Values, shape (n,), n >= 2, not all equal.
        prior: KernelPrior of the hyperparameters.
        iterations: Most steps of the search (L-BFGS-B).
    """
    from scipy.optimize import minimize

    prior = prior or KernelPrior()
    groups = len(distances)
    flat = distances.reshape(groups, -1)
    means = np.r_[np.full(groups, prior.scale), prior.noise]
    spreads = np.r_[np.full(groups, prior.scale_spread), prior.noise_spread]

    def loss(logs: Floats) -> tuple[float, Floats]:
        value, gradient = _negative_evidence(logs, flat, targets)
        pull = (logs - means) / spreads
        return value + 0.5 * float(pull @ pull), gradient + pull / spreads

    bounds = [(-8.0, 4.0)] * groups + [(float(np.log(LEAST_NOISE)), 0.0)]
    found = minimize(loss, means, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": iterations})
    logs = np.clip(np.round(found.x * STEPS) / STEPS, [low for low, _ in bounds], [high for _, high in bounds])
    values = np.exp(logs).tolist()
    return KernelParameters(tuple(values[:-1]), values[-1])


def _negative_evidence(logs: Floats, flat: Floats, targets: Floats) -> tuple[float, Floats]:
    """-log density with mean and s² at their best, and its gradient by the logarithms."""
    from scipy.linalg import cholesky
    from scipy.linalg.lapack import dpotri

    count = len(targets)
    scales, noise = np.exp(logs[:-1]), np.exp(logs[-1])
    kernel = np.exp(-(scales @ flat)).reshape(count, count)
    matrix = kernel.copy()
    matrix[np.diag_indices(count)] += noise
    lower = cholesky(matrix, lower=True, check_finite=False)
    inverse, _ = dpotri(lower, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    ones = inverse.sum(axis=1)
    mean = float(ones @ targets) / float(ones.sum())
    residual = targets - mean
    weights = inverse @ residual
    variance = max(float(residual @ weights) / count, 1e-300)
    value = 0.5 * count * np.log(variance) + float(np.log(np.diag(lower)).sum())
    # d/dp of the value: ½ Σ (A⁻¹ - w wᵀ / s²) ∘ dA/dp.
    change = 0.5 * (inverse - np.outer(weights, weights) / variance)
    by_scale = -(flat @ (change * kernel).ravel()) * scales
    return float(value), np.r_[by_scale, float(np.trace(change)) * noise]


class GaussianProcess:
    """The process after observations, with fixed hyperparameters.

    Args:
        kernel: exp(-distance) between the observed, shape (n, n).
        targets: Observed values, shape (n,).
        noise: Noise as a share of s².
    """

    def __init__(self, kernel: Floats, targets: Floats, noise: float) -> None:
        from scipy.linalg import cho_solve, cholesky

        matrix = kernel.copy()
        matrix[np.diag_indices(len(targets))] += noise
        self._lower = cholesky(matrix, lower=True, check_finite=False)
        self._ones = cho_solve((self._lower, True), np.ones(len(targets)), check_finite=False)
        self.mean = float(self._ones @ targets) / float(self._ones.sum())
        residual = targets - self.mean
        self._weights = cho_solve((self._lower, True), residual, check_finite=False)
        self.variance = max(float(residual @ self._weights) / len(targets), 1e-12)
        self.noise = noise

    def predict(self, cross: Floats) -> tuple[Floats, Floats]:
        """Means of f at new places, and what the observations explain of it.

        Args:
            cross: Kernel between new places and the observed, shape (m, n).

        Returns:
            Means, shape (m,), and rows, shape (m, n), with cov(a, b) = s² (kernel(a, b) - row_a · row_b).
        """
        from scipy.linalg import solve_triangular

        rows = solve_triangular(self._lower, cross.T, lower=True, check_finite=False).T
        return self.mean + cross @ self._weights, rows
