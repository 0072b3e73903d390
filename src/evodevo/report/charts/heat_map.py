"""A table of numbers as shades: activity of layers over iterations, specialisation of layers to classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.report.charts.column_heads import ColumnHeads
from evodevo.report.charts.numbers import MISSING, show
from evodevo.report.svg import Drawing, empty, finite, one_line, shorten, text_width, whole
from evodevo.report.wrapping import least_width, wrap

_STRONGEST = 0.58
"""Opacity of the largest value; numbers in ink stay readable on it, on white and on black."""
_LABEL, _LABEL_MOST, _LABEL_LINES, _STEP = 150.0, 320.0, 2, 12.0
"""Names of rows, in pixels: the column that they have as a rule, and the widest, which is sought for two lines."""
_ROWS_AT_MOST, _COLUMNS_AT_MOST = 400, 80


@dataclass(frozen=True)
class HeatRows:
    """Some rows with a heading of their own, for example the layers for one class.

    Attributes:
        heading: text above the rows; none where empty.
        names: names of the rows.
        values: per row one number per column; None or nan is missing.
    """

    heading: str
    names: Sequence[str]
    values: Sequence[Sequence[float | None]]


@dataclass(frozen=True)
class _Grid:
    """Sizes of the cells, and the numbers that are unshaded and shaded most."""

    left: float
    cell: float
    tall: float
    low: float
    top: float
    heads: tuple[str, ...]
    label: float

    def lines(self, text: str) -> list[str]:
        """Lines of the name of a row."""
        return wrap(text, self.label, 11)

    def height(self, text: str) -> float:
        """Height of the row with this name, in pixels."""
        lines = len(self.lines(text))
        return self.tall if lines == 1 else max(self.tall, _STEP * lines + 4)

    def shade(self, value: float | None) -> float:
        span = self.top - self.low if self.top > self.low else 1.0
        return 0.0 if value is None else min(max((value - self.low) / span, 0.0), 1.0)


def heat_map(
    groups: Sequence[HeatRows], columns: Sequence[str], name: str, low: float = 0.0, high: float | None = None
) -> str:
    """Cells shaded from ``low`` (none) to ``high`` (strongest; the largest value if left out), with their numbers
    where there is room. ``name`` is the name of the quantity."""
    kept, rows = _first(groups), sum(len(group.names) for group in groups)
    columns, many = [whole(column) for column in list(columns)[:_COLUMNS_AT_MOST]], len(columns)
    if not rows or not columns:
        return empty(f"No {one_line(name, 80)} to show.")
    known = [v for group in kept for row in group.values for value in row if (v := finite(value)) is not None]
    drawn = sum(len(group.names) for group in kept)
    widest = max(text_width(head, 10) for head in columns)
    heads = ColumnHeads.fit(columns, min(max(34.0, widest + 10), max(20.0, 820 / len(columns)), 92.0))
    texts = [text for group in kept for text in group.names]
    label = least_width(texts, _LABEL_LINES, 11, _LABEL, _LABEL_MOST)
    grid = _Grid(
        left=16 + max(text_width(line, 11) for text in texts for line in wrap(text, label, 11)),
        cell=heads.cell,
        tall=22.0 if drawn <= 40 else 15.0,
        low=low,
        top=high if high is not None else max([*known, low]),
        heads=tuple(columns),
        label=label,
    )
    words = shorten(one_line(name, 120), 500, 11)
    scale = text_width(show(grid.low, digits=3), 10.5) + text_width(show(grid.top, digits=3), 10.5) + 116
    width = max(grid.left + grid.cell * len(columns) + 14, text_width(words, 11) + scale, 260)
    cut = drawn < rows or len(columns) < many
    top = 40 + heads.height
    high_rows = sum(_gap(group) + sum(grid.height(text) for text in group.names) for group in kept)
    drawing = Drawing(width, top + 6 + high_rows + 16 * cut, f"Heat map: {name}")
    _draw_scale(drawing, words, grid.low, grid.top)
    heads.draw(drawing, grid.left, top - 8)
    y = top
    for group in kept:
        heading = one_line(group.heading, 120)
        if heading:
            drawing.text(10, y + 15, shorten(heading, width - 20, 11), "fill-ink strong", 11)
        y += _gap(group)
        for text, values in zip(group.names, group.values, strict=True):
            lines, tall = grid.lines(text), grid.height(text)
            first = y + tall / 2 + 4 - _STEP * (len(lines) - 1) / 2
            drawing.lines(grid.left - 8, first, lines, "fill-ink", 11, "end", title=text, step=_STEP)
            _draw_row(drawing, grid, y, tall, values, f"{heading}, {text}" if heading else text)
            y += tall
    if cut:
        words = f"The first {drawn:,} of {rows:,} rows and {len(columns)} of {many:,} columns."
        drawing.text(10, drawing.height - 6, shorten(words, width - 20, 10), "fill-muted", 10)
    return drawing.svg()


def _first(groups: Sequence[HeatRows]) -> list[HeatRows]:
    """As many rows as are drawn."""
    kept: list[HeatRows] = []
    room = _ROWS_AT_MOST
    for group in groups:
        if room and group.names:
            kept.append(HeatRows(group.heading, list(group.names)[:room], list(group.values)[:room]))
            room -= len(kept[-1].names)
    return kept


def _gap(group: HeatRows) -> float:
    return 22.0 if group.heading else 6.0


def _draw_row(drawing: Drawing, grid: _Grid, y: float, tall: float, values: Sequence[float | None], name: str) -> None:
    for index, (head, value) in enumerate(zip(grid.heads, values, strict=False)):
        number, x = finite(value), grid.left + index * grid.cell
        with drawing.group("cell", f"{whole(name)}, {head}: {show(number, digits=3)}"):
            drawing.rect(x + 0.5, y + 0.5, grid.cell - 1, tall - 1, "fill-panel", rx=2)
            if shade := grid.shade(number):
                opacity = f"{_STRONGEST * shade:.3f}"
                width, height = grid.cell - 1, tall - 1
                drawing.rect(x + 0.5, y + 0.5, width, height, "fill-attention", rx=2, fill_opacity=opacity)
            if grid.cell >= 30 and grid.tall > 16:
                label = MISSING if number is None else str(value) if isinstance(value, int) else f"{number:.2f}"
                drawing.text(x + grid.cell / 2, y + tall / 2 + 4, label, "fill-ink", 10, "middle")


def _draw_scale(drawing: Drawing, name: str, low: float, top: float) -> None:
    """Draw the scale of the shades: five of them between the lowest and the highest number."""
    before, after = show(low, digits=3), show(top, digits=3)
    drawing.text(10, 20, before, "fill-muted", 10.5)
    x = 16 + text_width(before, 10.5)
    for step in range(5):
        drawing.rect(x, 10, 14, 12, "fill-panel")
        drawing.rect(x, 10, 14, 12, "fill-attention", fill_opacity=f"{_STRONGEST * step / 4:.3f}")
        x += 14
    drawing.text(x + 6, 20, after, "fill-muted", 10.5)
    x += 18 + text_width(after, 10.5)
    drawing.text(x, 20, shorten(name, drawing.width - x - 8, 11), "fill-ink", 11)
