"""Labels of a user's rows: one class per row, or several labels.

Legend: n rows, C classes or labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.errors import DataError, UsageError, unknown_name
from evodevo.settings import Settings
from evodevo.tasks.rows import columns
from evodevo.tasks.rows.sources import Rows
from evodevo.tasks.table import cells as table_cells

MOST_CLASSES = 1_000
_YES = frozenset({"1", "1.0", "true", "yes", "y", "x"})
_NO = frozenset({"0", "0.0", "false", "no", "n"})


class Targets(Settings):
    """The label of the training rows.

    Attributes:
        kind: One class of several per row, or any number of labels.
        columns: Label columns: one, or one of yes and no for each label.
        names: Names of the C classes or labels, in order.
        separator: Separator of several labels in one cell; empty where there are none, or JSON lists.
    """

    kind: Literal["class", "labels"]
    columns: tuple[str, ...]
    names: tuple[str, ...] = Field(min_length=1, max_length=MOST_CLASSES)
    separator: str = ""

    @classmethod
    def of(cls, rows: Rows, label: str | Sequence[str], separator: str = "") -> Self:
        """Find classes or labels.

        Args:
            rows: Training rows.
            label: Name of the label column; several names are columns of yes and no.
            separator: Separator of several labels in one cell.

        Raises:
            UsageError: There is no such column, one class alone, or too many of them.
            DataError: Cells of yes and no with other values.
        """
        named = (label,) if isinstance(label, str) else tuple(label)
        if not named:
            raise UsageError("give the name of the label column.")
        for name in named:
            if name not in rows.cells:
                raise unknown_name("column", name, rows.names)
        if len(named) > 1:
            for name in named:
                _yes_or_no(rows, name)
            return cls(kind="labels", columns=named, names=named)
        cells = [cell for cell in rows.cells[named[0]] if cell.strip()]
        if separator or (cells and all(map(table_cells.is_list, cells))):
            found = frozenset(name for cell in cells for name in table_cells.labels(cell, separator or None) or ())
            _check_number(found, named[0], rows)
            return cls(kind="labels", columns=named, names=table_cells.ordered(found), separator=separator)
        classes = frozenset(cell.strip() for cell in cells)
        _check_number(classes, named[0], rows, fewest=2)
        if len(classes) > max(20, len(cells) // 4) and not any(math.isnan(columns.number(name)) for name in classes):
            raise UsageError(
                f"{named[0]!r} has {len(classes):,} different numbers in {len(cells):,} rows: a quantity and no "
                "class. Quantities cannot be learned yet. Make classes of it, for example by bounds."
            )
        return cls(kind="class", columns=named, names=table_cells.ordered(classes))

    def read(self, rows: Rows) -> NDArray[np.int64] | NDArray[np.float32]:
        """Answers: classes (n,), -1 where there is none or an unknown one; or labels (n, C) of 0 and 1, NaN.

        Raises:
            DataError: There is no label column, or a cell of it cannot be read.
        """
        missing = [name for name in self.columns if name not in rows.cells]
        if missing:
            raise DataError(f"{rows.source} has no column {missing[0]!r}, which holds the label.")
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


def known(answers: NDArray[np.int64] | NDArray[np.float32]) -> NDArray[np.bool_]:
    """The rows with an answer, (n,)."""
    if answers.ndim == 1:
        return np.asarray(answers >= 0)
    return np.asarray(~np.isnan(answers).any(axis=1))


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
