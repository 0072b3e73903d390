"""Two objectives against each other: the population, its front, the baselines, and what failed.

Colour is the generation, shape the state (diamond: on the front; disc: dominated; triangle: baseline; cross: failed
or not finite). Nothing disappears: an individual that lacks one number is drawn in a strip at the margin, at its other
number; one that lacks both is counted in words. Bars span the seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from evodevo.report.charts import glyphs as marks
from evodevo.report.charts.axes import BOTTOM_MARGIN, LEFT_MARGIN, Axis, Frame, Scale, draw_frame
from evodevo.report.charts.numbers import show
from evodevo.report.palette import generation_role
from evodevo.report.svg import Anchor, Drawing, empty, finite, one_line, polyline, shorten, text_width
from evodevo.report.wrapping import wrap

State = Literal["front", "dominated", "failed"]
_STRIP = 22.0
_MOST_LABELS = 30  # a front of more is a line, and its points have tooltips
_MOST_LISTED = 20  # of those without either number; none of their ids is cut
_LISTED = 13.0  # pixels from line to line of their list


@dataclass(frozen=True)
class FrontPoint:
    """One individual. ``x`` and ``y`` may be None or not finite; a spread is (lowest, highest) over seeds."""

    id: str
    x: float | None
    y: float | None
    generation: int = 0
    state: State = "dominated"
    x_spread: tuple[float, float] | None = None
    y_spread: tuple[float, float] | None = None
    label: str = ""
    title: str = ""


@dataclass(frozen=True)
class BaselinePoint:
    """A reference model, trained under the same budget; drawn with its name."""

    name: str
    x: float | None
    y: float | None
    x_spread: tuple[float, float] | None = None
    y_spread: tuple[float, float] | None = None
    title: str = ""


@dataclass(frozen=True)
class _Placed:
    """A rectangle that is taken: labels keep away from it."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: _Placed) -> float:
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide * high if wide > 0 and high > 0 else 0.0


def front_chart(
    points: Sequence[FrontPoint],
    x_axis: Axis,
    y_axis: Axis,
    baselines: Sequence[BaselinePoint] = (),
    width: float = 760,
    height: float = 470,
    step_line: bool = True,
    names: Mapping[State, str] | None = None,
) -> str:
    """The scatter as an SVG string.

    Args:
        points, baselines: individuals and reference models.
        x_axis, y_axis: the objectives.
        width, height: size of the drawing.
        step_line: whether the points of state ``front`` that are not dominated in these two objectives are joined
            along the edge of what they dominate (``Axis.minimise`` is the direction; None counts as lower).
        names: names of the states, for points that are no individuals of generations: the legend has these, there is no
            scale of generations, and all points have their label.
    """
    if not points and not baselines:
        return empty("No individual has been scored yet.", width)
    everyone: list[FrontPoint | BaselinePoint] = [*points, *baselines]
    # A number counts for the scale only where both are known, or a failed giant would press all others together.
    whole = [p for p in everyone if _is_whole(p)]
    sampled = whole or everyone
    xs = [v for p in sampled for v in (p.x, *(p.x_spread or ()))]
    ys = [v for p in sampled for v in (p.y, *(p.y_spread or ()))]

    no_y = [p for p in everyone if finite(p.y) is None and finite(p.x) is not None]
    no_x = [p for p in everyone if finite(p.x) is None and finite(p.y) is not None]
    neither = [p for p in everyone if finite(p.x) is None and finite(p.y) is None]
    top = 44.0 + (_STRIP + 6 if no_y else 0)
    right = width - 20 - (_STRIP + 6 if no_x else 0)
    bottom = height - BOTTOM_MARGIN - (18 if neither else 0)
    frame = Frame(Scale.fit(xs, LEFT_MARGIN, right, x_axis.logarithmic), Scale.fit(ys, bottom, top, y_axis.logarithmic))

    scored = sum(1 for p in points if p.state != "failed")
    words = f"{scored} scored and {len(points) - scored} failed individuals, {len(baselines)} baselines"
    listed = _listed(neither, width - LEFT_MARGIN - 20) if neither else []
    below = _LISTED * max(len(listed) - 1, 0)
    drawing = Drawing(width, height + below, f"{one_line(y_axis.name)} against {one_line(x_axis.name)}: {words}")
    draw_frame(drawing, frame, x_axis, y_axis)
    last = max((p.generation for p in points), default=0)

    taken: list[_Placed] = []
    front = _front_steps(points, x_axis, y_axis)
    if step_line and front:
        taken += _draw_steps(drawing, frame, front, x_axis, y_axis)
    order = {"failed": 0, "dominated": 1, "front": 2}
    drawn = sorted((p for p in points if _is_whole(p)), key=lambda p: (order[p.state], p.generation, p.id))
    for point in drawn:
        x, y = frame.x(finite(point.x) or 0.0), frame.y(finite(point.y) or 0.0)
        role = "failed" if point.state == "failed" else generation_role(point.generation, last)
        with drawing.group(f"point {point.state}", title=_words(point, x_axis, y_axis, names)):
            taken += _draw_spread(drawing, frame, point, x, y, role)
            _draw_marker(drawing, point.state, x, y, role)
        reach = 7.0 if point.state == "front" else 4.5
        taken.append(_Placed(x - reach, y - reach, x + reach, y + reach))
    for baseline in (b for b in baselines if _is_whole(b)):
        x, y = frame.x(finite(baseline.x) or 0.0), frame.y(finite(baseline.y) or 0.0)
        with drawing.group("point baseline", title=_words(baseline, x_axis, y_axis)):
            taken += _draw_spread(drawing, frame, baseline, x, y, "ink")
            drawing.path(marks.triangle(x, y, 7), "fill-paper stroke-ink", stroke_width=1.8)
        taken.append(_Placed(x - 8, y - 8, x + 8, y + 8))

    _draw_strips(drawing, frame, no_y, no_x, x_axis, y_axis)
    if listed:
        drawing.lines(LEFT_MARGIN, height - 8, listed, "fill-failed", 10.5, step=_LISTED)
    for baseline in (b for b in baselines if _is_whole(b)):
        _draw_label(drawing, frame, taken, baseline, baseline.name, 11, "fill-ink strong", always=True)
    labelled = [p for p in drawn if (p.state == "front" or names is not None) and p.label]
    for point in labelled if len(labelled) <= _MOST_LABELS else ():
        _draw_label(drawing, frame, taken, point, point.label, 9.5, "fill-muted", always=False)
    _draw_legend(drawing, points, bool(baselines), last, width, names)
    return drawing.svg()


def _is_whole(point: FrontPoint | BaselinePoint) -> bool:
    """Whether the point has a place in the plane."""
    return finite(point.x) is not None and finite(point.y) is not None


def _listed(points: Sequence[FrontPoint | BaselinePoint], width: float) -> list[str]:
    """Lines that name the points without a place."""
    names = ", ".join(map(_name, points[:_MOST_LISTED]))
    more = f" and {len(points) - _MOST_LISTED} more" if len(points) > _MOST_LISTED else ""
    return wrap(f"× {len(points)} without either number: {names}{more}", width, 10.5)


def _name(point: FrontPoint | BaselinePoint) -> str:
    return point.name if isinstance(point, BaselinePoint) else point.id


def _words(
    point: FrontPoint | BaselinePoint, x_axis: Axis, y_axis: Axis, names: Mapping[State, str] | None = None
) -> str:
    lines = [_name(point)]
    for axis, value, spread in ((x_axis, point.x, point.x_spread), (y_axis, point.y, point.y_spread)):
        seeds = f" (seeds {show(spread[0], axis.unit)} to {show(spread[1], axis.unit)})" if spread else ""
        lines.append(f"{axis.name}: {show(value, axis.unit)}{seeds}")
    if isinstance(point, FrontPoint):
        lines.append(names[point.state] if names else f"generation {point.generation}, {point.state}")
    return "\n".join([*lines, point.title] if point.title else lines)


def _front_steps(points: Sequence[FrontPoint], x_axis: Axis, y_axis: Axis) -> list[tuple[float, float]]:
    """The values of the front's corners, best ``x`` first: those that no other front point dominates here."""
    x_sign = -1.0 if x_axis.minimise is False else 1.0
    y_sign = -1.0 if y_axis.minimise is False else 1.0
    known = sorted(
        (x_sign * x, y_sign * y)
        for point in points
        if point.state == "front" and (x := finite(point.x)) is not None and (y := finite(point.y)) is not None
    )
    corners: list[tuple[float, float]] = []
    for x, y in known:
        if not corners or y < corners[-1][1]:
            corners.append((x, y))
    return [(x_sign * x, y_sign * y) for x, y in corners]


def _draw_steps(
    drawing: Drawing, frame: Frame, corners: Sequence[tuple[float, float]], x_axis: Axis, y_axis: Axis
) -> list[_Placed]:
    """Draws the line and returns the room that it takes."""
    worst_x = frame.left if x_axis.minimise is False else frame.right
    worst_y = frame.bottom if y_axis.minimise is False else frame.top
    places = [(frame.x(x), frame.y(y)) for x, y in corners]
    path = [(places[0][0], worst_y)]
    for (x, y), following in zip(places, [*places[1:], None], strict=True):
        path += [(x, y), (following[0] if following else worst_x, y)]
    drawing.path(polyline(path), "front-line hollow stroke-ink", stroke_width=1.2, stroke_opacity="0.55")
    return [
        _Placed(min(x1, x2) - 1, min(y1, y2) - 1, max(x1, x2) + 1, max(y1, y2) + 1)
        for (x1, y1), (x2, y2) in pairwise(path)
    ]


def _draw_marker(drawing: Drawing, state: State, x: float, y: float, role: str) -> None:
    if state == "failed":
        drawing.path(marks.cross(x, y, 4), "hollow stroke-failed", stroke_width=1.8)
    elif state == "front":
        drawing.path(marks.diamond(x, y, 7), f"fill-{role} stroke-ink", stroke_width=1.4)
    else:
        drawing.path(marks.circle(x, y, 4), f"fill-{role} stroke-paper", stroke_width=0.8, fill_opacity="0.8")


def _draw_spread(
    drawing: Drawing, frame: Frame, point: FrontPoint | BaselinePoint, x: float, y: float, role: str
) -> list[_Placed]:
    """Draws whiskers from the lowest to the highest seed and returns the room that they take."""
    taken = []
    if point.x_spread and (ends := [v for v in map(finite, point.x_spread) if v is not None]):
        low, high = frame.x(min(ends)), frame.x(max(ends))
        data = f"M{low:.1f},{y - 3:.1f}v6M{low:.1f},{y:.1f}H{high:.1f}M{high:.1f},{y - 3:.1f}v6"
        drawing.path(data, f"spread hollow stroke-{role}", stroke_width=1.3)
        taken.append(_Placed(low, y - 3, high, y + 3))
    if point.y_spread and (ends := [v for v in map(finite, point.y_spread) if v is not None]):
        low, high = frame.y(min(ends)), frame.y(max(ends))
        data = f"M{x - 3:.1f},{low:.1f}h6M{x:.1f},{low:.1f}V{high:.1f}M{x - 3:.1f},{high:.1f}h6"
        drawing.path(data, f"spread hollow stroke-{role}", stroke_width=1.3)
        taken.append(_Placed(x - 3, high, x + 3, low))
    return taken


def _draw_strips(
    drawing: Drawing,
    frame: Frame,
    no_y: Sequence[FrontPoint | BaselinePoint],
    no_x: Sequence[FrontPoint | BaselinePoint],
    x_axis: Axis,
    y_axis: Axis,
) -> None:
    if no_y:
        top = frame.top - 6 - _STRIP
        drawing.rect(frame.left, top, frame.right - frame.left, _STRIP, "margin-strip fill-panel", rx=3)
        drawing.text(frame.left - 8, top + 15, shorten(f"no {one_line(y_axis.name)}", 72, 10), "fill-failed", 10, "end")
        for point in no_y:
            with drawing.group("point failed", title=_words(point, x_axis, y_axis)):
                place = frame.x(finite(point.x) or 0.0)
                drawing.path(marks.cross(place, top + _STRIP / 2, 4), "hollow stroke-failed", stroke_width=1.8)
    if no_x:
        left = frame.right + 6
        drawing.rect(left, frame.top, _STRIP, frame.bottom - frame.top, "margin-strip fill-panel", rx=3)
        words = shorten(f"no {one_line(x_axis.name)}", frame.bottom - frame.top, 10)
        drawing.text(left + _STRIP + 10, (frame.top + frame.bottom) / 2, words, "fill-failed", 10, "middle", True)
        for point in no_x:
            with drawing.group("point failed", title=_words(point, x_axis, y_axis)):
                place = frame.y(finite(point.y) or 0.0)
                drawing.path(marks.cross(left + _STRIP / 2, place, 4), "hollow stroke-failed", stroke_width=1.8)


def _draw_label(
    drawing: Drawing,
    frame: Frame,
    taken: list[_Placed],
    point: FrontPoint | BaselinePoint,
    text: str,
    size: float,
    classes: str,
    always: bool,
) -> None:
    """Writes ``text``, whole and in as many lines as it needs, beside the point where it covers least; a label that is
    not ``always`` drawn covers nothing."""
    x, y = frame.x(finite(point.x) or 0.0), frame.y(finite(point.y) or 0.0)
    lines, step = wrap(text, (frame.right - frame.left) / 2, size), size * 1.15
    wide, away, more = max(text_width(line, size) for line in lines), 11.0, step * (len(lines) - 1)
    best: tuple[float, _Placed, Anchor, float, float] | None = None
    places: list[tuple[Anchor, float, float]] = [
        ("start", x + away, y + size * 0.35 - more / 2),
        ("end", x - away, y + size * 0.35 - more / 2),
        ("start", x + away * 0.6, y - away * 0.8 - more),
        ("end", x - away * 0.6, y - away * 0.8 - more),
        ("start", x + away * 0.6, y + away * 0.8 + size * 0.7),
        ("end", x - away * 0.6, y + away * 0.8 + size * 0.7),
        ("middle", x, y - away - more),
        ("middle", x, y + away + size * 0.7),
        ("middle", x, y - 2.2 * away - more),
        ("middle", x, y + 2.2 * away + size * 0.7),
    ]
    for preference, (anchor, at, baseline) in enumerate(places):
        left = {"start": at, "end": at - wide, "middle": at - wide / 2}[anchor]
        box = _Placed(left, baseline - size * 0.85, left + wide, baseline + more + size * 0.25)
        if box.left < frame.left or box.right > frame.right or box.top < frame.top or box.bottom > frame.bottom:
            continue
        cost = sum(box.overlap(other) for other in taken) + preference * 0.01
        if best is None or cost < best[0]:
            best = (cost, box, anchor, at, baseline)
    if best is None and always:  # so long that it has no room beside the point: as near as the frame lets it
        left = max(min(x - wide / 2, frame.right - wide), frame.left)
        first = max(min(y + away + size * 0.7, frame.bottom - more - size * 0.25), frame.top + size * 0.85)
        box = _Placed(left, first - size * 0.85, left + wide, first + more + size * 0.25)
        best = (0.0, box, "start", left, first)
    if best is None or (best[0] >= 1.0 and not always):
        return
    _, box, anchor, at, baseline = best
    drawing.lines(at, baseline, lines, classes, size, anchor, step=step)
    taken.append(box)


def _draw_legend(
    drawing: Drawing,
    points: Sequence[FrontPoint],
    baselines: bool,
    last: int,
    width: float,
    names: Mapping[State, str] | None,
) -> None:
    x, y = LEFT_MARGIN, 22.0
    states = {point.state for point in points}
    shapes: tuple[State, ...] = ("front", "dominated")
    for state in shapes:
        if state in states:
            words = names[state] if names else state
            _draw_marker(drawing, state, x + 5, y - 4, generation_role(last, last))
            drawing.text(x + 17, y, words, "fill-muted")
            x += 17 + text_width(words, 11) + 14
    if baselines:
        drawing.path(marks.triangle(x + 5, y - 4, 6), "fill-paper stroke-ink", stroke_width=1.6)
        drawing.text(x + 17, y, "baseline", "fill-muted")
        x += 17 + text_width("baseline", 11) + 14
    if "failed" in states:
        _draw_marker(drawing, "failed", x + 5, y - 4, "failed")
        drawing.text(x + 17, y, "failed", "fill-muted")
    if last > 0 and names is None:
        shown = min(last + 1, 12)
        start = width - 20 - shown * 12 - 14 - text_width(str(last), 11)
        drawing.text(start - 8, y, "generation  0", "fill-muted", anchor="end")
        for index in range(shown):
            generation = round(index * last / (shown - 1))
            drawing.rect(start + index * 12, y - 10, 11, 12, f"fill-{generation_role(generation, last)}")
        drawing.text(start + shown * 12 + 6, y, last, "fill-muted")
