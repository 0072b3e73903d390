"""Regularized evolution: mutants of the best of a few, and death by age."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from evodevo.randomness import generator
from evodevo.search.base import Scored, create
from evodevo.testing.bare_search import steady_state
from evodevo.testing.tabular import Cell, CellSpace, CellTable

TABLE = Path(__file__).parents[4] / "shared" / "data" / "nas_bench_201_12epoch" / "table.npz"


def test_the_oldest_dies_however_good() -> None:
    algorithm = create("regularized", {"population": 3})
    state = algorithm.tell(algorithm.start(), [Scored(str(i), i, (float(i),)) for i in range(3)])
    state = algorithm.tell(state, [Scored("3", 3, (3.0,))])
    assert [one.id for one in state.population] == ["1", "2", "3"]
    assert state.standings == (0, 1, 2)


def test_the_failed_are_not_born_and_kill_nobody() -> None:
    algorithm = create("regularized", {"population": 3})
    state = algorithm.tell(algorithm.start(), [Scored(str(i), i, (float(i),)) for i in range(3)])
    state = algorithm.tell(state, [Scored("3", 3, None)])
    assert [one.id for one in state.population] == ["0", "1", "2"]


def test_several_objectives_are_judged_by_their_normalised_sum() -> None:
    algorithm = create("regularized", {"population": 3})
    state = algorithm.tell(
        algorithm.start(), [Scored("a", 0, (0.0, 100.0)), Scored("b", 1, (0.4, 0.0)), Scored("c", 2, (1.0, 90.0))]
    )
    assert state.standings == (1, 0, 2)


def test_the_best_of_all_is_the_parent_where_all_compete() -> None:
    algorithm = create("regularized", {"population": 5, "tournament_size": 5})
    rows = [Scored(str(i), (i, 0, 0, 0, 0, 0), (float(abs(i - 3)),)) for i in range(5)]
    state = algorithm.tell(algorithm.start(), rows)
    children = algorithm.ask(state, CellSpace(), partial(generator, 1), 6, lambda _: False)
    assert {(one.operation, one.parents) for one in children} == {("mutation", ("3",))}


@pytest.mark.slow
@pytest.mark.skipif(not TABLE.is_file(), reason=f"no NAS-Bench-201 table at {TABLE}")
def test_nas_bench_201_accuracy_beats_random() -> None:
    table = CellTable(TABLE)

    def accuracy(name: str, seed: int) -> float:
        def error(genome: Cell) -> tuple[float]:
            return table.objectives(genome)[:1]

        history = steady_state(create(name), CellSpace(), error, seed=seed, evaluations=500)
        return 100 * (1 - min(history.values)[0])

    ours, control = (np.mean([accuracy(name, seed) for seed in range(8)]) for name in ("regularized", "random"))
    # Another engine: 61.06 against 60.38; the best cell has 61.32.
    assert ours > 61.0
    assert ours > control + 0.3
