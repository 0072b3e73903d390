"""Quantities over time: training curves with the share of stable runs (paper, Fig. 4.2), hypervolume, averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evodevo.report.charts import glyphs as marks
from evodevo.report.charts.axes import BOTTOM_MARGIN, LEFT_MARGIN, Axis, Frame, Scale, draw_frame
from evodevo.report.charts.line_names import LineNames, LineStyle
from evodevo.report.charts.numbers import show
from evodevo.report.charts.side_by_side import NOTE, side_by_side
from evodevo.report.palette import MODULE_COLOURS, module_role
from evodevo.report.svg import Drawing, empty, finite, one_line, polyline, text_width

Point = tuple[float, float | None]
_TOP = 20.0
_SERIES_ROLES = ("attention", "recurrence", "convolution", "other", "memoryless")
_SERIES_DASHES = ("", "7 3", "2 3", "10 3 2 3", "10 3 2 3 2 3")


@dataclass(frozen=True)
class TrainingCurve:
    """The course of one training run.

    Args:
        id: the individual.
        points: (step or tokens, value) in order; values that are not finite end a piece of the line.
        state: ``stable``; ``unstable`` (it ended, with spikes or above its start); ``diverged`` or ``failed``.
        highlight: drawn stronger, for example what ended on the front.
    """

    id: str
    points: Sequence[Point]
    state: Literal["stable", "unstable", "diverged", "failed"] = "stable"
    highlight: bool = False
    title: str = ""


@dataclass(frozen=True)
class Series:
    """One named line of ``line_chart``."""

    name: str
    points: Sequence[Point]


def thin(points: Sequence[Point], limit: int) -> list[Point]:
    """At most ``limit`` of the points: the first, the last, and the lowest and highest of equal pieces between."""
    if len(points) <= max(limit, 4):
        return list(points)
    pieces = max((limit - 2) // 2, 1)
    inner = range(1, len(points) - 1)
    keep = {0, len(points) - 1}
    for piece in range(pieces):
        part = inner[piece * len(inner) // pieces : (piece + 1) * len(inner) // pieces]
        known = [(value, index) for index in part if (value := finite(points[index][1])) is not None]
        keep.update({min(known)[1], max(known)[1]} if known else part[:1])
    return [points[index] for index in sorted(keep)]


def stability_words(curves: Sequence[TrainingCurve]) -> str:
    """``57 of 60 runs stable (95 %)``, as in the caption of Fig. 4.2."""
    stable = sum(curve.state == "stable" for curve in curves)
    share = f" ({100 * stable / len(curves):.0f} %)" if curves else ""
    return f"{stable} of {len(curves)} runs stable{share}"


def training_curves(
    curves: Sequence[TrainingCurve],
    x_axis: Axis,
    y_axis: Axis,
    width: float = 760,
    height: float = 380,
    limit: int = 200,
) -> str:
    """All curves on one chart. The scale is that of the stable runs: points above it are drawn on the upper edge, and
    the number of such runs is below; a cross marks where a diverged or failed run ended.
    """
    drawn = [(curve, _pieces(thin(curve.points, limit))) for curve in curves]
    if not any(pieces for _, pieces in drawn):
        return empty("No training curve was recorded.", width)
    calm = [p for curve, pieces in drawn if curve.state == "stable" for piece in pieces for p in piece]
    every = [p for _, pieces in drawn for piece in pieces for p in piece]
    sampled = calm or every
    frame = Frame(
        Scale.fit((x for x, _ in every), LEFT_MARGIN, width - 20, x_axis.logarithmic or False, 0.0),
        Scale.fit((y for _, y in sampled), height - BOTTOM_MARGIN - 18, 44, y_axis.logarithmic),
    )
    drawing = Drawing(width, height, f"Training curves: {stability_words(curves)}")
    draw_frame(drawing, frame, x_axis, y_axis)
    rank = {"stable": 0, "unstable": 2, "diverged": 3, "failed": 3}
    for curve, pieces in sorted(drawn, key=lambda pair: (rank[pair[0].state] or pair[0].highlight, pair[0].id)):
        stable = curve.state == "stable"
        role = ("attention" if curve.highlight else "memoryless") if stable else "failed"
        data = "".join(polyline([(frame.x(x), frame.y(y)) for x, y in piece]) for piece in pieces)
        if not data:
            continue
        words = "\n".join(filter(None, [curve.id, curve.state, curve.title]))
        with drawing.group(f"curve {curve.state}", title=words):
            drawing.path(
                data,
                f"hollow stroke-{role}",
                "",
                stroke_width=1.8 if curve.highlight else 1.3 if not stable else 0.9,
                stroke_opacity="0.95" if curve.highlight or not stable else "0.5",
                stroke_linejoin="round",
                **({"stroke_dasharray": "4 2"} if curve.state == "unstable" else {}),
            )
            if curve.state in ("diverged", "failed"):
                x, y = pieces[-1][-1]
                drawing.path(marks.cross(frame.x(x), frame.y(y), 4.5), "hollow stroke-failed", stroke_width=2)
    _draw_curve_legend(drawing, curves)
    drawing.text(width - 20, 22, stability_words(curves), "fill-ink strong", 12, "end")
    above = sum(any(y > frame.y.high for piece in pieces for _, y in piece) for _, pieces in drawn)
    if above:
        words = "run leaves the scale and is" if above == 1 else "runs leave the scale and are"
        drawing.text(LEFT_MARGIN, height - 6, f"{above} {words} held at its upper edge", "fill-muted", 10.5)
    return drawing.svg()


def _draw_curve_legend(drawing: Drawing, curves: Sequence[TrainingCurve]) -> None:
    x = LEFT_MARGIN
    states = {curve.state for curve in curves}
    entries = [
        ("stable" in states, "stable", "memoryless", "", 1.2),
        (any(c.highlight and c.state == "stable" for c in curves), "on the front", "attention", "", 2.0),
        ("unstable" in states, "unstable", "failed", "4 2", 1.5),
        ("diverged" in states or "failed" in states, "diverged or failed", "failed", "", 1.5),
    ]
    for present, words, role, dash, wide in entries:
        if not present:
            continue
        more: dict[str, str | float] = {"stroke_dasharray": dash} if dash else {}
        drawing.line(x, 18, x + 20, 18, f"stroke-{role}", stroke_width=wide, **more)
        if words.startswith("diverged"):
            drawing.path(marks.cross(x + 20, 18, 4), "hollow stroke-failed", stroke_width=1.8)
        drawing.text(x + 28, 22, words, "fill-muted")
        x += 28 + text_width(words, 11) + 14


def _pieces(points: Sequence[Point]) -> list[list[tuple[float, float]]]:
    """The runs of neighbouring points that can be drawn."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        place, value = finite(x), finite(y)
        if place is None or value is None:
            pieces.append([])
        else:
            pieces[-1].append((place, value))
    return [piece for piece in pieces if piece]


def line_chart(
    series: Sequence[Series],
    x_axis: Axis,
    y_axis: Axis,
    width: float = 760,
    height: float = 300,
    include_zero: bool = False,
    whole_x: bool = True,
) -> str:
    """Named lines with a dot at every point, each named at its end; also for one point.

    Of more lines than there are colours the first are drawn, and a note says so.
    """
    pieces = [(item, _pieces(item.points)) for item in series]
    pieces = [(item, lines) for item, lines in pieces if lines]
    if not pieces:
        return empty(f"No {one_line(y_axis.name, 80)} was recorded.", width)
    notes = [f"The first {MODULE_COLOURS} of {len(pieces)} lines."] if len(pieces) > MODULE_COLOURS else []
    pieces = pieces[:MODULE_COLOURS]
    every = [point for _, lines in pieces for piece in lines for point in piece]
    named = pieces if len(pieces) > 1 else []
    names = LineNames.fit([item.name for item, _ in named], height - BOTTOM_MARGIN - _TOP)
    width, height = width + names.widened, max(height, names.height + BOTTOM_MARGIN + _TOP)
    right = width - 24 - (names.width if named else 12)
    frame = Frame(
        Scale.fit((x for x, _ in every), LEFT_MARGIN, right, False, 0.02),
        Scale.fit((y for _, y in every), height - BOTTOM_MARGIN, _TOP, y_axis.logarithmic or False, 0.08, include_zero),
    )
    places = [[(frame.x(x), frame.y(y)) for x, y in piece] for _, lines in pieces for piece in lines]
    drawn = side_by_side(places, frame.top, frame.bottom)
    notes += [NOTE] if drawn.moved else []
    drawing = Drawing(width, height + 16 * len(notes), f"{one_line(y_axis.name)} over {one_line(x_axis.name)}")
    draw_frame(drawing, frame, x_axis, y_axis, whole_x)
    styles = series_styles(len(pieces))
    ways = zip(drawn.lines, drawn.dots, strict=True)
    for (item, lines), style in zip(pieces, styles, strict=True):
        for piece, (way, dots) in zip(lines, ways, strict=False):
            look = f"line hollow stroke-{style.role}"
            drawing.path(polyline(way), look, "", stroke_width=drawn.stroke, **style.dashes)
            for (x, y), (place, value) in zip(dots, piece, strict=True):
                words = f"{item.name}\n{x_axis.name} {show(place, x_axis.unit)}: {show(value, y_axis.unit)}"
                drawing.element("circle", f"fill-{style.role}", words, cx=x, cy=y, r=1.5 * drawn.stroke)
    ends = [frame.y(lines[-1][-1][1]) for _, lines in named]
    names.draw(drawing, right + 10, ends, styles[: len(named)], (frame.top, frame.bottom), [i.name for i, _ in named])
    for place, note in enumerate(notes):
        drawing.text(LEFT_MARGIN, height + 8 + 16 * place, note, "fill-muted", 10.5)
    return drawing.svg()


def series_styles(count: int) -> list[LineStyle]:
    """The looks of so many lines of one drawing, at most ``MODULE_COLOURS``: no two have the same colour."""
    few = count <= len(_SERIES_ROLES)
    roles = _SERIES_ROLES[:count] if few else [module_role(place) for place in range(count)]
    # Colour is not the only sign: neighbours differ by their dashes, too.
    return [LineStyle(role, _SERIES_DASHES[place % len(_SERIES_DASHES)]) for place, role in enumerate(roles)]
