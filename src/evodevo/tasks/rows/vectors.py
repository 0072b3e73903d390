"""Rows as vectors of finite numbers: columns of numbers, what is missing of them, and categories.

The order is: F numbers, 0 where one is missing; F indicators, 1 where the number is missing; for each category one
number per code (one-hot), the codes of a missing and of an unknown value first.

Shapes: n rows, F numbers, G numbers of a vector.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError
from evodevo.tasks.inputs import InputSpec
from evodevo.tasks.rows.columns import Column
from evodevo.tasks.rows.samples import RowReading
from evodevo.tasks.rows.sources import Rows

ROW = "row"
"""Name of the input."""
READ = ("number", "vector", "category", "date")
"""Kinds of columns that become numbers."""
MOST_NUMBERS = 20_000
MISSING, OTHER = "(missing)", "(other)"


def reading_of(rows: Rows, label: str, ignore: tuple[str, ...] = ()) -> tuple[RowReading, dict[str, str]]:
    """What further rows are read by, and the columns that are left out, each with the reason.

    Args:
        rows: Training rows.
        label: Column of the class.
        ignore: Further columns that are no inputs.

    Raises:
        DataError: No column can be read as numbers, or they become too many numbers.
    """
    found = RowReading.of(Rows(rows.source, rows.count, rows.cells), (label,), ignore=ignore)
    left_out = {one.name: one.reason or f"it holds {one.kind}" for one in found.columns if one.kind not in READ}
    left_out |= dict.fromkeys(rows.pixels, "it holds images")
    reading = RowReading(columns=found.of_kind(*READ))
    if not reading.columns:
        reasons = "; ".join(f"{name!r}: {reason}" for name, reason in left_out.items())
        raise DataError(f"{rows.source} has no column of numbers, categories or dates ({reasons}).")
    if size_of(reading) > MOST_NUMBERS:
        raise DataError(
            f"the columns of {rows.source} become {size_of(reading):,} numbers; at most {MOST_NUMBERS:,} are read."
            " Leave columns of many values out (ignore)."
        )
    return reading, left_out


def size_of(reading: RowReading) -> int:
    """G."""
    return 2 * len(reading.numbers) + sum(reading.levels)


def input_of(reading: RowReading) -> InputSpec:
    """The input of a task whose samples are rows."""
    return InputSpec(ROW, "vector", size=size_of(reading))


def names_of(reading: RowReading) -> tuple[str, ...]:
    """The meaning of each of the G numbers: ``age``, ``age is missing``, ``colour = red``."""
    codes = [
        f"{column.name} = {value}"
        for column in reading.of_kind("category")
        for value in (MISSING, OTHER, *column.values)
    ]
    return (*reading.numbers, *(f"{name} is missing" for name in reading.numbers), *codes)


def vectors_of(reading: RowReading, rows: Rows) -> NDArray[np.float32]:
    """Rows as vectors, (n, G).

    Raises:
        DataError: The rows have no column of the training rows.
    """
    samples = reading.read(rows)
    missing = np.isnan(samples.numbers)
    parts = [np.where(missing, 0, samples.numbers), missing]
    parts += [np.eye(size)[samples.codes[:, place]] for place, size in enumerate(reading.levels)]
    vectors: NDArray[np.float32] = np.concatenate(parts, axis=1).astype(np.float32)
    return vectors


def words_of(reading: RowReading, vector: NDArray[np.float32]) -> str:
    """One row for display: ``age = 39, colour = red``; what is missing is left out."""
    count = len(reading.numbers)
    numbers = [
        f"{name} = {value:g}"
        for name, value, gone in zip(reading.numbers, vector, vector[count : 2 * count], strict=False)
        if not gone
    ]
    codes = [
        name
        for name, on in zip(names_of(reading)[2 * count :], vector[2 * count :], strict=True)
        if on and not name.endswith(MISSING)
    ]
    return ", ".join([*numbers, *codes]) or MISSING


def counted(columns: tuple[Column, ...]) -> dict[str, int]:
    """Kind -> number of columns of that kind, in the order of ``READ``."""
    counts = {kind: sum(column.kind == kind for column in columns) for kind in READ}
    return {kind: count for kind, count in counts.items() if count}
