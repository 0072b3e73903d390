"""The text of a value of a table, whatever format it came from."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

from evodevo import canonical
from evodevo.errors import DataError

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nat", "?", "-", "inf", "-inf", "infinity", "-infinity"})
"""Cells, in small letters and without blanks around, that are missing values of numbers, categories and dates."""


def text_of(value: Any, place: str) -> str:
    """Text as it is, numbers and booleans as Python prints them, dates and times as ISO 8601, lists as JSON.

    Null, NaN and infinity are the empty text.

    Args:
        value: A value of JSON or of a column.
        place: File, row and column, for the message.

    Raises:
        DataError: A value of another type, such as bytes or a table within a table.
    """
    if _missing(value):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float | decimal.Decimal):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, list) and all(piece is None or isinstance(piece, str | bool | int | float) for piece in value):
        return canonical.dumps([None if _missing(piece) else piece for piece in value])
    raise DataError(
        f"{place} holds {type(value).__name__}; wanted are text, numbers, dates, and lists of text or numbers."
    )


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float | decimal.Decimal) and not math.isfinite(value))
