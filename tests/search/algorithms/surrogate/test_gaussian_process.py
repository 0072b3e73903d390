"""The Gaussian process: equal to scikit-learn's, its gradient to differences, and it finds the scales of a sample."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel, StationaryKernelMixin

from evodevo.search.algorithms.surrogate.features import Features, encode
from evodevo.search.algorithms.surrogate.gaussian_process import (
    GaussianProcess,
    KernelParameters,
    _negative_evidence,
    fit,
)


class Weighted(StationaryKernelMixin, Kernel):  # type: ignore[misc]
    """exp(-Σ scale · distance) by a double loop, for scikit-learn; inputs are indices of genomes."""

    def __init__(self, rows: list[list[int]], scales: list[float]) -> None:
        self.rows = rows
        self.scales = scales

    def __call__(self, X, Y=None, eval_gradient=False):  # type: ignore[no-untyped-def]
        others = X if Y is None else Y
        return np.array([[self._value(int(a[0]), int(b[0])) for b in others] for a in X])

    def diag(self, X):  # type: ignore[no-untyped-def]
        return np.ones(len(X))

    def _value(self, a: int, b: int) -> float:
        left, right = self.rows[a], self.rows[b]
        total = sum(scale * (x != y) for scale, x, y in zip(self.scales, left, right, strict=True))
        content = sum(abs(left.count(value) - right.count(value)) for value in range(3)) / 2 / len(left)
        return float(np.exp(-total - self.scales[0] * content))


def genomes(count: int, seed: int = 0) -> tuple[list[list[int]], Features]:
    rows = np.random.default_rng(seed).integers(3, size=(count, 5)).tolist()
    return rows, encode([tuple(row) for row in rows])


def test_the_posterior_is_scikit_learns() -> None:
    rows, features = genomes(30)
    targets = np.random.default_rng(1).normal(size=20)
    by_gene = [0.3, 0.1, 0.7, 0.2, 0.5]
    scales = np.array([by_gene[int(name[-1])] if "at" in name else by_gene[0] for name in features.names])
    old, new = np.arange(20), np.arange(20, 30)
    ours = GaussianProcess(np.exp(-features.distance(old, old, scales)), targets, noise=0.05)
    means, explained = ours.predict(np.exp(-features.distance(new, old, scales)))

    theirs = GaussianProcessRegressor(Weighted(rows, by_gene), alpha=0.05, optimizer=None)
    theirs.fit(old[:, None], targets - ours.mean)
    expected, covariance = theirs.predict(new[:, None], return_cov=True)
    np.testing.assert_allclose(means, expected + ours.mean, atol=1e-9)
    own = np.exp(-features.distance(new, new, scales)) - explained @ explained.T
    np.testing.assert_allclose(own, covariance, atol=1e-9)


def test_mean_and_variance_have_the_largest_density() -> None:
    _, features = genomes(15)
    old = np.arange(15)
    kernel = np.exp(-features.distance(old, old, np.full(len(features.names), 0.3)))
    targets = np.random.default_rng(2).normal(size=15)
    process = GaussianProcess(kernel, targets, noise=0.1)

    def density(mean: float, variance: float) -> float:
        matrix = variance * (kernel + 0.1 * np.eye(15))
        residual = targets - mean
        return float(-0.5 * residual @ np.linalg.solve(matrix, residual) - 0.5 * np.linalg.slogdet(matrix)[1])

    best = density(process.mean, process.variance)
    for mean, variance in ((0.05, 1.0), (-0.05, 1.0), (0.0, 1.1), (0.0, 0.9)):
        assert density(process.mean + mean, process.variance * variance) < best


def test_the_gradient_is_that_of_differences() -> None:
    _, features = genomes(12)
    everybody = np.arange(12)
    flat = features.by_group(everybody, everybody).reshape(len(features.names), -1)
    targets = np.random.default_rng(3).normal(size=12)
    logs = np.random.default_rng(4).normal(-1, 0.5, size=len(flat) + 1)
    gradient = _negative_evidence(logs, flat, targets)[1]
    for place in range(len(logs)):
        step = np.zeros(len(logs))
        step[place] = 1e-5
        above, below = (_negative_evidence(logs + sign * step, flat, targets)[0] for sign in (1, -1))
        assert gradient[place] == pytest.approx((above - below) / 2e-5, rel=1e-4, abs=1e-6)


def test_the_fit_knows_which_gene_decides() -> None:
    rows, features = genomes(60, seed=5)
    everybody = np.arange(60)
    targets = np.array([float(row[2]) for row in rows])
    found = fit(features.by_group(everybody, everybody), (targets - targets.mean()) / targets.std())
    scales = dict(zip(features.names, found.scales, strict=True))
    assert max(scales, key=lambda name: scales[name]) == "segment at 2"


def test_last_bits_change_nothing() -> None:
    _, features = genomes(30)
    everybody = np.arange(30)
    distances = features.by_group(everybody, everybody)
    targets = np.random.default_rng(6).normal(size=30)
    found = fit(distances, targets)
    assert isinstance(found, KernelParameters)
    assert fit(distances * (1 + 1e-15), targets * (1 - 1e-15)) == found
