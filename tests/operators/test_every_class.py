"""The conformance suite over the table of LIV classes, and over genomes with every pair of options."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product

import pytest

from evodevo.errors import GenomeError
from evodevo.operators.classes import LIVClass, liv_classes
from evodevo.operators.compile import compile_operator
from evodevo.operators.spec import Dimensions
from evodevo.testing.operators import OperatorCase, OperatorTests, liv_case

DIMS = Dimensions(width=16, head_size=4, band=5, modes=3, max_length=100, chunk=8)


def compiled_genomes() -> list[tuple[int, ...]]:
    """The operator genomes over the paper's options that compile."""
    found = []
    for genome in product(range(1, 10), range(1, 5), range(1, 3), range(1, 5), range(1, 3)):
        try:
            compile_operator(genome)
        except GenomeError:
            continue
        found.append(genome)
    return found


PAIRED = (
    (1, 2, 2, 1, 2),
    (2, 2, 2, 3, 1),
    (3, 2, 2, 4, 1),
    (9, 1, 2, 3, 2),
    (4, 2, 2, 2, 2),
    (7, 3, 2, 1, 2),
    (3, 2, 1, 3, 2),
    (2, 2, 1, 1, 2),
    (5, 4, 1, 1, 2),
    (8, 3, 2, 1, 2),
    (9, 1, 1, 1, 2),
    (1, 2, 1, 3, 1),
    (1, 2, 1, 4, 1),
    (2, 2, 1, 4, 1),
    (3, 2, 1, 1, 1),
    (4, 2, 1, 1, 1),
    (4, 2, 1, 3, 1),
    (4, 2, 1, 4, 1),
    (6, 4, 1, 1, 2),
)
"""Operator genomes beyond the classes' own: with those, every two options that compile together occur together."""


def test_every_pair_of_options_is_among_the_cases() -> None:
    def pairs(genomes: Iterable[tuple[int, ...]]) -> set[tuple[int, ...]]:
        return {(i, genome[i], j, genome[j]) for genome in genomes for i, j in combinations(range(5), 2)}

    classes = [row.spec.operator for row in liv_classes().values()]
    assert pairs(compiled_genomes()) <= pairs([*PAIRED, *classes])


# The pairs of two that are not here are made of classes that are, by the code that makes the pairs that are.
ROWS = [row for row in liv_classes().values() if row.number not in (11, 12, 13, 15, 16)]


class TestEveryClass(OperatorTests):
    @pytest.fixture(params=ROWS, ids=lambda row: row.name)
    def case(self, request: pytest.FixtureRequest) -> OperatorCase:
        return liv_case(request.param, DIMS)


class TestLongFiltersOfPositions(OperatorTests):
    @pytest.fixture(params=["GConv-2", "GConv-2-Diff"])
    def case(self, request: pytest.FixtureRequest) -> OperatorCase:
        row = next(row for row in liv_classes().values() if row.name == request.param)
        return liv_case(row, DIMS.model_copy(update={"long_filter": "mlp"}))


@pytest.mark.slow
class TestEveryPairOfOptions(OperatorTests):
    @pytest.fixture(params=PAIRED, ids=lambda genome: "".join(map(str, genome)))
    def case(self, request: pytest.FixtureRequest) -> OperatorCase:
        return liv_case(LIVClass(1, "genome", request.param), DIMS)
