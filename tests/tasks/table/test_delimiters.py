"""What separates the values of a CSV file, and decimal commas."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.tasks.cell_values import MISSING
from evodevo.tasks.table import tables
from evodevo.tasks.table.delimiters import delimiter_of, with_decimal_points


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("a,b\n1;2", ","),
        ("a;b\n1,5;2", ";"),
        ("a\tb\n", "\t"),
        ("text\nx;y\n", ","),
        ("", ","),
        ('"price; EUR",label\n', ","),
        ("price, EUR;weight, kg;size, m;label\n", ","),
        ('"price, EUR";"weight, kg";label\n', ";"),
    ],
)
def test_the_header_shows_what_separates_values(text: str, mark: str) -> None:
    assert delimiter_of(text) == mark


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1,5", "-2,25", "3"], ["1.5", "-2.25", "3"]),
        (["1.234,5", " 12 ", "", "NA"], ["1234.5", " 12 ", "", "NA"]),
        (["1.5", "2.25"], ["1.5", "2.25"]),
        (["1,5", "red"], ["1,5", "red"]),
        (["1,5", "1.2.3"], ["1,5", "1.2.3"]),
        (["1,5,2", "3"], ["1,5,2", "3"]),
        (["", "?"], ["", "?"]),
    ],
)
def test_decimal_commas_become_points_where_a_column_has_nothing_but_numbers(
    cells: list[str], expected: list[str]
) -> None:
    assert with_decimal_points(cells, MISSING) == expected


@given(st.lists(st.decimals(-1_000_000, 1_000_000, places=2, allow_nan=False), min_size=1))
def test_numbers_as_they_are_written_in_german_come_back(numbers: list[object]) -> None:
    german = [f"{value:,.2f}".translate(str.maketrans(",.", ".,")) for value in numbers]
    assert list(map(float, with_decimal_points(german, MISSING))) == list(map(float, map(str, numbers)))


def test_a_table_has_points_only_where_no_comma_separates(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("size;note\n1,5;a,b\n2;c\n", encoding="utf-8")
    assert dict(tables.read(path)) == {"size": ["1.5", "2"], "note": ["a,b", "c"]}
    path.write_text('size,note\n"1,5",a\n2,c\n', encoding="utf-8")
    assert dict(tables.read(path)) == {"size": ["1,5", "2"], "note": ["a", "c"]}
