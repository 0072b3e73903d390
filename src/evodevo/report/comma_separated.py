"""The one writer of comma-separated values, for people who open them in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def comma_separated(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A header and one line per row, without what a spreadsheet would compute.

    A text that begins like a formula gets an apostrophe in front, which spreadsheets take for "this is text"; texts may
    come from a stranger's data. Numbers stay as they are, also where they are given as text, and None is empty.

    Args:
        header: Names of the columns.
        rows: One value per column.
    """
    return "".join(_line(row) for row in (header, *rows))


def _line(row: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(map(_cell, row))  # its own end of a line, so that texts with a \r are quoted
    return f"{out.getvalue()[:-2]}\n"


def _cell(value: object) -> object:
    if not isinstance(value, str) or not value.lstrip(" ").startswith(_FORMULA):
        return "" if value is None else value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
