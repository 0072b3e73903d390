"""Parsing of the cells of a user's table: numbers, boxes in images, labels.

Shapes: N rows, F numbers of a vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import DataError, UsageError, quoted_list

Box = tuple[int, int, int, int]
"""x, y, width and height in pixels, from the upper left corner."""

_NAMED = 3
_LARGEST = float(np.finfo(np.float32).max)
_NO_NUMBER = frozenset({"", "na", "n/a", "nan", "null", "none", "inf", "-inf", "infinity", "-infinity"})


@dataclass(frozen=True)
class Trouble:
    """A cell that cannot be read: number of its row, from 1, and the reason."""

    row: int
    reason: str


def refuse(troubles: Sequence[Trouble], source: str, what: str, advice: str) -> None:
    """Report all unreadable cells in one error, with their number and the first few.

    Raises:
        DataError: ``troubles`` is not empty.
    """
    if troubles:
        named = "; ".join(f"row {trouble.row}: {trouble.reason}" for trouble in troubles[:_NAMED])
        more = f"; and {len(troubles) - _NAMED:,} more" if len(troubles) > _NAMED else ""
        rows = "1 row" if len(troubles) == 1 else f"{len(troubles):,} rows"
        raise DataError(f"{source}: {rows} with {what} ({named}{more}). {advice}")


def number(text: str) -> float:
    """A number; NaN where a cell is empty or has a word for a missing value.

    Raises:
        DataError: The text is neither.
    """
    stripped = text.strip()
    if stripped.lower() in _NO_NUMBER:
        return math.nan
    try:
        value = float(stripped)
    except ValueError:
        raise DataError(f"{stripped[:40]!r} is no number") from None
    # A number beyond the range of single precision is taken for a missing value.
    return value if abs(value) <= _LARGEST else math.nan


def numbers(text: str) -> list[float]:
    """The numbers in a cell: a JSON list, or numbers separated by commas, semicolons, bars or blanks.

    Raises:
        DataError: The cell has anything else.
    """
    plain = text.strip().removeprefix("[").removesuffix("]")
    for mark in ",;|":
        plain = plain.replace(mark, " ")
    return [number(piece) for piece in plain.split()]


def vectors(columns: Sequence[Sequence[str]]) -> tuple[NDArray[np.float32], list[Trouble]]:
    """The vector of each row: one number per column, or a list in the only column.

    Returns:
        Vectors (N, F), NaN where a number is missing, all NaN where a row has no vector or cannot be read; and the rows
        that cannot be read: text that is no number, lists of another length than most.
    """
    values_of: list[list[float]] = []
    troubles: list[Trouble] = []
    for row, cells in enumerate(zip(*columns, strict=True), start=1):
        try:
            values_of.append([number(cell) for cell in cells] if len(columns) > 1 else numbers(cells[0]))
        except DataError as error:
            values_of.append([])
            troubles.append(Trouble(row, str(error)))
    lengths = [len(values) for values in values_of if values]
    size = max(set(lengths), key=lambda length: (lengths.count(length), -length)) if lengths else 0
    result = np.full((len(values_of), size), np.nan, np.float32)
    for row, values in enumerate(values_of):
        if len(values) == size:
            result[row] = values
        elif values:
            troubles.append(Trouble(row + 1, f"{len(values)} numbers, where most rows have {size}"))
    return result, sorted(troubles, key=lambda trouble: trouble.row)


def box(cells: Sequence[str]) -> Box | None:
    """The box of one row, from four cells or one; None where they are empty.

    Raises:
        DataError: The cells do not have four numbers, or the box is empty.
    """
    values = [value for cell in cells for value in numbers(cell)]
    if all(math.isnan(value) for value in values):
        return None
    if len(values) != 4 or any(math.isnan(value) for value in values):
        raise DataError(f"a box is x, y, width, height; got {quoted_list(cells)[:80]!r}")
    left, top = math.floor(values[0]), math.floor(values[1])
    right, bottom = math.ceil(values[0] + values[2]), math.ceil(values[1] + values[3])
    if values[2] <= 0 or values[3] <= 0:
        raise DataError(f"a box needs a width and a height above 0; got {quoted_list(cells)[:80]!r}")
    return left, top, right - left, bottom - top


def labels(text: str, separator: str | None) -> frozenset[str] | None:
    """The labels in a cell that may have several; None where it is empty.

    A JSON list is read as such, also an empty one, which means that no label applies.

    Raises:
        DataError: A list has other items than names and numbers.
    """
    stripped = text.strip()
    if not stripped:
        return None
    if is_list(stripped):
        try:
            pieces = canonical.loads(stripped, what="a list of labels")
        except UsageError as error:
            raise DataError(str(error)) from None
        if not all(isinstance(piece, str | int) for piece in pieces):
            raise DataError(f"labels are names or whole numbers; got {stripped[:80]!r}")
        return frozenset(str(piece).strip() for piece in pieces) - {""}
    return (
        frozenset(piece.strip() for piece in stripped.split(separator)) - {""} if separator else frozenset({stripped})
    )


def is_list(text: str) -> bool:
    """Whether a cell has a JSON list."""
    stripped = text.strip()
    return stripped.startswith("[") and stripped.endswith("]")


def ordered(names: frozenset[str] | set[str]) -> tuple[str, ...]:
    """Class names in alphabetical order; where all are numbers, by value."""
    if names and all(name.lstrip("-").isdecimal() for name in names):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))
