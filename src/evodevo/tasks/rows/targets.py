"""Labels of a user's rows: one class per row, several labels, or a quantity.

Legend: n rows, C classes or labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.errors import DataError, UsageError
from evodevo.settings import Settings
from evodevo.tasks.rows import columns
from evodevo.tasks.rows.sources import Rows
from evodevo.tasks.table import cells as table_cells

Kind = Literal["class", "labels", "quantity"]
Answers = NDArray[np.int64] | NDArray[np.float32] | NDArray[np.float64]
MOST_CLASSES = 1_000
MOST_NUMBERS = 24
"""Largest number of different numbers in a label that are classes where nobody says what they are."""
_YES = frozenset({"1", "1.0", "true", "yes", "y", "x"})
_NO = frozenset({"0", "0.0", "false", "no", "n"})


class Targets(Settings):
    """The label of the training rows.

    Attributes:
        kind: One class of several per row, any number of labels, or a number.
        columns: Label columns: one, or one of yes and no for each label.
        names: Names of the C classes or labels, in order; of a quantity the name of its column.
        separator: Separator of several labels in one cell; empty where there are none, or JSON lists.
    """

    kind: Kind
    columns: tuple[str, ...]
    names: tuple[str, ...] = Field(min_length=1, max_length=MOST_CLASSES)
    separator: str = ""

    @classmethod
    def of(
        cls,
        rows: Rows,
        label: str | Sequence[str],
        separator: str = "",
        kind: Literal["class", "quantity"] | None = None,
    ) -> Self:
        """Find classes, labels or a quantity.

        Args:
            rows: Training rows.
            label: Name of the label column; several names are columns of yes and no.
            separator: Separator of several labels in one cell.
            kind: What numbers in one column are; None: a quantity where all cells with a value are numbers, more than
                ``MOST_NUMBERS`` different ones, else classes.

        Raises:
            UsageError: There is no such column, one class alone, or too many of them; or a quantity of several columns.
            DataError: Cells of yes and no with other values, or of a quantity that are no numbers.
        """
        named = (label,) if isinstance(label, str) else tuple(label)
        if not named:
            raise UsageError("give the name of the label column.")
        for name in named:
            if name not in rows.cells:
                raise rows.unknown(name)
        if kind == "quantity" and (len(named) > 1 or separator):
            raise UsageError("a quantity is one column of numbers: name one label, without a separator.")
        if len(named) > 1:
            for name in named:
                _yes_or_no(rows, name)
            return cls(kind="labels", columns=named, names=named)
        cells = [cell for cell in rows.cells[named[0]] if cell.strip()]
        if kind == "quantity" or (kind is None and not separator and _is_quantity(cells)):
            values = _numbers(rows, named[0])
            different = np.unique(values[~np.isnan(values)])
            if len(different) < 2:
                raise UsageError(
                    f"{named[0]!r} of {rows.source} has {len(different)} different numbers; a quantity needs two."
                )
            return cls(kind="quantity", columns=named, names=named)
        if separator or (cells and all(map(table_cells.is_list, cells))):
            found = frozenset(name for cell in cells for name in table_cells.labels(cell, separator or None) or ())
            _check_number(found, named[0], rows)
            return cls(kind="labels", columns=named, names=table_cells.ordered(found), separator=separator)
        if kind is None:
            _refuse_spoilt_numbers(rows, named[0])
        classes = frozenset(cell.strip() for cell in cells)
        _check_number(classes, named[0], rows, fewest=2)
        return cls(kind="class", columns=named, names=table_cells.ordered(classes))

    def read(self, rows: Rows) -> Answers:
        """Answers: classes (n,), -1 where there is none or an unknown one; labels (n, C) of 0 and 1, NaN; or numbers
        (n,), NaN.

        Raises:
            DataError: There is no label column, or a cell of it cannot be read.
        """
        missing = [name for name in self.columns if name not in rows.cells]
        if missing:
            raise DataError(f"{rows.source} has no column {missing[0]!r}, which holds the label.")
        if self.kind == "quantity":
            return _numbers(rows, self.columns[0])
        place = {name: number for number, name in enumerate(self.names)}
        if self.kind == "class":
            found = (place.get(cell.strip(), -1) for cell in rows.cells[self.columns[0]])
            return np.fromiter(found, np.int64, rows.count)
        if len(self.columns) > 1:
            return np.stack([_yes_or_no(rows, name) for name in self.columns], axis=1)
        answers = np.full((rows.count, len(self.names)), np.nan, np.float32)
        for row, cell in enumerate(rows.cells[self.columns[0]]):
            labels = table_cells.labels(cell, self.separator or None)
            if labels is not None:
                answers[row] = 0
                answers[row, [place[name] for name in labels if name in place]] = 1
        return answers


def known(answers: Answers) -> NDArray[np.bool_]:
    """The rows with an answer, (n,)."""
    if answers.dtype.kind == "i":
        return np.asarray(answers >= 0)
    return np.asarray(~np.isnan(answers.reshape(len(answers), -1)).any(axis=1))


def refuse_quantity(rows: Rows, label: str) -> None:
    """Check that a column may hold classes: numbers of which few are equal do not.

    Raises:
        UsageError: It holds such numbers.
    """
    cells = [cell.strip() for cell in rows.cells.get(label, ()) if cell.strip()]
    classes = set(cells)
    if len(classes) > max(20, len(cells) // 4) and not any(math.isnan(columns.number(name)) for name in classes):
        raise UsageError(
            f"{label!r} has {len(classes):,} different numbers in {len(cells):,} rows: a quantity and no class. Make "
            "classes of it, for example by bounds; evodevo fit learns quantities."
        )


def _is_quantity(cells: Sequence[str]) -> bool:
    values = [columns.number(cell) for cell in cells if not columns.is_missing(cell)]
    return not any(map(math.isnan, values)) and len(set(values)) > MOST_NUMBERS


def _refuse_spoilt_numbers(rows: Rows, name: str) -> None:
    """Check that a column is not a quantity but for a few cells: that would make each number a class."""
    there = {row: cell for row, cell in enumerate(rows.cells[name], start=1) if not columns.is_missing(cell)}
    other = [row for row, cell in there.items() if math.isnan(columns.number(cell))]
    different = len({cell.strip() for cell in there.values()})
    if 0 < len(other) <= (1 - columns.READABLE) * len(there) and different > max(MOST_NUMBERS, len(there) // 2):
        raise DataError(
            f"{rows.source}: {name!r} holds numbers, most of them different, but row {other[0]} has "
            f"{there[other[0]][:40]!r}. Empty or correct what is no number ({len(other):,} in all), or say that these "
            "are classes (kind class)."
        )


def _numbers(rows: Rows, name: str) -> NDArray[np.float64]:
    values = np.full(rows.count, np.nan)
    for row, cell in enumerate(rows.cells[name]):
        if not columns.is_missing(cell):
            values[row] = columns.number(cell)
            if math.isnan(values[row]):
                raise DataError(f"{rows.source}, row {row + 1}: {name!r} is {cell[:40]!r}; a quantity is a number.")
    return values


def _yes_or_no(rows: Rows, name: str) -> NDArray[np.float32]:
    values = np.full(rows.count, np.nan, np.float32)
    for row, cell in enumerate(rows.cells[name]):
        word = cell.strip().lower()
        if word in _YES or word in _NO:
            values[row] = word in _YES
        elif not columns.is_missing(cell):
            raise DataError(
                f"{rows.source}, row {row + 1}: {name!r} is {cell[:40]!r}; of several label columns each is 1 or 0, "
                "true or false, yes or no."
            )
    return values


def _check_number(names: frozenset[str], column: str, rows: Rows, fewest: int = 1) -> None:
    if len(names) < fewest:
        what = f"one class alone, {next(iter(names))[:40]!r}" if names else "no value"
        raise UsageError(f"{column!r} of {rows.source} has {what}; two classes or more are needed.")
    if not names:
        raise UsageError(f"{column!r} of {rows.source} has no label.")
    if len(names) > MOST_CLASSES:
        raise UsageError(
            f"{column!r} of {rows.source} has {len(names):,} different values; at most {MOST_CLASSES:,} classes can be "
            "learned. Name another column."
        )
