"""The kind of each column of a user's rows, found by its values, and what reading further rows needs to know.

Legend: n rows.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import Field

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.settings import Settings
from evodevo.tasks.cell_values import MISSING
from evodevo.tasks.images.suffixes import IMAGE_SUFFIXES
from evodevo.tasks.table.cells import is_list

Kind = Literal["number", "vector", "category", "date", "text", "image", "ignored"]
READABLE = 0.95
"""Fraction of the values that must be numbers for a column of numbers; the others are missing values."""
MOST_CATEGORIES = 1_000
WORDS = 2.5
"""Mean number of words of a value from which on a column is text."""
DISTINCT = 0.5
"""Fraction of distinct values from which on words that are no numbers are text (names, codes) and no categories."""
ISO = "ISO 8601"
DATE_FORMATS = (ISO, "%d.%m.%Y", "%d.%m.%Y %H:%M", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M")
"""Forms of dates in the order in which they are tried; all values must have one form."""
DATE_PARTS = ("days", "month", "weekday", "hour")


class Column(Settings):
    """A column of the training rows.

    Attributes:
        name: Name of the column.
        kind: Kind of its values.
        values: Of a category, the values that have a code of their own, most frequent first.
        form: Of a date, its form, of ``DATE_FORMATS``.
        size: Of a vector, its number of numbers.
        reason: Of an ignored column, the reason.
    """

    name: str
    kind: Kind
    values: tuple[str, ...] = Field(default=(), max_length=MOST_CATEGORIES)
    form: str = ""
    size: int = Field(default=0, ge=0)
    reason: str = ""

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the numbers that the column becomes; none for other kinds."""
        if self.kind == "number":
            return (self.name,)
        if self.kind == "date":
            return tuple(f"{self.name} ({part})" for part in DATE_PARTS)
        return tuple(f"{self.name}[{place}]" for place in range(self.size)) if self.kind == "vector" else ()


def is_missing(cell: str) -> bool:
    """Whether a cell holds no value."""
    return cell.strip().lower() in MISSING


def number(cell: str) -> float:
    """The number in a cell; NaN where there is none, or one beyond the range of single precision."""
    try:
        value = float(cell)
    except ValueError:
        return math.nan
    return value if abs(value) < 3e38 else math.nan


def date(cell: str, form: str) -> tuple[float, float, float, float] | None:
    """A date as days since 1970, month 1 to 12, weekday 0 (Monday) to 6, and hour; None where it has another form."""
    try:
        if form == ISO:
            moment = datetime.datetime.fromisoformat(cell.strip())
        else:
            moment = datetime.datetime.strptime(cell.strip(), form)
    except ValueError:
        return None
    plain = moment.replace(tzinfo=None)
    hour = plain.hour + plain.minute / 60 + plain.second / 3600
    days = (plain - datetime.datetime(1970, 1, 1)).total_seconds() / 86_400
    return days, float(plain.month), float(plain.weekday()), hour


def vector(cell: str) -> list[float] | None:
    """The numbers of a JSON list, NaN for null; None for anything else."""
    if not is_list(cell):
        return None
    try:
        values = canonical.loads(cell, what="a list of numbers")
    except UsageError:
        return None
    if not all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values):
        return None
    return [math.nan if value is None else number(str(value)) for value in values]


def find(name: str, cells: Sequence[str], folder: Path | None) -> Column:
    """The column of these cells.

    Args:
        name: Name of the column.
        cells: Its n cells in the training rows.
        folder: Folder in which relative paths of images begin.
    """
    there = [cell.strip() for cell in cells if not is_missing(cell)]
    if not there:
        return Column(name=name, kind="ignored", reason="it is empty")
    counts = Counter(there)
    if len(counts) == 1 and len(there) == len(cells):
        return Column(name=name, kind="ignored", reason="all its values are equal")
    if are_images(there, folder):
        return Column(name=name, kind="image")
    if is_list(there[0]) and (size := _vector_size(there)):
        return Column(name=name, kind="vector", size=size)
    numbers = [value for value in map(number, there) if not math.isnan(value)]
    if len(numbers) >= READABLE * len(there):
        if len(there) == len(cells) and _counts_up(numbers):
            return Column(name=name, kind="ignored", reason="its values number the rows")
        return Column(name=name, kind="number")
    for form in DATE_FORMATS:
        if all(date(cell, form) is not None for cell in there):
            return Column(name=name, kind="date", form=form)
    words = sum(len(cell.split()) for cell in there) / len(there)
    if words >= WORDS and len(counts) > 10:
        return Column(name=name, kind="text")
    if len(counts) <= 10 or len(counts) < DISTINCT * len(there):
        common = [value for value, count in counts.most_common(MOST_CATEGORIES) if count > 1 or len(counts) <= 10]
        return Column(name=name, kind="category", values=tuple(common))
    return Column(name=name, kind="text")


def are_images(there: Sequence[str], folder: Path | None) -> bool:
    """Whether the values of a column are paths of images below the folder."""
    if folder is None or not all(cell.lower().endswith(IMAGE_SUFFIXES) for cell in there):
        return False
    return any((folder / cell).is_file() for cell in there[:100])


def _vector_size(there: Sequence[str]) -> int:
    """Common length of lists of numbers; 0 where they are no lists of one length."""
    sizes = {-1 if (values := vector(cell)) is None else len(values) for cell in there}
    return max(0, sizes.pop()) if len(sizes) == 1 else 0


def _counts_up(numbers: Sequence[float]) -> bool:
    return len(numbers) > 20 and all(later - sooner == 1 for sooner, later in pairwise(numbers))
