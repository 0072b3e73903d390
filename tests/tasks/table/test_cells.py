"""Cells of a table: numbers, boxes, labels, and what cannot be read."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import DataError
from evodevo.tasks.table import cells as table_cells

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(st.lists(FLOATS, min_size=1, max_size=6), st.sampled_from([",", ";", "|", " ", ", "]))
def test_a_list_of_numbers_is_read_however_it_is_written(values: list[float], between: str) -> None:
    assert table_cells.numbers(between.join(map(repr, values))) == values
    assert table_cells.numbers(json.dumps(values)) == values


def test_vectors_from_columns_and_from_lists() -> None:
    for text in ("", " ", "nan", "N/A", "null", "None", "inf", "1e99"):
        assert math.isnan(table_cells.number(text)), "it says that there is no number"
    found, troubles = table_cells.vectors([["1", "x", "3"], ["4", "5", ""]])
    np.testing.assert_array_equal(found, [[1, 4], [math.nan] * 2, [3, math.nan]])
    assert [(trouble.row, trouble.reason) for trouble in troubles] == [(2, "'x' is no number")]
    found, troubles = table_cells.vectors([["[1, 2]", "3 4", "5", "", "[6, null]"]])
    np.testing.assert_array_equal(found, [[1, 2], [3, 4], [math.nan] * 2, [math.nan] * 2, [6, math.nan]])
    assert [(trouble.row, trouble.reason) for trouble in troubles] == [(3, "1 numbers, where most rows have 2")]


def test_boxes_and_labels() -> None:
    assert table_cells.box(["1.5", "2", "3", "4.25"]) == (1, 2, 4, 5)
    assert table_cells.box(["[1, 2, 3, 4]"]) == (1, 2, 3, 4)
    assert table_cells.box(["", "", "", ""]) is None
    for wrong in (["1", "2", "3"], ["1", "", "3", "4"], ["1", "2", "0", "4"], ["a"]):
        with pytest.raises(DataError):
            table_cells.box(wrong)
    assert table_cells.labels(" a | b|", "|") == {"a", "b"}
    assert table_cells.labels('["a", 2]', None) == {"a", "2"}
    assert table_cells.labels("[]", None) == frozenset()
    assert table_cells.labels("a|b", None) == {"a|b"}
    assert table_cells.labels(" ", "|") is None
    for wrong in ("[1.5]", "[{}]", "[a]"):
        with pytest.raises(DataError):
            table_cells.labels(wrong, None)


@given(st.sets(st.integers(-50, 50), min_size=1))
def test_numbers_are_ordered_by_size(numbers: set[int]) -> None:
    assert table_cells.ordered({str(number) for number in numbers}) == tuple(map(str, sorted(numbers)))
    assert table_cells.ordered({"10", "9", "a"}) == ("10", "9", "a")


def test_troubles_are_counted_and_the_first_three_named() -> None:
    troubles = [table_cells.Trouble(row, f"why {row}") for row in range(1, 6)]
    with pytest.raises(
        DataError, match=r"^t\.csv: 5 rows with ink \(row 1: why 1; .*row 3: why 3; and 2 more\)\. Do\.$"
    ):
        table_cells.refuse(troubles, "t.csv", "ink", "Do.")
    table_cells.refuse([], "t.csv", "ink", "Do.")
