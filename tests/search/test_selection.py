"""Standings, tournaments, survival."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.randomness import generator
from evodevo.search.base import Scored
from evodevo.search.selection import (
    crowded_standings,
    keep_best,
    keep_elites,
    summed_objectives,
    summed_standings,
    tournament,
)

LAWS = settings(max_examples=40, deadline=None, database=None)


def pool(*rows: tuple[float, float, float]) -> list[Scored]:
    """Individuals of two objectives and a violation."""
    return [Scored(str(index), index, (a, b), violation) for index, (a, b, violation) in enumerate(rows)]


def test_rank_comes_before_crowding_and_feasibility_before_both() -> None:
    individuals = pool(
        (0, 3, 0), (1, 1.9, 0), (1.5, 1.5, 0), (3, 0, 0), (2, 2, 0), (0, 0, 0.5), (0, 0, 0.2), (9, 9, 0.2)
    )
    standings = crowded_standings(individuals)
    # The two ends of the front are equal; then its inner points by crowding; then the next rank; then violations.
    assert standings.tolist() == [0, 2, 1, 0, 3, 5, 4, 4]


def test_the_sum_of_normalised_objectives() -> None:
    values = np.array([[0.0, 10.0], [5.0, 20.0], [10.0, 10.0]])
    assert summed_objectives(values).tolist() == [0.0, 1.5, 1.0]
    assert summed_objectives(np.array([[3.0, 1.0], [3.0, 2.0]])).tolist() == [0.0, 1.0]  # 0 where max = min
    assert summed_standings(pool((0, 10, 0), (5, 20, 0), (10, 10, 0), (0, 0, 2), (0, 0, 1))).tolist() == [0, 2, 1, 4, 3]


def test_the_infeasible_do_not_stretch_the_ranges() -> None:
    near = [(0.0, 1.0, 0.0), (0.4, 0.5, 0.0)]
    # By the feasible ranges the sums are 1 and 1, equal; an infeasible giant would change that.
    assert summed_standings(pool(*near, (1e9, 0.0, 1.0))).tolist() == [0, 0, 1]


@LAWS
@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(1, 6), st.integers(0, 999), st.data())
def test_tournament_takes_the_best_of_different_ones(
    standings: list[int], size: int, seed: int, data: st.DataObject
) -> None:
    excluded = data.draw(st.none() | st.integers(0, len(standings) - 1)) if len(standings) > 1 else None
    winner = tournament(standings, size, generator(seed), excluded)
    allowed = [position for position in range(len(standings)) if position != excluded]
    assert winner in allowed
    if size >= len(allowed):  # all are drawn, so the best wins
        assert standings[winner] == min(standings[position] for position in allowed)


def test_tournament_draws_evenly_and_presses_as_the_theory_says() -> None:
    rng = generator(1)
    ones = Counter(tournament([0, 0, 0, 0], 1, rng, excluded=2) for _ in range(6000))
    assert ones[2] == 0
    assert all(abs(ones[position] - 2000) < 200 for position in (0, 1, 3))
    # Of 4 different ones the best wins every pair that it is in: 3 of 6; the worst none.
    pairs = Counter(tournament([0, 1, 2, 3], 2, rng) for _ in range(6000))
    for position, share in enumerate((3 / 6, 2 / 6, 1 / 6, 0)):
        assert pairs[position] / 6000 == pytest.approx(share, abs=0.03)


def test_the_best_survive_and_of_equals_the_earliest() -> None:
    assert keep_best(np.array([2, 0, 1, 0, 1]), 4).tolist() == [1, 3, 2, 4]


def test_elites_survive_beside_all_children() -> None:
    # Parents 0 to 3, children 4 to 6: two elites (1, 3), three children although bad, no room for another parent.
    standings = np.array([2, 0, 3, 1, 9, 8, 7])
    assert keep_elites(standings, 4, 2, 5).tolist() == [1, 3, 6, 5, 4]
    # Too few children: the best of the other parents fill up. Too many: the worst children go.
    assert keep_elites(standings[:5], 4, 2, 4).tolist() == [1, 3, 0, 4]
    assert keep_elites(standings, 4, 2, 4).tolist() == [1, 3, 6, 5]
    # A first generation has no parents.
    assert keep_elites(np.array([2, 0, 1]), 0, 2, 5).tolist() == [1, 2, 0]
