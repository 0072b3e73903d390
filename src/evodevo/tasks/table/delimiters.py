"""CSV as spreadsheets of different countries write it: what separates values, and decimal commas."""

from __future__ import annotations

import re
from collections.abc import Sequence

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""Name of each delimiter; of those that a header has equally often, the first counts."""
_QUOTED = re.compile(r'"[^"]*"')
_WHOLE = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?")


def delimiter_of(text: str) -> str:
    """The delimiter of a CSV file: the one that its header has most, quoted names aside; a comma where it has none."""
    header = _QUOTED.sub("", text[: text.find("\n")] if "\n" in text else text)
    return max(DELIMITERS, key=header.count)


def with_decimal_points(cells: Sequence[str], missing: frozenset[str]) -> list[str]:
    """The cells of a column, with points for decimal commas where all its values are numbers and some have a comma.

    In such a column points part thousands: 1.234,5 becomes 1234.5.

    Args:
        cells: Cells of a column of a file whose values no commas separate.
        missing: Cells, in small letters and without blanks around, that are missing values.
    """
    there = [cell.strip() for cell in cells if cell.strip().lower() not in missing]
    if not any("," in cell for cell in there) or not all(map(_WHOLE.fullmatch, there)):
        return list(cells)
    return [cell.replace(".", "").replace(",", ".") for cell in cells]
