"""The real-vector space keeps the laws of spaces, its operators those of their papers, and ZDT its known fronts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pymoo.operators.crossover.sbx import cross_sbx
from pymoo.problems import get_problem

from evodevo.randomness import generator
from evodevo.search import dominance
from evodevo.search.space import Space
from evodevo.testing.real_vector import ZDT_REFERENCE, Point, RealVectorSpace, zdt1, zdt2, zdt3
from evodevo.testing.spaces import SpaceTests


class TestRealVectorSpace(SpaceTests):
    def make_space(self) -> Space[Point]:
        return RealVectorSpace(7)

    def make_invalid(self, space: Space[Point], rng: np.random.Generator) -> Point:
        return (math.nan, math.inf, -1.0, 2.0, 0.5, *rng.random(int(rng.integers(5))).tolist())


@pytest.mark.parametrize(("ours", "name"), [(zdt1, "zdt1"), (zdt2, "zdt2"), (zdt3, "zdt3")])
def test_zdt_is_pymoos(ours: object, name: str) -> None:
    points = generator(1).random((50, 30))
    theirs = get_problem(name).evaluate(points)
    np.testing.assert_allclose([ours(tuple(point)) for point in points.tolist()], theirs, rtol=1e-12)  # type: ignore[operator]


@pytest.mark.parametrize(("problem", "limit"), [(zdt1, 0.8767), (zdt2, 0.5433), (zdt3, 1.3317)])
def test_zdt_fronts_have_the_known_hypervolume(problem: object, limit: float) -> None:
    front = [problem((first, *[0.0] * 29)) for first in np.linspace(0, 1, 20_001).tolist()]  # type: ignore[operator]
    assert dominance.hypervolume(front, ZDT_REFERENCE) == pytest.approx(limit, abs=2e-4)


def test_simulated_binary_crossover_spreads_children_as_pymoo_does() -> None:
    a, b = 0.3, 0.4
    rng = generator(1)
    space = RealVectorSpace(500, crossover_probability=1.0)
    ours = np.array([space.crossover((a,) * 500, (b,) * 500, rng) for _ in range(40)])
    parents = np.array([np.full((40, 500), a), np.full((40, 500), b)])
    theirs = cross_sbx(
        parents, np.zeros(500), np.ones(500), np.full((40, 1), 15.0), 0.5, np.full((40, 1), 0.5), random_state=rng
    )
    left, right = np.sort(ours.reshape(-1)), np.sort(theirs.reshape(-1))
    assert len(left) == len(right) == 40_000
    np.testing.assert_allclose(left.mean(), right.mean(), atol=2e-3)
    for quantile in (0.02, 0.1, 0.25, 0.4, 0.6, 0.75, 0.9, 0.98):
        assert np.quantile(left, quantile) == pytest.approx(np.quantile(right, quantile), abs=2e-3)
    # The two children of a coordinate keep the sum of their parents, up to the asymmetry of the bounds.
    assert np.abs(ours.sum(axis=1) - (a + b)).max() < 1e-2


def test_polynomial_mutation_changes_one_coordinate_in_n_by_small_steps() -> None:
    space, rng = RealVectorSpace(30), generator(2)
    middle = (0.5,) * 30
    steps = np.array([space.mutate(middle, rng) for _ in range(3000)]) - 0.5
    changed = steps[steps != 0]
    assert len(changed) / 3000 == pytest.approx(1.0, abs=0.06)
    assert changed.mean() == pytest.approx(0.0, abs=0.005)
    # Density (η + 1)/2 (1 − |δ|)^η has the mean |δ| of 1/(η + 2), a little less within the bounds.
    assert np.abs(changed).mean() == pytest.approx(1 / 22, abs=0.004)


def test_operators_stay_within_the_bounds_at_the_bounds() -> None:
    space, rng = RealVectorSpace(4, mutation_probability=1.0, crossover_eta=0.1, mutation_eta=0.1), generator(3)
    for _ in range(300):
        corner: Point = tuple(float(value) for value in rng.integers(0, 2, size=4))
        other: Point = tuple(float(value) for value in rng.integers(0, 2, size=4))
        for genome in (*space.crossover(corner, other, rng), space.mutate(corner, rng)):
            space.check(genome)
