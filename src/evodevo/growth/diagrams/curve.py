"""Line chart of a measure over a training that is interrupted by edits, with an upright mark for every event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.growth.diagrams.edit_glyphs import draw_sign, draw_signs
from evodevo.report.charts.axes import BOTTOM_MARGIN, LEFT_MARGIN, Axis, Frame, Scale, draw_frame
from evodevo.report.charts.curves import Series, series_styles
from evodevo.report.charts.line_names import LineNames
from evodevo.report.charts.numbers import show
from evodevo.report.charts.side_by_side import NOTE, side_by_side
from evodevo.report.svg import Drawing, empty, finite, one_line, polyline, text_width

_STEP = 15.0
_WIDTH = 940.0
_MOST_SIGNS = 6


@dataclass(frozen=True)
class EditMark:
    """An event: its number, its position on the x axis, the operations of its edits, and a description."""

    number: int
    x: float
    operations: Sequence[str] = ()
    words: str = ""


def growth_curve(
    series: Sequence[Series], events: Sequence[EditMark], x_axis: Axis, y_axis: Axis, height: float = 300
) -> str:
    """Lines with a dot at every point; the signs of an event's edits are stacked above its mark.

    Args:
        series: Lines, at most ``palette.MODULE_COLOURS``; points that are not finite are left out.
        events: Events in order of time.
        x_axis, y_axis: Names and units of the axes.
        height: Height of the frame with its axes; signs take more.
    """
    lines = [
        (line, [(a, b) for x, y in line.points if (a := finite(x)) is not None and (b := finite(y)) is not None])
        for line in series
    ]
    lines = [(line, points) for line, points in lines if points]
    if not lines:
        return empty(f"No {one_line(y_axis.name, 80)} was recorded.", _WIDTH)
    most = max((min(len(event.operations), _MOST_SIGNS + 1) for event in events), default=0)
    head = 30.0 + _STEP * most
    names = LineNames.fit([line.name for line, _ in lines], height - BOTTOM_MARGIN)
    width, height = _WIDTH + names.widened, max(height, names.height + BOTTOM_MARGIN)
    right = width - 24 - names.width
    every = [point for _, points in lines for point in points]
    legend = {name for event in events for name in event.operations}
    height += head + (20 if legend else 0)
    bottom = height - BOTTOM_MARGIN - (20 if legend else 0)
    frame = Frame(
        Scale.fit([*(x for x, _ in every), *(event.x for event in events)], LEFT_MARGIN, right, False, 0.02),
        Scale.fit((y for _, y in every), bottom, head, y_axis.logarithmic or False, 0.08),
    )
    marks = f"{len(events)} event{'' if len(events) == 1 else 's'}"
    drawn = side_by_side(
        [[(frame.x(x), frame.y(y)) for x, y in points] for _, points in lines], frame.top, frame.bottom
    )
    whole = height + 16 * drawn.moved
    drawing = Drawing(width, whole, f"{one_line(y_axis.name)} over {one_line(x_axis.name)}, {marks}")
    draw_frame(drawing, frame, x_axis, y_axis)
    _draw_events(drawing, events, frame, head)
    styles = series_styles(len(lines))
    for (line, points), style, way, dots in zip(lines, styles, drawn.lines, drawn.dots, strict=True):
        look = f"line hollow stroke-{style.role}"
        drawing.path(polyline(way), look, "", stroke_width=drawn.stroke, **style.dashes)
        for (a, b), (x, y) in zip(dots, points, strict=True):
            words = f"{line.name}\n{x_axis.name} {show(x, x_axis.unit)}: {show(y, y_axis.unit)}"
            drawing.element("circle", f"fill-{style.role}", words, cx=a, cy=b, r=1.5 * drawn.stroke)
    ends = [frame.y(points[-1][1]) for _, points in lines]
    names.draw(drawing, right + 10, ends, styles, (frame.top, frame.bottom), [line.name for line, _ in lines])
    if drawn.moved:
        drawing.text(LEFT_MARGIN, height + 8, NOTE, "fill-muted", 10.5)
    draw_signs(drawing, legend, LEFT_MARGIN, height - 8)
    return drawing.svg()


def _draw_events(drawing: Drawing, events: Sequence[EditMark], frame: Frame, head: float) -> None:
    free = 0.0
    for event in events:
        x, label = frame.x(event.x), str(event.number)
        half = max(_STEP, text_width(label, 10)) / 2
        # Where events lie so close that signs would hide each other, only the first one has signs; tooltips have all.
        seen = x - half >= free
        free = x + half if seen else free
        signs = list(event.operations) if seen else []
        with drawing.group("event", title=f"event {event.number}\n{event.words}".strip()):
            role = "stroke-muted" if event.operations else "stroke-faint"
            drawing.line(x, head, x, frame.bottom, role, stroke_dasharray="3 3")
            kept = signs if len(signs) <= _MOST_SIGNS else signs[: _MOST_SIGNS - 1]
            for place, operation in enumerate(kept):
                draw_sign(drawing, operation, x, head - 8 - _STEP * place)
            y = head - 8 - _STEP * len(kept)
            if len(kept) < len(signs):
                drawing.text(x, y + 4, f"+{len(signs) - len(kept)}", "fill-ink", 9, "middle")
                y -= _STEP
            if seen:
                drawing.text(x, y + 3, label, "fill-muted", 10, "middle")
