"""Rows of a table and their splits: what joins rows, what the user says, what is left out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.errors import DataError
from evodevo.tasks.base import ALL_SPLITS, Split
from evodevo.tasks.table.group_splits import Shares
from evodevo.tasks.table.splits import Division, SplitRow, divide_rows, split_of


def _row(number: int, **changes: object) -> SplitRow:
    row = {"content": b"%d" % number, "image": b"", "text": b"t%d" % number, "group": "", "given": None, "stratum": ""}
    return SplitRow(**row | changes)  # type: ignore[arg-type]


def _owner(division: Division) -> dict[int, Split]:
    return {int(row): split for split, rows in division.places.items() for row in rows}


GIVEN = st.sampled_from([None, None, "train", "validation", "test"])


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), GIVEN), min_size=80, max_size=120))
def test_no_content_stands_in_two_splits(rows: list[tuple[int, int, Split | None]]) -> None:
    samples = [
        SplitRow(b"%d %d" % (image, text), b"i%d" % image, b"t%d" % text, "", given, "") for image, text, given in rows
    ]
    try:
        division = divide_rows(samples, Shares(), None)
    except DataError:
        return
    owner = _owner(division)
    seen: dict[bytes, Split] = {}
    for row, split in owner.items():
        assert seen.setdefault(samples[row].content, split) == split
        assert samples[row].given in (None, "train", split)
    assert len(owner) + division.dropped == len(rows)
    assert {samples[row].content for row in owner} == {sample.content for sample in samples}


def test_rows_are_joined_through_others() -> None:
    # 0 and 1 share an image, 1 and 2 a text; the others stand alone.
    rows = [_row(0, image=b"a"), _row(1, image=b"a", text=b"t"), _row(2, image=b"b", text=b"t")]
    rows += [_row(number, image=b"i%d" % number) for number in range(3, 60)]
    division = divide_rows(rows, Shares(), None)
    owner = _owner(division)
    assert owner[0] == owner[1] == owner[2]
    assert division.rule.startswith("by equal image and equal text")


def test_a_group_column_rules_but_equal_samples_stay_together() -> None:
    rows = [_row(number, group=f"g{number // 4}") for number in range(80)]
    rows.append(_row(0, group="g19"))
    division = divide_rows(rows, Shares(), "author")
    owner = _owner(division)
    for number in range(80):
        assert owner[number] == owner[number // 4 * 4]
    assert owner[80] == owner[0] == owner[79]
    assert "'author'" in division.rule


def test_given_splits_keep_their_rows_and_training_gives_the_rest() -> None:
    rows = [_row(number, given="test" if number < 10 else "train" if number < 40 else None) for number in range(80)]
    rows.append(_row(3))  # a free copy of a test row
    rows.append(_row(81, image=b"x"))
    rows.append(_row(82, image=b"x", given="test"))
    division = divide_rows(rows, Shares(), None)
    assert division.places["test"].tolist() == [*range(10), 82]
    assert tuple(division.places) == ALL_SPLITS
    assert division.dropped == 1
    assert division.shared == 1  # its image stands in the test split
    assert division.rule.startswith("given: test;")


def test_names_of_splits_and_nothing_left_for_training() -> None:
    assert split_of(" Dev ", "part") == "validation"
    assert split_of("", "part") is None
    for name, split in (("ARCH_VAL ", "architecture"), ("architecture", "architecture"), ("dev", "validation")):
        assert split_of(name, "part") == split
    with pytest.raises(DataError, match="'part' names the split 'fold 1'"):
        split_of("fold 1", "part")
    with pytest.raises(DataError, match="no row is left for training"):
        divide_rows([_row(number, given="test") for number in range(5)], Shares(), None)
