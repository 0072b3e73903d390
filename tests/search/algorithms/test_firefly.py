"""The firefly algorithm: attraction by its formula, moves towards the brighter, elites that stay."""

from __future__ import annotations

import math
from functools import partial

import pytest

from evodevo.randomness import generator
from evodevo.search.algorithms.firefly import attraction
from evodevo.search.base import Scored, SearchState, create
from evodevo.testing.bare_search import generational
from evodevo.testing.tabular import Cell, CellSpace

STILL = CellSpace(mutation_probability=0.0)


def test_attraction_grows_with_dissimilarity() -> None:
    assert attraction(0.0, 1.0, 1.0) == 0.0
    assert attraction(1.0, 1.0, 1.0) == pytest.approx(1 - math.exp(-1))
    assert attraction(0.5, 0.8, 2.0) == pytest.approx(0.8 * (1 - math.exp(-1)))
    assert attraction(0.5, 0.8, 2.0) < attraction(0.6, 0.8, 2.0)


def test_the_dim_one_moves_and_the_bright_one_does_not() -> None:
    bright, dim = Scored("bright", (0,) * 6, (0.0,)), Scored("dim", (4,) * 6, (1.0,))
    state = SearchState((bright, dim), (0, 1), 2)
    algorithm = create("firefly", {"population": 4, "elites": 1})
    copied = []
    for seed in range(300):
        # Slot 0 is the first after the one elite: the dim one.
        child = algorithm.ask(state, STILL, partial(generator, seed), 2, {STILL.hash(dim.genome)}.__contains__)[0]
        assert set(child.genome) <= {0, 4}
        assert (child.operation, child.parents) == ("attraction", ("dim", "bright"))
        assert child.details["attraction"] == pytest.approx(1 - math.exp(-1))
        assert child.details["copied"] == child.genome.count(0)
        copied.append(child.genome.count(0))
    # Each of six segments with probability β, except that nothing copied (1 in 400) is a duplicate and redrawn.
    assert sum(copied) / 300 == pytest.approx(6 * (1 - math.exp(-1)), abs=0.25)


def test_without_anybody_brighter_there_is_only_mutation() -> None:
    equals = (Scored("a", (0,) * 6, (1.0,)), Scored("b", (4,) * 6, (1.0,)))
    algorithm = create("firefly", {"population": 4})
    children = algorithm.ask(SearchState(equals, (0, 0), 2), CellSpace(), partial(generator, 1), 12, lambda _: False)
    assert {one.operation for one in children} == {"mutation"}
    assert all(len(one.parents) == 1 for one in children)


def test_a_generation_moves_everybody_but_the_elites() -> None:
    algorithm = create("firefly")
    rows = [Scored(str(i), (i % 5, i // 5, 0, 1, 2, 3), (float(i),)) for i in range(16)]
    state = algorithm.tell(algorithm.start(), rows)
    children = algorithm.ask(state, CellSpace(), partial(generator, 2), algorithm.offspring, lambda _: False)
    assert [one.parents[0] for one in children] == [str(i) for i in range(2, 16)]


def test_an_event_of_steady_state_moves_anybody() -> None:
    algorithm = create("firefly")
    rows = [Scored(str(i), (i % 5, i // 5, 0, 1, 2, 3), (float(i),)) for i in range(16)]
    state = algorithm.tell(algorithm.start(), rows)
    moved = {
        algorithm.ask(state, CellSpace(), partial(generator, event), 1, lambda _: False)[0].parents[0]
        for event in range(200)
    }
    assert moved == {str(i) for i in range(16)}


def test_it_finds_a_target() -> None:
    def misses(genome: Cell) -> tuple[float]:
        return (float(sum(a != b for a, b in zip(genome, (4, 0, 3, 1, 2, 2), strict=True))),)

    assert min(generational(create("firefly"), CellSpace(), misses, seed=1, evaluations=500).values) == (0.0,)
