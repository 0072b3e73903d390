"""Quantities over time: training curves with the share of stable runs (paper, Fig. 4.2), hypervolume, averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evodevo.report.charts import glyphs as marks
from evodevo.report.charts.axes import BOTTOM_MARGIN, LEFT_MARGIN, Axis, Frame, Scale, draw_frame
from evodevo.report.charts.numbers import show
from evodevo.report.svg import Drawing, empty, finite, one_line, polyline, shorten, text_width

Point = tuple[float, float | None]
_SERIES_ROLES = ("attention", "recurrence", "convolution", "other", "memoryless")
_SERIES_DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2")


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
    """A few named lines with a dot at every point, each named at its end; also for one point."""
    pieces = [(item, _pieces(item.points)) for item in series]
    pieces = [(item, lines) for item, lines in pieces if lines]
    if not pieces:
        return empty(f"No {one_line(y_axis.name, 80)} was recorded.", width)
    every = [point for _, lines in pieces for piece in lines for point in piece]
    names = [shorten(one_line(item.name, 80), 170, 11) for item, _ in pieces]
    right = width - 24 - (max(text_width(name, 11) for name in names) if len(pieces) > 1 else 12)
    frame = Frame(
        Scale.fit((x for x, _ in every), LEFT_MARGIN, right, False, 0.02),
        Scale.fit((y for _, y in every), height - BOTTOM_MARGIN, 20, y_axis.logarithmic or False, 0.08, include_zero),
    )
    drawing = Drawing(width, height, f"{one_line(y_axis.name)} over {one_line(x_axis.name)}")
    draw_frame(drawing, frame, x_axis, y_axis, whole_x)
    ends = spread_apart([frame.y(lines[-1][-1][1]) for _, lines in pieces], 14, frame.top, frame.bottom)
    for index, ((item, lines), name, end) in enumerate(zip(pieces, names, ends, strict=True)):
        role = _SERIES_ROLES[index % len(_SERIES_ROLES)]
        dash = _SERIES_DASHES[index % len(_SERIES_DASHES)]
        more: dict[str, str | float] = {"stroke_dasharray": dash} if dash else {}
        for piece in lines:
            places = [(frame.x(x), frame.y(y)) for x, y in piece]
            drawing.path(polyline(places), f"line hollow stroke-{role}", "", stroke_width=2, **more)
            for (x, y), (place, value) in zip(places, piece, strict=True):
                words = f"{item.name}\n{x_axis.name} {show(place, x_axis.unit)}: {show(value, y_axis.unit)}"
                drawing.element("circle", f"fill-{role}", words, cx=x, cy=y, r=3)
        if len(pieces) > 1:
            drawing.text(right + 10, end + 4, name, f"fill-{role} strong")
    return drawing.svg()


def hypervolume_chart(
    values: Sequence[Point], others: Sequence[Series] = (), width: float = 760, height: float = 280
) -> str:
    """Hypervolume per generation; ``others`` are for example random search at equal evaluations."""
    own = Series("this run", values)
    return line_chart([own, *others], Axis("generation"), Axis("hypervolume", minimise=False), width, height)


def spread_apart(places: Sequence[float], least: float, top: float, bottom: float) -> list[float]:
    """``places`` moved as little as a simple rule needs, so that neighbours are ``least`` apart and inside."""
    order = sorted(range(len(places)), key=lambda index: (places[index], index))
    moved = list(places)
    least = min(least, (bottom - top) / max(len(places) - 1, 1))
    floor = top
    for index in order:
        moved[index] = max(moved[index], floor)
        floor = moved[index] + least
    ceiling = bottom
    for index in reversed(order):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - least
    return moved
