"""What a label is: classes, several labels, or a quantity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import DataError, UsageError
from evodevo.tasks.rows import sources
from evodevo.tasks.rows.targets import MOST_NUMBERS, Targets, known, refuse_quantity


def targets(values: Any, **more: Any) -> Targets:
    return Targets.of(sources.read({"y": values}), "y", **more)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=80))
def test_more_than_two_dozen_different_numbers_are_a_quantity(values: list[float]) -> None:
    different = len({float(repr(value)) for value in values})
    if different < 2 and len({repr(value) for value in values}) < 2:
        return
    found = targets(values)
    assert (found.kind == "quantity") == (different > MOST_NUMBERS)


def test_the_bound_is_exact() -> None:
    assert targets([*range(MOST_NUMBERS), "5.0"]).kind == "class"
    assert targets(list(range(MOST_NUMBERS + 1))).kind == "quantity"


def test_other_labels_are_classes() -> None:
    numbers = [str(number) for number in range(40)]
    assert targets([*numbers * 3, "many"]).kind == "class"
    assert targets([f"c{number}" for number in numbers]).kind == "class"
    assert targets([*numbers, "", "nan", "?"]).kind == "quantity"  # these are missing
    assert targets(numbers, kind="class").names == tuple(numbers)
    assert targets([1, 2, 3] * 5, kind="quantity").kind == "quantity"
    assert targets([f"{number}|{number + 1}" for number in range(40)], separator="|").kind == "labels"


def test_a_quantity_with_a_spoilt_cell_is_not_taken_for_classes() -> None:
    numbers = [str(number * 1.5) for number in range(40)]
    with pytest.raises(DataError, match=r"row 41 has 'many'.*\(1 in all\).*kind class"):
        targets([*numbers, "many"])
    assert targets([*numbers, "many"], kind="class").kind == "class"
    assert targets([*numbers, "many", "few", "none at all"]).kind == "class"  # more than a twentieth


def test_values_are_read_and_missing_ones_known() -> None:
    rows = sources.read({"y": ["1.5", "", "-2e3", "NaN", "7"]})
    found = Targets.of(rows, "y", kind="quantity")
    answers = found.read(rows)
    assert answers.dtype == np.float64
    np.testing.assert_array_equal(answers, [1.5, np.nan, -2000, np.nan, 7])
    assert known(answers).tolist() == [True, False, True, False, True]
    with pytest.raises(DataError, match="row 2: 'y' is 'seven'"):
        found.read(sources.read({"y": ["1", "seven"]}))


def test_what_is_no_quantity() -> None:
    with pytest.raises(DataError, match="row 2: 'y' is 'red'; a quantity is a number"):
        targets(["1", "red"], kind="quantity")
    with pytest.raises(UsageError, match="1 different numbers"):
        targets([3, 3, 3], kind="quantity")
    with pytest.raises(UsageError, match="one column of numbers"):
        Targets.of(sources.read({"p": [1, 2], "q": [1, 2]}), ("p", "q"), kind="quantity")
    with pytest.raises(UsageError, match="a quantity and no class"):
        refuse_quantity(sources.read({"y": np.arange(60) * 1.5}), "y")
    refuse_quantity(sources.read({"y": list(range(40)) * 5}), "y")  # ids of classes
