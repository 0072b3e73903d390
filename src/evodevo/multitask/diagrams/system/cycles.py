"""Accuracy over cycles (µ4Net, 2302.02721, Fig. 3): the mean over systems, and a band of its standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from evodevo.multitask.diagrams.system.frame import percent
from evodevo.report.charts.axes import BOTTOM_MARGIN, LEFT_MARGIN, Axis, Frame, Scale, draw_frame
from evodevo.report.charts.line_names import LineNames, LineStyle
from evodevo.report.charts.side_by_side import NOTE, Place, side_by_side
from evodevo.report.palette import TASK_COLOURS, task_role
from evodevo.report.stack import stacked
from evodevo.report.svg import Drawing, empty, finite, number, one_line, polyline

_TOP = 22.0
_DASHES = ("", "7 3", "2 2", "10 3 2 3")
_REFERENCE = LineStyle("muted", "3 3")


@dataclass(frozen=True)
class CycleCurve:
    """One way to solve tasks.

    Attributes:
        name: name of the way.
        courses: one for each repetition: accuracies in [0, 1] after cycle 1, 2, …; None where nothing was measured.
        number: number of its colour; None takes its index among the arms.
    """

    name: str
    courses: Sequence[Sequence[float | None]]
    number: int | None = None


@dataclass(frozen=True)
class Mean:
    """The mean of the repetitions that reached a cycle; ``error`` is its standard error, None for a single
    repetition."""

    cycle: int
    mean: float
    error: float | None
    count: int


def means(courses: Sequence[Sequence[float | None]]) -> list[Mean]:
    """Mean and standard error of each cycle with a measurement, counted from 1."""
    rows = []
    for place in range(max(map(len, courses), default=0)):
        known = [v for course in courses if place < len(course) and (v := finite(course[place])) is not None]
        if known:
            error = stdev(known) / math.sqrt(len(known)) if len(known) > 1 else None
            rows.append(Mean(place + 1, fmean(known), error, len(known)))
    return rows


def cycle_chart(
    arms: Sequence[CycleCurve],
    name: str = "validation accuracy",
    *,
    over: str = "systems",
    references: Sequence[tuple[str, float]] = (),
    width: float = 760,
    height: float = 300,
) -> str:
    """One panel.

    Args:
        arms: curves in the order of their colours.
        name: name of the measured quantity.
        over: noun for the repetitions, in the plural, for the caption.
        references: (name, accuracy) drawn as horizontal lines, as the paper draws the singlepath agent.
        width, height: size of the panel, in pixels.
    """
    shown = [(arm, place, rows) for place, arm in enumerate(arms) if (rows := means(arm.courses))]
    if not shown:
        return empty(f"No {one_line(name, 80)} was recorded.", width)
    low = [row.mean - (row.error or 0.0) for _, _, rows in shown for row in rows]
    high = [row.mean + (row.error or 0.0) for _, _, rows in shown for row in rows]
    lines = [(words, value) for words, given in references if (value := finite(given)) is not None]
    titles = [*(arm.name for arm, _, _ in shown), *(words for words, _ in lines)]
    names = LineNames.fit(titles, height - BOTTOM_MARGIN - _TOP)
    width, height = width + names.widened, max(height, names.height + BOTTOM_MARGIN + _TOP)
    last = max(row.cycle for _, _, rows in shown for row in rows)
    right = width - 26 - names.width
    frame = Frame(
        Scale.fit([1.0, float(max(last, 2))], LEFT_MARGIN, right, False, 0.03),
        Scale.fit([*low, *high, *(value for _, value in lines)], height - BOTTOM_MARGIN, _TOP, False, 0.08),
    )
    places = [[(frame.x(row.cycle), frame.y(row.mean)) for row in rows] for _, _, rows in shown]
    places += [[(frame.left, frame.y(value)), (frame.right, frame.y(value))] for _, value in lines]
    drawn = side_by_side(places, frame.top, frame.bottom)
    most = max(row.count for _, _, rows in shown for row in rows)
    band = f", band: standard error over {most} {one_line(over, 60)}" if most > 1 else ""
    summary = "; ".join(f"{arm.name} {percent(rows[-1].mean)} %" for arm, _, rows in shown[:20])
    label = f"{name} over cycles{band}. At the end: {summary}"
    drawing = Drawing(width, height + 16 * drawn.moved, label)
    draw_frame(drawing, frame, Axis("cycles ended"), Axis(name, minimise=False), whole_x=True)
    for way in drawn.lines[len(shown) :]:
        drawing.path(polyline(way), "reference hollow stroke-muted", "", stroke_width=1.4, **_REFERENCE.dashes)
    styles = [arm_style(place if arm.number is None else arm.number) for arm, place, _ in shown]
    for (arm, _, rows), style, way, dots in zip(shown, styles, drawn.lines, drawn.dots, strict=False):
        _draw_arm(drawing, frame, style, rows, way, drawn.stroke)
        _draw_points(drawing, frame, arm.name, style, rows, dots, over, 1.5 * drawn.stroke)
    ends = [frame.y(rows[-1].mean) for _, _, rows in shown] + [frame.y(value) for _, value in lines]
    styles += [_REFERENCE] * len(lines)
    names.draw(drawing, right + 10, ends, styles, (frame.top, frame.bottom), titles)
    if band:
        drawing.text(frame.right, 14, f"mean{band}", "fill-muted", 10.5, "end")
    if drawn.moved:
        drawing.text(LEFT_MARGIN, height + 8, NOTE, "fill-muted", 10.5)
    return drawing.svg()


def arm_style(number: int) -> LineStyle:
    """The look of the curve with this number: colours of tasks, and dashes for those that share a colour."""
    return LineStyle(task_role(number), _DASHES[number // TASK_COLOURS % len(_DASHES)])


def system_cycles(
    validation: Sequence[CycleCurve],
    test: Sequence[CycleCurve],
    *,
    over: str = "systems",
    references: Sequence[tuple[str, float]] = (),
    test_references: Sequence[tuple[str, float]] = (),
    chosen_by: str = "accuracy",
) -> str:
    """Two panels: what paths are chosen by on validation, and test accuracy, which chooses nothing."""
    panels = [cycle_chart(validation, f"validation {chosen_by}", over=over, references=references)]
    if any(means(arm.courses) for arm in test):
        panels.append(cycle_chart(test, "test accuracy", over=over, references=test_references))
    return stacked(panels, "Validation and test accuracy over cycles")


def _draw_arm(
    drawing: Drawing, frame: Frame, style: LineStyle, rows: Sequence[Mean], way: Sequence[Place], stroke: float
) -> None:
    """The band at its exact place, and the line."""
    spread = [(frame.x(row.cycle), row) for row in rows if row.error is not None]
    if len(spread) > 1:
        up = [(x, frame.y(row.mean + (row.error or 0.0))) for x, row in spread]
        down = [(x, frame.y(row.mean - (row.error or 0.0))) for x, row in spread]
        drawing.path(polyline([*up, *reversed(down)]) + "Z", f"band fill-{style.role}", fill_opacity="0.18")
    drawing.path(polyline(way), f"line hollow stroke-{style.role}", "", stroke_width=stroke, **style.dashes)


def _draw_points(
    drawing: Drawing,
    frame: Frame,
    name: str,
    style: LineStyle,
    rows: Sequence[Mean],
    dots: Sequence[Place],
    over: str,
    radius: float,
) -> None:
    alone = sum(row.error is not None for row in rows) == 1  # a band needs two cycles
    for (x, y), row in zip(dots, rows, strict=True):
        error = "" if row.error is None else f" ± {100 * row.error:.2f}"
        words = f"{name}\nafter {row.cycle}: {100 * row.mean:.2f}{error} %"
        words += f"\n{row.count} {over}" if row.count > 1 else ""
        if row.error is not None and alone:
            top, low = frame.y(row.mean + row.error), frame.y(row.mean - row.error)
            drawing.path(f"M{number(x)},{number(top)}L{number(x)},{number(low)}", f"hollow stroke-{style.role}")
        drawing.element("circle", f"fill-{style.role}", words, cx=x, cy=y, r=radius)
