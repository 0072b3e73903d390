"""The conformance suite over the table of LIV classes, and over every operator genome of the paper's options."""

from __future__ import annotations

from itertools import product

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


class TestEveryClass(OperatorTests):
    @pytest.fixture(params=list(liv_classes().values()), ids=lambda row: row.name)
    def case(self, request: pytest.FixtureRequest) -> OperatorCase:
        return liv_case(request.param, DIMS)


class TestLongFiltersOfPositions(OperatorTests):
    @pytest.fixture(params=["GConv-2", "GConv-2-Diff", "GConv-2-Dense"])
    def case(self, request: pytest.FixtureRequest) -> OperatorCase:
        row = next(row for row in liv_classes().values() if row.name == request.param)
        return liv_case(row, DIMS.model_copy(update={"long_filter": "mlp"}))


@pytest.mark.slow
class TestEveryGenome(OperatorTests):
    @pytest.fixture(params=compiled_genomes(), ids=lambda genome: "".join(map(str, genome)))
    def case(self, request: pytest.FixtureRequest) -> OperatorCase:
        return liv_case(LIVClass(1, "genome", request.param), DIMS)
