"""The genetic algorithm: one score, elites, and a target that it finds."""

from __future__ import annotations

import pytest

from evodevo.search.base import Scored, create
from evodevo.testing.bare_search import generational, steady_state
from evodevo.testing.tabular import Cell, CellSpace


def test_the_score_is_judged_over_parents_and_children_together() -> None:
    algorithm = create("genetic", {"population": 3, "elites": 1})
    parents = algorithm.tell(
        algorithm.start(), [Scored("a", 0, (0.0, 1.0)), Scored("b", 1, (0.9, 0.0)), Scored("c", 2, (1.0, 1.0))]
    )
    # Among themselves: a has 0 + 1, b has 0.9 + 0.
    assert [one.id for one in parents.population] == ["b", "a", "c"]
    # A child at (0, 10) shrinks the second objective: a has 0 + 0.1, b has 0.9, so a is now the elite.
    state = algorithm.tell(parents, [Scored("d", 3, (0.0, 10.0)), Scored("e", 4, (0.9, 9.0))])
    assert {one.id for one in state.population} == {"a", "d", "e"}


def test_two_elites_and_fourteen_children() -> None:
    algorithm = create("genetic")
    assert (algorithm.settings.population, algorithm.offspring) == (16, 14)
    parents = algorithm.tell(algorithm.start(), [Scored(f"p{i}", i, (float(i),)) for i in range(16)])
    state = algorithm.tell(parents, [Scored(f"c{i}", i, (50.0 + i,)) for i in range(14)])
    assert [one.id for one in state.population] == ["p0", "p1"] + [f"c{i}" for i in range(14)]


def test_one_child_at_a_time_replaces_the_worst_parent() -> None:
    algorithm = create("genetic", {"population": 4})
    state = algorithm.tell(algorithm.start(), [Scored(f"p{i}", i, (float(i),)) for i in range(4)])
    state = algorithm.tell(state, [Scored("c", 9, (9.0,))])
    assert [one.id for one in state.population] == ["p0", "p1", "p2", "c"]


@pytest.mark.slow
def test_it_finds_a_target() -> None:
    def misses(genome: Cell) -> tuple[float]:
        return (float(sum(a != b for a, b in zip(genome, (4, 0, 3, 1, 2, 2), strict=True))),)

    for drive in (generational, steady_state):
        history = drive(create("genetic"), CellSpace(), misses, seed=1, evaluations=400)
        assert min(history.values) == (0.0,)
        # Random search tries 400 of 15,625.
        assert min(drive(create("random"), CellSpace(), misses, seed=1, evaluations=400).values) > (0.0,)
