"""The cell space keeps the laws of spaces; the table is refused where it is another."""

from __future__ import annotations

import csv
import gzip
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from evodevo.errors import DataError, NotFoundError
from evodevo.randomness import generator
from evodevo.search import dominance
from evodevo.search.space import Space
from evodevo.testing.macro_table import MacroSpace, MacroTable
from evodevo.testing.spaces import SpaceTests
from evodevo.testing.tabular import NUM_EDGES, OPERATIONS, Cell, CellSpace, CellTable

TABLE = Path(__file__).parents[3] / "shared" / "data" / "nas_bench_201_12epoch" / "table.npz"
MACRO = Path(__file__).parents[3] / "shared" / "data" / "nas_bench_macro" / "table.csv.gz"


class TestCellSpace(SpaceTests):
    def make_space(self) -> Space[Cell]:
        return CellSpace()

    def make_invalid(self, space: Space[Cell], rng: np.random.Generator) -> Cell:
        return tuple(rng.integers(-3, 8, size=int(rng.integers(9))).tolist())


class TestMacroSpace(SpaceTests):
    def make_space(self) -> Space[Cell]:
        return MacroSpace()

    def make_invalid(self, space: Space[Cell], rng: np.random.Generator) -> Cell:
        return tuple(rng.integers(-3, 8, size=int(rng.integers(11))).tolist())


def test_mutation_is_uniform_over_the_other_operations() -> None:
    space, rng = CellSpace(mutation_probability=0.3), generator(1)
    counts = np.zeros(len(OPERATIONS))
    for _ in range(2000):
        for gene in space.mutate((2,) * NUM_EDGES, rng):
            counts[gene] += 1
    shares = counts / counts.sum()
    np.testing.assert_allclose(shares, [0.075, 0.075, 0.7, 0.075, 0.075], atol=0.015)


@pytest.mark.parametrize("points", [1, 2, 5])
def test_crossover_cuts_at_that_many_points_and_keeps_both_children(points: int) -> None:
    space, rng = CellSpace(crossover_points=points), generator(2)
    for _ in range(100):
        left, right = space.crossover((0,) * NUM_EDGES, (1,) * NUM_EDGES, rng)
        assert [a + b for a, b in zip(left, right, strict=True)] == [1] * NUM_EDGES
        assert sum(a != b for a, b in pairwise(left)) == points


def test_the_table_is_asked_for_by_path(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no table"):
        CellTable(tmp_path / "table.npz")
    np.savez(tmp_path / "table.npz", ops=np.array(["add"]), genes=np.zeros((1, 6)))
    with pytest.raises(DataError, match="not the NAS-Bench-201 table"):
        CellTable(tmp_path / "table.npz")


@pytest.mark.skipif(not TABLE.is_file(), reason=f"no NAS-Bench-201 table at {TABLE}")
def test_the_table_has_the_published_front() -> None:
    table = CellTable(TABLE)
    space = CellSpace()
    cells = [space.parse(np.base_repr(number, 5).zfill(6)) for number in range(5**6)]
    values = [table.objectives(cell) for cell in cells]
    assert len({values[position] for position in dominance.front(values).tolist()}) == 15
    assert table.optimum == pytest.approx(0.56026, abs=1e-5)


def test_the_macro_table_is_asked_for_by_path(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no table"):
        MacroTable(tmp_path / "table.csv.gz")
    with gzip.open(tmp_path / "table.csv.gz", "wt") as file:
        file.write("arch,mean_acc,flops\n00000000,90,1\n")
    with pytest.raises(DataError, match="not the NAS-Bench-Macro table"):
        MacroTable(tmp_path / "table.csv.gz")


@pytest.mark.skipif(not MACRO.is_file(), reason=f"no NAS-Bench-Macro table at {MACRO}")
def test_the_macro_table_is_the_published_one() -> None:
    table = MacroTable(MACRO)
    with gzip.open(MACRO, "rt") as file:
        rows = {row["arch"].zfill(8): row for row in csv.DictReader(file)}
    best, worst = (choose(float(row["mean_acc"]) for row in rows.values()) for choose in (max, min))
    assert (best, worst) == (pytest.approx(93.13, abs=0.005), pytest.approx(45.36, abs=0.005))
    error, flops = table.objectives((2,) * 8)
    assert error == pytest.approx((best - float(rows["22222222"]["mean_acc"])) / (best - worst))
    assert flops == 1.0
    assert table.optimum == pytest.approx(0.836872, abs=1e-6)
