"""The expected gain of hypervolume is what many draws give on average."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from evodevo.search import dominance
from evodevo.search.algorithms.surrogate.improvement import boxes, exact_shortfall, expected_gain, log_normal_shortfall


def growth(front: np.ndarray, point: np.ndarray, reference: np.ndarray) -> float:
    both = dominance.hypervolume(np.vstack([front, point]), reference)
    return both - (dominance.hypervolume(front, reference) if len(front) else 0.0)


@settings(max_examples=60, deadline=None, database=None)
@given(st.integers(1, 4), st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_a_known_point_gains_what_it_adds(objectives: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # A coarse grid makes ties, and some points lie beyond the reference.
    front = rng.integers(0, 12, size=(size, objectives)) / 10
    points = rng.integers(-2, 12, size=(5, objectives)) / 10
    reference = np.ones(objectives)
    gains = expected_gain(front, reference, [exact_shortfall(column) for column in points.T])
    expected = [growth(front, point, reference) for point in points]
    np.testing.assert_allclose(gains, expected, atol=1e-9)


@pytest.mark.parametrize("known", [0, 1])
def test_an_uncertain_point_gains_what_draws_gain_on_average(known: int) -> None:
    rng = np.random.default_rng(7)
    front = np.array([[0.1, 0.8], [0.4, 0.4], [0.8, 0.2]])
    reference = np.array([1.0, 1.0])
    mean, deviation, shift = -0.9, 0.5, 0.1
    draws = np.exp(rng.normal(mean, deviation, size=20_000)) - shift
    uncertain = log_normal_shortfall(np.array([mean]), np.array([deviation]), shift)
    if known:
        shortfalls = [uncertain, exact_shortfall(np.array([0.3]))]
        points = np.column_stack([draws, np.full(len(draws), 0.3)])
    else:
        shortfalls = [uncertain, uncertain]
        points = np.column_stack([draws, np.exp(rng.normal(mean, deviation, size=20_000)) - shift])
    # The growth by one point: the staircase of the front, strip by strip.
    edges = np.array([-10.0, 0.1, 0.4, 0.8, 1.0])
    heights = np.array([1.0, 0.8, 0.4, 0.2])
    widths = np.maximum(edges[None, 1:] - np.maximum(edges[None, :-1], points[:, :1]), 0)
    gained = (widths * np.maximum(heights[None, :] - points[:, 1:], 0)).sum(axis=1)
    assert gained[:3] == pytest.approx([growth(front, point, reference) for point in points[:3]])
    error = gained.std() / np.sqrt(len(gained))
    assert expected_gain(front, reference, shortfalls)[0] == pytest.approx(gained.mean(), abs=4 * error)


def test_with_one_objective_it_is_the_expected_improvement() -> None:
    # Far from its bound, a log-normal value with a small deviation is almost normal.
    shift, mean, deviation, best = 1000.0, 0.3, 0.2, 0.25
    logs = np.array([np.log(mean + shift)]), np.array([deviation / (mean + shift)])
    gain = expected_gain(np.array([[best], [0.7]]), np.array([2.0]), [log_normal_shortfall(*logs, shift)])
    z = (best - mean) / deviation
    assert gain[0] == pytest.approx(deviation * (z * norm.cdf(z) + norm.pdf(z)), rel=1e-3)


def test_boxes_are_disjoint_and_fill_what_is_not_dominated() -> None:
    rng = np.random.default_rng(8)
    front, reference = rng.random((9, 3)), np.ones(3)
    lower, upper = boxes(front, reference)
    points = rng.uniform(-0.2, 1.0, size=(400, 3))
    inside = ((points[:, None] > lower) & (points[:, None] < upper)).all(axis=2).sum(axis=1)
    dominated = (front[None] <= points[:, None]).all(axis=2).any(axis=1)
    assert (inside == ~dominated).all()


def test_a_crowded_front_of_many_objectives_is_thinned() -> None:
    front = np.random.default_rng(9).dirichlet(np.ones(5), size=200)
    assert len(boxes(front, np.full(5, 2.0))[0]) < 20_000
