"""Comma-separated values: what a spreadsheet would compute is text, numbers stay numbers."""

from __future__ import annotations

import csv
import io

import pytest

from evodevo.report.comma_separated import comma_separated


@pytest.mark.parametrize(
    "text", ["=HYPERLINK(1)", "+1+2", "-2+3", "@SUM(1)", "\tcmd", "\r=1", " =1", "-", "-a", '=1,"2"', "=1\n"]
)
def test_a_formula_becomes_text(text: str) -> None:
    (header, row) = csv.reader(io.StringIO(comma_separated([text], [[text]]), newline=""))
    assert header == row == [f"'{text}"]


@pytest.mark.parametrize("value", ["a=b", "-1.5", "+3e-4", "-inf", "", "ß,\n", 'say "no"', -3, 0.5])
def test_other_values_stay(value: object) -> None:
    (_, row) = csv.reader(io.StringIO(comma_separated(["a"], [[value, 0]]), newline=""))
    assert row == [str(value), "0"]


def test_nothing_is_empty() -> None:
    assert comma_separated(["a", "b"], [[None, 1]]) == "a,b\n,1\n"
