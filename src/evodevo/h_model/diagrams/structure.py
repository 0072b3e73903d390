"""The structure of an H-Model: hidden layers side by side, run T times, and the other settings of their messages.

Inputs above, outputs below. The frame holds the hidden layers of one iteration; they work at the same time, so they are
in rows and not in a chain. The arrow at the right leads from their outputs back to their inputs, T times; the line at
the left is the direct path from inputs to outputs. Equal layers are one box with their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evodevo.report.charts.captions import MARGIN, draw_families, draw_headline, families_of, headline_height, wrapped
from evodevo.report.charts.glyphs import family_glyph
from evodevo.report.palette import family_role
from evodevo.report.svg import Drawing, empty, number, one_line, polyline, shorten, text_width

_BOX_WIDTH, _BOX_HEIGHT = 146.0, 40.0
_GAP = 10.0
_PER_ROW = 4
_LANE = 30.0
_PILL_HEIGHT = 22.0
_LEAST_WIDTH = 380.0


@dataclass(frozen=True)
class LayerMark:
    """The facts of a hidden layer that a drawing needs.

    Args:
        name: ``transformer``, ``Rec-1``.
        family: ``attention``, ``recurrence``, ``convolution``, ``memoryless``, or another word.
        detail: sizes, in few characters.
        count: number of such layers that the box represents.
        title: the tooltip.
    """

    name: str
    family: str
    detail: str = ""
    count: int = 1
    title: str = ""


def fold_layers(layers: Sequence[LayerMark], ordered: bool = False) -> list[LayerMark]:
    """Equal layers as one mark with their number; where order counts, only neighbours are folded."""
    folded: list[LayerMark] = []
    for layer in layers:
        alike = [place for place, other in enumerate(folded) if replace(other, count=1) == replace(layer, count=1)]
        if alike and (not ordered or alike[-1] == len(folded) - 1):
            place = alike[-1]
            folded[place] = replace(folded[place], count=folded[place].count + layer.count)
        else:
            folded.append(layer)
    return folded


def h_model_diagram(
    layers: Sequence[LayerMark],
    iterations: int,
    facts: Sequence[str] = (),
    inputs: Sequence[str] = ("inputs",),
    outputs: Sequence[str] = ("outputs",),
    title: str = "",
    subtitle: str = "",
    ordered: bool = False,
) -> str:
    """The structure as an SVG string; each box is a group of class ``layer`` with ``data-count``.

    Args:
        layers: hidden layers, in order.
        iterations: T.
        facts: short sentences below the structure ("alpha 1", "2 of 8 layers run").
        inputs, outputs: names of the task's inputs and outputs.
        title, subtitle: text above the structure.
        ordered: a window gives the order of layers a meaning.
    """
    if not layers:
        return empty("This H-Model has no hidden layers.")
    boxes = fold_layers(layers, ordered)
    columns = min(len(boxes), _PER_ROW)
    rows = -(-len(boxes) // _PER_ROW)
    frame_width = columns * _BOX_WIDTH + (columns - 1) * _GAP + 2 * _GAP + 4
    frame_height = 22 + rows * (_BOX_HEIGHT + _GAP) + 6
    width = max(frame_width + 2 * (MARGIN + _LANE), _LEAST_WIDTH)
    title, subtitle = one_line(title), one_line(subtitle)
    head = headline_height(title, subtitle)
    frame_top = head + _PILL_HEIGHT + 26
    frame_bottom = frame_top + frame_height
    under = frame_bottom + 26 + _PILL_HEIGHT
    lines = wrapped([one_line(fact, 200) for fact in facts], width - 2 * MARGIN)
    families = families_of(box.family for box in boxes)
    height = under + 14 + 16 * len(lines) + 22

    total = sum(box.count for box in boxes)
    drawing = Drawing(width, height, f"{title or 'H-Model'}: {total} hidden layers, {iterations} iterations")
    draw_headline(drawing, title, subtitle)

    left = (width - frame_width) / 2
    _draw_paths(
        drawing, left, frame_width, (head + _PILL_HEIGHT, frame_top, frame_bottom, frame_bottom + 26), iterations
    )
    _draw_pill(drawing, inputs, left, head, frame_width)
    _draw_pill(drawing, outputs, left, frame_bottom + 26, frame_width)
    drawing.rect(left, frame_top, frame_width, frame_height, "frame fill-panel stroke-muted", rx=8)
    words = f"{total} hidden layer{'s' if total != 1 else ''}" + (", in order" if ordered else "")
    drawing.text(left + _GAP + 2, frame_top + 15, words, "fill-muted", size=10)
    for place, box in enumerate(boxes):
        row, column = divmod(place, _PER_ROW)
        x = left + _GAP + 2 + column * (_BOX_WIDTH + _GAP)
        _draw_layer(drawing, box, x, frame_top + 22 + row * (_BOX_HEIGHT + _GAP))
    for place, line in enumerate(lines):
        drawing.text(MARGIN, under + 20 + 16 * place, line, "fill-ink", size=11)
    draw_families(drawing, families, under + 20 + 16 * len(lines))
    return drawing.svg()


def _draw_layer(drawing: Drawing, box: LayerMark, x: float, y: float) -> None:
    role = family_role(box.family)
    name, detail = one_line(box.name, 80), one_line(box.detail, 80)
    words = [f"{box.count} x {name}" if box.count > 1 else name, box.family]
    words += [word for word in (detail, box.title) if word]
    with drawing.group("layer", title="\n".join(words), data_count=str(box.count)):
        if box.count > 1:
            drawing.rect(x + 3, y + 3, _BOX_WIDTH - 3, _BOX_HEIGHT - 3, f"fill-{role}-soft stroke-{role} twin", rx=4)
        drawing.rect(x, y, _BOX_WIDTH - 3, _BOX_HEIGHT - 3, f"fill-{role}-soft stroke-{role}", rx=4)
        base = y + (17 if detail else 22)
        drawing.path(family_glyph(box.family, x + 13, base - 4, 4.5), f"fill-{role}")
        badge = f"×{box.count}" if box.count > 1 else ""
        room = _BOX_WIDTH - 34 - (text_width(badge, 11) + 6 if badge else 0)
        drawing.text(x + 23, base, shorten(name, room, 11), "fill-ink strong", size=11)
        if badge:
            drawing.text(x + _BOX_WIDTH - 10, base, badge, f"fill-{role} strong", size=11, anchor="end")
        drawing.text(x + 23, y + 30, shorten(detail, _BOX_WIDTH - 34, 9), "fill-muted", size=9)


def _draw_pill(drawing: Drawing, names: Sequence[str], left: float, top: float, width: float) -> None:
    """All inputs, or all outputs, in one box."""
    words = ", ".join(one_line(name, 60) for name in names)
    drawing.rect(left, top, width, _PILL_HEIGHT, "fill-panel stroke-muted", title=words, rx=_PILL_HEIGHT / 2)
    middle, shown = left + width / 2, shorten(words, width - 20, 11)
    drawing.text(middle, top + 15, shown, "fill-ink", size=11, anchor="middle")


def _draw_paths(
    drawing: Drawing, left: float, width: float, levels: tuple[float, float, float, float], iterations: int
) -> None:
    """Arrows: inputs to layers, layers to layers, layers to outputs, and inputs to outputs at the left."""
    above, top, bottom, below = levels
    middle, right = left + width / 2, left + width
    for start, end in ((above, top), (bottom, below)) if iterations else ():
        drawing.line(middle, start, middle, end - 6, "stroke-ink", stroke_width=1.4)
        drawing.path(f"M{number(middle)},{number(end - 1)}l-3.5,-6h7Z", "fill-ink")
    direct = left - _LANE * 0.55
    height = _PILL_HEIGHT / 2
    corners = [(left, above - height), (direct, above - height), (direct, below + height), (left - 6, below + height)]
    drawing.path(
        polyline(corners),
        "direct hollow stroke-muted",
        title="messages of inputs to outputs directly",
        stroke_width=1.2,
        stroke_dasharray="4 3",
    )
    tip = below + height
    drawing.path(polyline([(left - 1, tip), (left - 7, tip - 3.5), (left - 7, tip + 3.5)]) + "Z", "fill-muted")
    words = f"T = {iterations}"
    turn = right + _LANE * 0.55
    if iterations > 1:
        title = f"outputs of layers are their inputs in the next of {iterations} iterations"
        lane = [(right, bottom - 14), (turn, bottom - 14), (turn, top + 14), (right + 6, top + 14)]
        drawing.path(polyline(lane), "loop hollow stroke-ink", title=title, stroke_width=1.4)
        tip = top + 14
        drawing.path(polyline([(right + 1, tip), (right + 7, tip - 3.5), (right + 7, tip + 3.5)]) + "Z", "fill-ink")
    drawing.text(
        (turn if iterations > 1 else right) + 12,
        (top + bottom) / 2,
        words,
        "fill-ink strong",
        size=11,
        anchor="middle",
        turned=True,
    )
