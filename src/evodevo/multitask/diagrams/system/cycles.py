"""Accuracy over cycles (µ4Net, 2302.02721, Fig. 3): the mean over systems, and a band of its standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from evodevo.multitask.diagrams.system.frame import percent
from evodevo.report.charts.axes import BOTTOM_MARGIN, LEFT_MARGIN, Axis, Frame, Scale, draw_frame
from evodevo.report.charts.curves import spread_apart
from evodevo.report.palette import TASK_COLOURS, task_role
from evodevo.report.stack import stacked
from evodevo.report.svg import Drawing, empty, finite, number, one_line, polyline, shorten, text_width

_DASHES = ("", "7 3", "2 2", "10 3 2 3")
_NAME = 200.0


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
    labels = [shorten(one_line(arm.name, 80), _NAME, 11) for arm, _, _ in shown]
    labels += [shorten(one_line(words, 80), _NAME, 11) for words, _ in lines]
    last = max(row.cycle for _, _, rows in shown for row in rows)
    right = width - 26 - max(text_width(label, 11) for label in labels)
    frame = Frame(
        Scale.fit([1.0, float(max(last, 2))], LEFT_MARGIN, right, False, 0.03),
        Scale.fit([*low, *high, *(value for _, value in lines)], height - BOTTOM_MARGIN, 22, False, 0.08),
    )
    most = max(row.count for _, _, rows in shown for row in rows)
    band = f", band: standard error over {most} {one_line(over, 60)}" if most > 1 else ""
    summary = "; ".join(f"{arm.name} {percent(rows[-1].mean)} %" for arm, _, rows in shown[:20])
    drawing = Drawing(width, height, f"{name} over cycles{band}. At the end: {summary}")
    draw_frame(drawing, frame, Axis("cycles ended"), Axis(name, minimise=False), whole_x=True)
    ends = [frame.y(rows[-1].mean) for _, _, rows in shown] + [frame.y(value) for _, value in lines]
    places = spread_apart(ends, 14, frame.top, frame.bottom)
    for (_, value), label, place_y in zip(lines, labels[len(shown) :], places[len(shown) :], strict=True):
        y = frame.y(value)
        drawing.line(frame.left, y, frame.right, y, "reference stroke-muted", stroke_dasharray="3 3", stroke_width=1.4)
        drawing.text(right + 10, place_y + 4, label, "fill-muted")
    for (arm, place, rows), label, y in zip(shown, labels, places, strict=False):
        _draw_arm(drawing, frame, arm, place if arm.number is None else arm.number, rows, over)
        role = task_role(place if arm.number is None else arm.number)
        drawing.text(right + 10, y + 4, label, f"fill-{role} strong", title=arm.name)
    if band:
        drawing.text(frame.right, 14, f"mean{band}", "fill-muted", 10.5, "end")
    return drawing.svg()


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


def _draw_arm(drawing: Drawing, frame: Frame, arm: CycleCurve, place: int, rows: Sequence[Mean], over: str) -> None:
    role, dash = task_role(place), _DASHES[place // TASK_COLOURS % len(_DASHES)]
    spread = [(frame.x(row.cycle), row) for row in rows if row.error is not None]
    if len(spread) > 1:
        up = [(x, frame.y(row.mean + (row.error or 0.0))) for x, row in spread]
        down = [(x, frame.y(row.mean - (row.error or 0.0))) for x, row in spread]
        drawing.path(polyline([*up, *reversed(down)]) + "Z", f"band fill-{role}", fill_opacity="0.18")
    points = [(frame.x(row.cycle), frame.y(row.mean)) for row in rows]
    more: dict[str, str | float] = {"stroke_dasharray": dash} if dash else {}
    drawing.path(polyline(points), f"line hollow stroke-{role}", "", stroke_width=2, **more)
    for (x, y), row in zip(points, rows, strict=True):
        error = "" if row.error is None else f" ± {100 * row.error:.2f}"
        words = f"{arm.name}\nafter {row.cycle}: {100 * row.mean:.2f}{error} %"
        words += f"\n{row.count} {over}" if row.count > 1 else ""
        if row.error is not None and len(spread) == 1:  # a band needs two cycles
            top, low = frame.y(row.mean + row.error), frame.y(row.mean - row.error)
            drawing.path(f"M{number(x)},{number(top)}L{number(x)},{number(low)}", f"hollow stroke-{role}")
        drawing.element("circle", f"fill-{role}", words, cx=x, cy=y, r=3)
