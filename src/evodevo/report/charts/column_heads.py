"""Names of any length above the columns of a table of shades; none is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.report.svg import Drawing, text_width
from evodevo.report.wrapping import least_width, wrap

_LINES, _STEP, _LEVEL = 3, 11.0, 60.0
"""Most lines of a level name, pixels from line to line, and least width of a column whose names have several."""


@dataclass(frozen=True)
class ColumnHeads:
    """Names of columns: level where they fit in three lines, else turned, in as many lines as a column has room for.

    Attributes:
        lines: lines of text of each name.
        cell: width of a column, in pixels.
        turned: whether they read upwards.
        height: height of all of them, in pixels.
    """

    lines: tuple[tuple[str, ...], ...]
    cell: float
    turned: bool
    height: float

    @classmethod
    def fit(cls, heads: Sequence[str], cell: float) -> ColumnHeads:
        """Of names of any length in columns that are ``cell`` pixels wide."""
        level = tuple(tuple(wrap(head, cell - 2, 10)) for head in heads)
        most = max(map(len, level))
        if most == 1 or (most <= _LINES and cell >= _LEVEL):
            return cls(level, cell, False, 12.0 + _STEP * (most - 1))
        long = least_width(heads, max(int((cell - 2) / _STEP), 1), 10, 60)
        turned = tuple(tuple(wrap(head, long, 10)) for head in heads)
        return cls(turned, cell, True, 8.0 + max(text_width(line, 10) for lines in turned for line in lines))

    def draw(self, drawing: Drawing, left: float, y: float) -> None:
        """Draw them with their last line, or where turned their beginning, at ``y``."""
        for index, lines in enumerate(self.lines):
            x, over = left + (index + 0.5) * self.cell, _STEP * (len(lines) - 1)
            if self.turned:
                drawing.lines(x + 3.5 - over / 2, y, lines, "fill-muted", 10, turned=True, step=_STEP)
            else:
                drawing.lines(x, y - over, lines, "fill-muted", 10, "middle", step=_STEP)
