"""Bars: several measures of the same things beside each other, and how often each value occurs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.report.charts.axes import BOTTOM_MARGIN, LEFT_MARGIN, Axis, Frame, Scale, draw_frame
from evodevo.report.charts.numbers import show
from evodevo.report.svg import Drawing, empty, finite, one_line, shorten, text_width, whole
from evodevo.report.wrapping import least_width, wrap

_ROWS_AT_MOST, _NAME_MOST = 80, 320.0
_ROLES = ("attention", "recurrence", "convolution", "other")


@dataclass(frozen=True)
class Measure:
    """One column of ``bars_beside``.

    Attributes:
        name: name of the quantity.
        values: one number per row, not negative; None or nan is missing.
        unit: as for ``Axis``.
        full: the value of a bar of full length; the largest if left out.
    """

    name: str
    values: Sequence[float | None]
    unit: str = ""
    full: float | None = None


def bars_beside(names: Sequence[str], measures: Sequence[Measure], name_width: float = 150) -> str:
    """Horizontal bars: one row per name, one column per measure, each with its own scale; numbers at the bars. Names
    that are wider than ``name_width`` pixels have two lines in a wider column, or more lines."""
    shown = list(names)[:_ROWS_AT_MOST]
    if not shown or not measures:
        return empty("No bars to show.")
    room = least_width(shown, 2, 11, name_width, max(name_width, _NAME_MOST))
    labels = [wrap(name, room, 11) for name in shown]
    left = 18 + max(text_width(line, 11) for label in labels for line in label)
    column = min(max(180.0, 620 / len(measures)), 360.0)
    pitch, step, cut = 22.0, 12.0, len(names) > len(shown)
    tops = [40.0]
    for label in labels:
        tops.append(tops[-1] + max(pitch, step * len(label) + 4))
    drawing = Drawing(
        left + column * len(measures) + 12,
        tops[-1] + 14 + 14 * cut,
        ", ".join(one_line(measure.name, 80) for measure in measures),
    )
    for row, label in enumerate(labels):
        title = whole(shown[row])
        drawing.lines(left - 8, tops[row] + 15, label, "fill-ink", 11, "end", title=title, step=step)
    for place, measure in enumerate(measures):
        x, role = left + place * column, _ROLES[place % len(_ROLES)]
        drawing.text(x, 22, shorten(one_line(measure.name, 120), column - 14, 11), "fill-ink strong", 11)
        known = [v for value in measure.values if (v := finite(value)) is not None]
        full = measure.full or max([*known, 0.0]) or 1.0
        drawing.line(x, tops[0] - 6, x, tops[-1] + 2, "stroke-muted")
        for row, given in enumerate(list(measure.values)[: len(shown)]):
            value, y = finite(given), tops[row]
            words = show(given, measure.unit, digits=3)
            long = (column - 84) * min(max(value or 0.0, 0.0) / full, 1.0)
            drawing.rect(
                x, y + 3, long, pitch - 6, f"bar fill-{role}", f"{shown[row]}\n{measure.name}: {words}", rx=1.5
            )
            drawing.text(x + long + 6, y + 15, shorten(words, 72, 10.5), "fill-muted", 10.5)
    if cut:
        words = f"The first {len(shown)} of {len(names):,}."
        drawing.text(12, drawing.height - 6, words, "fill-muted", 10)
    return drawing.svg()


def histogram(
    counts: Sequence[tuple[str, float]], x_axis: Axis, y_axis: Axis, width: float = 640, height: float = 260
) -> str:
    """Upright bars, in the order given: (what, how often or how much)."""
    if not counts:
        return empty(f"No {one_line(x_axis.name, 80)} was recorded.", width)
    values = [max(finite(value) or 0.0, 0.0) for _, value in counts]
    frame = Frame(
        Scale(-0.6, len(counts) - 0.4, LEFT_MARGIN, width - 18),
        Scale.fit(values, height - BOTTOM_MARGIN, 24, False, 0.1, True),
    )
    drawing = Drawing(width, height, f"{one_line(y_axis.name)} by {one_line(x_axis.name)}")
    pitch = (frame.right - frame.left) / len(counts)
    bars = [shorten(one_line(name, 60), max(pitch, 28) - 2, 11) for name, _ in counts]
    draw_frame(drawing, frame, x_axis, y_axis, bars=bars)
    bar = min(pitch * 0.74, 64.0)
    for index, ((name, _), value) in enumerate(zip(counts, values, strict=True)):
        y = frame.y(value)
        words = f"{one_line(name, 80)}: {show(value, y_axis.unit, digits=3)}"
        drawing.rect(frame.x(index) - bar / 2, y, bar, frame.bottom - y, "bar fill-attention", words, rx=1.5)
        if pitch >= 34:
            label = show(value, y_axis.unit, digits=2)
            drawing.text(frame.x(index), y - 5, shorten(label, pitch, 10), "fill-muted", 10, "middle")
    return drawing.svg()
