"""Operator and featurizer genomes: what compiles, what is refused, and with which words."""

from __future__ import annotations

import re
from itertools import product

import pytest
import torch

from evodevo.errors import GenomeError, UsageError
from evodevo.operators.build import build_operator
from evodevo.operators.classes import OPERATORS, LIVClass, liv_classes
from evodevo.operators.compile import compile_operator
from evodevo.operators.featurizer_spec import FEATURIZERS, PAPER_FEATURIZERS, GroupGenes, check_featurizer, expanded
from evodevo.operators.spec import HEAD_SIZES, Dimensions, OperatorSpec

ALL = list(product(PAPER_FEATURIZERS, range(1, 5), range(1, 3), range(1, 5), range(1, 3)))
DIMS = Dimensions(width=64)
MUST_COMPILE = ["12111", "12131", "12141", "12221", "22111"]


def genome(text: str) -> tuple[int, ...]:
    return tuple(int(digit) for digit in text)


def test_every_genome_compiles_or_names_its_conflict() -> None:
    refusals = {each: message for each in ALL if (message := _refusal(each)) is not None}
    assert len(ALL) == 576
    assert len(ALL) - len(refusals) >= 70
    for each, message in refusals.items():
        assert re.match(r"integers [1-5] and [1-5] conflict: ", message), (each, message)


def _refusal(each: tuple[int, ...]) -> str | None:
    try:
        compile_operator(each)
    except GenomeError as error:
        return str(error)
    return None


def test_named_conflicts_are_real() -> None:
    """Other values of the two named integers end this conflict: the genome compiles, or other integers conflict."""
    for each in ALL:
        named = _conflict(each)
        if named is None:
            continue
        others = {
            _conflict(tuple(values))
            for values in product(*(OPTIONS[place] if place in named else (each[place],) for place in range(5)))
        }
        assert others - {named}, each


OPTIONS = (range(1, 10), range(1, 5), range(1, 3), range(1, 5), range(1, 3))


def _conflict(each: tuple[int, ...]) -> tuple[int, ...] | None:
    """The places, from 0, that a refusal names."""
    message = _refusal(each)
    return None if message is None else tuple(int(n) - 1 for n in re.findall(r"[1-5]", message.split("conflict")[0]))


@pytest.mark.parametrize("text", MUST_COMPILE)
def test_the_issues_genomes_compile(text: str) -> None:
    assert compile_operator(genome(text)).structure == "low_rank"


def test_paper_classes_are_rows_of_the_table() -> None:
    """A.6.1 and A.6.2: seventeen classes, nine genomes, differential variants of all but the memoryless one."""
    classes = liv_classes()
    paper = ["12121", "22121", "32121", "42121", "54111", "64111", "73111", "83111", "91142"]
    for number, text in enumerate(paper, 1):
        assert (classes[number].operator, classes[number].differential) == (genome(text), "none")
    for number in range(10, 18):
        assert classes[number].operator == classes[number - 9].operator
        assert classes[number].differential == "literal"
    assert [number for number, row in classes.items() if row.sampled] == list(range(1, 18))
    assert classes[18].spec.groups["write"].expansion == 32


def test_two_rows_with_one_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATORS._rows, "Twin", LIVClass(1, "Twin", (1, 2, 1, 2, 1)))
    with pytest.raises(UsageError, match="same number"):
        liv_classes()


# SA-3 and SA-4 differ in one number of the featurizer genome


def repeats(key: int, value: int) -> tuple[GroupGenes, ...]:
    query, *_ = FEATURIZERS[3]
    return (query, FEATURIZERS[3][1]._replace(repeat=key), FEATURIZERS[3][2]._replace(repeat=value))


def _fingerprint(spec: OperatorSpec) -> tuple[object, ...]:
    torch.manual_seed(7)
    operator = build_operator(spec, DIMS)
    x = torch.randn(2, 9, DIMS.width)
    state = operator.initial_state(2, 9, torch.float32, torch.device("cpu"))
    with torch.no_grad():
        outputs = operator(x).y, operator(x, state=state).y
    names = sorted((name, tuple(p.shape)) for name, p in operator.named_parameters())
    tensors = spec.state(frozenset(spec.groups), DIMS)
    return (
        names,
        sorted((name, tensor.entries(100)) for name, tensor in tensors.items()),
        [y.tolist() for y in outputs],
    )


def test_changed_repeats_make_sa4_of_sa3() -> None:
    sa3, sa4 = (OPERATORS.get(name).spec for name in ("SA-3", "SA-4"))
    by_featurizer = compile_operator((3, 2, 1, 2, 1), repeats(2, 2))
    by_integer = compile_operator((4, *sa3.operator[1:]))
    assert _fingerprint(by_featurizer) == _fingerprint(by_integer) == _fingerprint(sa4)
    assert _fingerprint(sa3) != _fingerprint(sa4)


@pytest.mark.parametrize(("key", "value"), [(2, 4), (4, 2), (4, 1)])
def test_unequal_repeats_are_refused_naming_both(key: int, value: int) -> None:
    with pytest.raises(GenomeError, match=r"2 and 3 \(key, value\).*repeats must be equal"):
        compile_operator((3, 2, 1, 2, 1), repeats(key, value))


# Featurizer genomes


def test_featurizers_are_the_papers() -> None:
    """docs/spec/star.md#featurizer-genome, written out."""
    written = {
        1: "1111211 1111211 1111211",
        2: "1321211 1321211 1321211",
        3: "1111211 1111214 1111214",
        4: "1111211 1111212 1111212",
        5: "1321211 1321211 1321211 1.3.2.1.2.16.1 1.3.2.1.2.16.1",
        6: "1321211 1321211 1321211 1321221 1321221",
        7: "1321111 1321111 1321111 2321111",
        8: "1321111 1321111 1321111 3311111",
        9: "1111231 1111231",
        10: "1111211 1111211 1111211 2321111",
        11: "1321211 1321211 1321211 1.3.2.1.2.32.1 1.3.2.1.2.32.1",
        12: "1321211 1321211 1321211 3311111",
    }
    for number, text in written.items():
        groups = tuple(tuple(map(int, part.split(".") if "." in part else part)) for part in text.split())
        assert tuple(map(tuple, FEATURIZERS[number])) == groups
        check_featurizer(FEATURIZERS[number])


@pytest.mark.parametrize("place", range(7))
def test_wrong_featurizer_integers_name_group_place_value_and_range(place: int) -> None:
    for wrong in (0, -1, 10**9):
        values = list(FEATURIZERS[1][1])
        values[place] = wrong
        broken = (FEATURIZERS[1][0], GroupGenes(*values), FEATURIZERS[1][2])
        with pytest.raises(GenomeError, match=rf"feature group 2: {GroupGenes._fields[place]} is {wrong}; .* 1 to"):
            compile_operator((1, 2, 1, 2, 1), broken)


def test_number_of_groups_is_bounded() -> None:
    for groups in ((), FEATURIZERS[5] + FEATURIZERS[5][:1]):
        with pytest.raises(GenomeError, match="1 to 5"):
            check_featurizer(groups)


@pytest.mark.slow
def test_any_single_change_of_a_featurizer_compiles_or_is_refused_in_words() -> None:
    for row in (row for row in liv_classes().values() if row.differential != "literal"):
        for group, place, value in product(range(len(row.spec.featurizer)), range(7), range(5)):
            genes = list(row.spec.featurizer)
            genes[group] = genes[group]._replace(**{GroupGenes._fields[place]: value})
            try:
                spec = compile_operator(row.operator, tuple(genes), row.differential)
            except GenomeError:
                continue
            x = torch.randn(1, 3, DIMS.width)
            assert build_operator(spec, DIMS)(x).y.shape == x.shape


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((1, 2, 1, 2), "5 integers; 4"),
        ((14, 2, 1, 2, 1), r"integer 1 \(featurizer class\) is 14; it must be 1 to 13"),
        ((1, 6, 1, 2, 1), r"integer 2 \(token mixing\) is 6; it must be 1 to 5"),
        ((1, 2, 0, 2, 1), r"integer 3 \(sparsity\) is 0; it must be 1 to 2"),
        ((1, 2, 1, 5, 1), r"integer 4 \(non-linearity\) is 5"),
        ((1, 2, 1, 2, 3), r"integer 5 \(channel mixing\) is 3"),
        ((9, 2, 1, 2, 1), "integers 1 and 2 conflict: featurizer class 9 makes 2 feature groups; .* reads 3"),
        ((5, 4, 2, 1, 1), "integers 2 and 3 conflict"),
        ((5, 4, 1, 2, 1), "integers 2 and 4 conflict"),
        ((9, 1, 1, 4, 1), "integers 1 and 5 conflict"),
    ],
)
def test_refusals(given: tuple[int, ...], message: str) -> None:
    with pytest.raises(GenomeError, match=message):
        compile_operator(given)


@pytest.mark.parametrize("text", ["54111", "73111", "91142", "12111"])
def test_differential_heads_need_attention(text: str) -> None:
    with pytest.raises(GenomeError, match="v2"):
        compile_operator(genome(text), None, "v2")


# Sizes


def test_expansion_code_three_is_eight_thirds() -> None:
    assert expanded(3, 768) == 2048
    assert expanded(3, 2048) == 5461
    assert expanded(2, 768) == 1536


@pytest.mark.parametrize(("width", "head"), [(768, 64), (256, 64), (192, 32), (128, 32), (64, 16), (80, 16)])
def test_head_size_is_the_largest_with_four_heads(width: int, head: int) -> None:
    assert Dimensions(width=width).head == head
    assert head in HEAD_SIZES


@pytest.mark.parametrize(
    "sizes", [{"width": 40}, {"width": 48}, {"width": 64, "head_size": 12}, {"width": 9, "head_size": 3}]
)
def test_impossible_heads_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=str(sizes["width"])):
        _ = Dimensions(**sizes).head


def test_repeats_must_divide_the_heads() -> None:
    spec = OPERATORS.get("SA-3").spec
    spec.check(Dimensions(width=64))
    with pytest.raises(GenomeError, match="repeats keys and values 4 times; width 80 has 5 heads of 16"):
        spec.check(Dimensions(width=80))


def test_a_band_narrower_than_its_filter_is_refused() -> None:
    spec = compile_operator(genome("73211"))
    spec.check(Dimensions(width=64, band=3))
    with pytest.raises(GenomeError, match="band"):
        spec.check(Dimensions(width=64, band=2))
