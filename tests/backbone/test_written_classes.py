"""Class numbers that are operator genomes: one number for each operator, and the operator that the digits tell."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from evodevo.backbone.written_classes import SMALLEST, LIVClasses, class_number, written_class
from evodevo.errors import GenomeError
from evodevo.operators.build import build_operator
from evodevo.operators.classes import liv_classes
from evodevo.operators.compile import STRUCTURES, compile_operator
from evodevo.operators.featurizer_spec import FEATURIZERS, GroupGenes
from evodevo.operators.spec import ROLES, Dimensions, OperatorSpec
from evodevo.testing.operators import OperatorCase, OperatorTests, liv_case

DIMS = Dimensions(width=16, head_size=4, band=5, modes=3, max_length=100, chunk=8)


def output(spec: OperatorSpec) -> torch.Tensor:
    """What the operator computes from one seed."""
    torch.manual_seed(5)
    operator = build_operator(spec, DIMS).requires_grad_(False)
    return operator(torch.randn(2, 9, DIMS.width)).y


def compiled() -> dict[int, list[OperatorSpec]]:
    """Every operator genome over the table of featurizers that compiles, by its number."""
    numbers: dict[int, list[OperatorSpec]] = {}
    for genome in product(FEATURIZERS, STRUCTURES, (1, 2), (1, 2, 3, 4), (1, 2)):
        try:
            spec = compile_operator(genome)
        except GenomeError:
            continue
        numbers.setdefault(class_number(spec), []).append(spec)
    return numbers


def test_operators_of_one_number_are_equal_and_of_two_numbers_are_not() -> None:
    numbers = compiled()
    outputs = {number: [output(spec) for spec in specs] for number, specs in numbers.items()}
    for equal in outputs.values():
        assert all(torch.equal(y, equal[0]) for y in equal)
    firsts = [equal[0] for equal in outputs.values()]
    assert not any(torch.equal(a, b) for n, a in enumerate(firsts) for b in firsts[:n])


def test_rows_of_the_table_have_their_own_numbers() -> None:
    for number, row in liv_classes().items():
        if row.differential == "none":
            assert class_number(row.spec) == number


def featurizers(structure: str) -> st.SearchStrategy[tuple[GroupGenes, ...]]:
    """Featurizer genomes, most of which compile."""

    def group(role: str, size: int) -> st.SearchStrategy[GroupGenes]:
        if role == "filter":
            return st.sampled_from([GroupGenes(2, 3, 2, 1, 1, 1, 1), GroupGenes(3, 3, 1, 1, 1, 1, 1)])
        dense = st.sampled_from([1, 2]) if structure == "toeplitz" else st.just(2)
        sized = (structure, role) in (("diagonal", "gate"), ("diagonal", "up"))
        sized |= (structure, role) in (("semi_separable", "write"), ("semi_separable", "read"))
        repeat = size if structure == "low_rank" and role != "query" else 1
        form = st.sampled_from([(1, 1), (3, 2)])
        acts = st.just(1) if role == "decay" else st.sampled_from([1, 3, 4])
        return st.builds(
            lambda form, act, mixing: GroupGenes(1, *form, act, mixing, size if sized else 1, repeat), form, acts, dense
        )

    def all_groups(size: int) -> st.SearchStrategy[tuple[GroupGenes, ...]]:
        return st.tuples(*(group(role, size) for role in ROLES[structure]))

    return st.sampled_from([1, 2, 3, 4]).flatmap(all_groups)


@given(data=st.data())
def test_a_written_class_is_the_operator_that_it_was_written_from(data: st.DataObject) -> None:
    code = data.draw(st.sampled_from(sorted(STRUCTURES)))
    groups = data.draw(featurizers(STRUCTURES[code]))
    if code == 2:
        rest = data.draw(st.tuples(st.integers(1, 2), st.integers(1, 4)))
    else:
        rest = (
            data.draw(st.integers(1, 1 if code > 3 else 2)),
            data.draw(st.sampled_from([1, 3, 4])) if code == 1 else 1,
        )
    try:
        spec = compile_operator((1, code, *rest, data.draw(st.integers(1, 2))), groups)
        spec.check(DIMS)
    except GenomeError:
        assume(False)
    number = class_number(spec)
    again = LIVClasses(liv_classes())[number].spec
    assert class_number(again) == number
    assert torch.equal(output(again), output(spec))


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (12121, "is written 1: the networks are equal"),
        (41111112121, "is written 3"),
        (12142, "is written 12141"),
        (12521, "sparsity"),
        (54211, "integers 2 and 3 conflict"),
        (99999, "token mixing"),
        (17111112121, "the first is 1 to 6"),
        (9911111112121, "size from 1 to 64"),
        (2**53, "5 to 16 digits"),
        (10, "5 to 16 digits"),
    ],
)
def test_refusals(number: int, message: str) -> None:
    with pytest.raises(GenomeError, match=message):
        written_class(number)
    assert number < SMALLEST or number not in LIVClasses(liv_classes())


def test_the_classes_of_a_space_hold_rows_and_written_ones() -> None:
    classes = LIVClasses(liv_classes())
    assert list(classes) == list(liv_classes())
    assert classes[12141].spec.operator == (1, 2, 1, 4, 1)
    with pytest.raises(KeyError):
        classes[12142]


@pytest.mark.slow
class TestWrittenClasses(OperatorTests):
    """One of each structure, every group another one than in the table."""

    @pytest.fixture(params=[41121142121, 1313131613111, 311211142, 123212111215111, 1621232121114111])
    def case(self, request: pytest.FixtureRequest) -> OperatorCase:
        return liv_case(written_class(request.param), DIMS)
