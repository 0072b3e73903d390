"""The look of the lines of a chart, and their names at the right edge, each behind a piece of its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.report.svg import Drawing, text_width
from evodevo.report.wrapping import wrap

_SIZE, _LINE = 11.0, 12.0
_BOLD = 12.6
"""Font size by which the width of bold text is estimated."""
_SAMPLE, _AIR = 26.0, 6.0
_WIDTHS = (170.0, 240.0, 340.0, 480.0)
"""Widths that the column of names may have, in pixels; a wider one than the first widens the drawing."""


@dataclass(frozen=True)
class LineStyle:
    """Role of the colour, and pattern of the dashes; empty for a solid line."""

    role: str
    dash: str = ""

    @property
    def dashes(self) -> dict[str, str | float]:
        """As an attribute of the line; none for a solid one."""
        return {"stroke_dasharray": self.dash} if self.dash else {}


@dataclass(frozen=True)
class LineNames:
    """Names in lines, of which nothing is cut.

    Attributes:
        blocks: lines of text of each name.
        widened: pixels by which the drawing is wider than usual.
        height: height of all names below each other, in pixels.
    """

    blocks: tuple[tuple[str, ...], ...]
    widened: float
    height: float

    @classmethod
    def fit(cls, names: Sequence[str], height: float) -> LineNames:
        """In the narrowest column in which all of them are at most ``height`` pixels high, else in the widest."""
        for width in _WIDTHS:
            blocks = tuple(tuple(wrap(name, width, _BOLD)) for name in names)
            high = sum(_LINE * len(block) + 2 for block in blocks)
            if high <= height:
                break
        wide = max((text_width(line, _BOLD) for block in blocks for line in block), default=0.0)
        return cls(blocks, max(wide - _WIDTHS[0], 0.0), high)

    @property
    def width(self) -> float:
        """Width of the column with the pieces of lines, in pixels."""
        return _SAMPLE + _AIR + max((text_width(line, _BOLD) for block in self.blocks for line in block), default=0.0)

    def draw(
        self,
        drawing: Drawing,
        x: float,
        ends: Sequence[float],
        styles: Sequence[LineStyle],
        span: tuple[float, float],
        titles: Sequence[str],
    ) -> None:
        """Draw the names, each as near to the end of its line as the others let it.

        Args:
            drawing: drawing with the chart.
            x: left edge of the column.
            ends: height of each line's end.
            styles: look of each line.
            span: upper and lower edge of the column.
            titles: tooltips.
        """
        highs = [_LINE * len(block) + 2 for block in self.blocks]
        middles = stack_apart(ends, highs, *span)
        for block, high, middle, style, title in zip(self.blocks, highs, middles, styles, titles, strict=True):
            look = f"sample stroke-{style.role}"
            drawing.line(x, middle, x + _SAMPLE, middle, look, stroke_width=2, **style.dashes)
            first = middle - high / 2 + _LINE - 1
            place = (x + _SAMPLE + _AIR, first)
            drawing.lines(*place, block, f"name fill-{style.role} strong", _SIZE, title=title, step=_LINE)


def stack_apart(middles: Sequence[float], heights: Sequence[float], top: float, bottom: float) -> list[float]:
    """Middles of blocks of these heights, moved as little as a simple rule needs, so that none overlaps another and
    all are inside; where they do not fit, they overlap evenly."""
    share = min(1.0, (bottom - top) / max(sum(heights), 1e-9))
    halves = [share * height / 2 for height in heights]
    order = sorted(range(len(middles)), key=lambda index: (middles[index], index))
    moved, floor, ceiling = list(middles), top, bottom
    for index in order:
        moved[index] = max(moved[index], floor + halves[index])
        floor = moved[index] + halves[index]
    for index in reversed(order):
        moved[index] = min(moved[index], ceiling - halves[index])
        ceiling = moved[index] - halves[index]
    return moved
