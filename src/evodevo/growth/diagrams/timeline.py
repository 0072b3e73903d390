"""Timeline of a zoo: one lane per module from birth to removal, as thick as its value at each probe.

Every lane has a colour of its own, the glyph at its name that of its family; lanes at 0 throughout are counted only.
Time runs to the right. Thin upright lines are events. Where a module begins, a lettered disc shows its kind of birth,
and curves lead to it from its parents; where it ends there is a cross, and a dotted curve leads to its replacement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from evodevo.growth.diagrams.edit_glyphs import REPLACED, draw_sign, draw_signs, words_of
from evodevo.growth.diagrams.lanes import EventMark, Lane, course, family_order
from evodevo.report.charts.axes import Axis, Scale
from evodevo.report.charts.captions import MARGIN, draw_families, draw_headline, families_of, headline_height
from evodevo.report.charts.glyphs import family_glyph
from evodevo.report.charts.numbers import show, tick_texts
from evodevo.report.palette import MODULE_COLOURS, family_role, module_role
from evodevo.report.svg import Drawing, empty, finite, number, one_line, shorten, text_width

_DASHES = {"grow": "", "hybridise": "6 3"}
_LANE, _BAND, _THIN = 30.0, 20.0, 1.6
_LABELS, _RIGHT = 172.0, 60.0
_WIDTH = 940.0


def growth_timeline(
    lanes: Sequence[Lane],
    events: Sequence[EventMark],
    end: float,
    measure: str,
    over: Axis,
    title: str = "",
    subtitle: str = "",
) -> str:
    """The timeline as an SVG string; each lane is a group of class ``lane`` with ``data-id``.

    Args:
        lanes: Lanes of all modules; children are drawn below their first parent. Those that are 0 throughout are only
            counted, and of more than there are colours the first are drawn.
        events: Events in order.
        end: End of the training, in the unit of ``over``.
        measure: Name of the value that the thickness shows ("contribution").
        over: Axis of time.
        title, subtitle: Texts above the drawing.
    """
    if not lanes:
        return empty("No module was recorded.", _WIDTH)
    order = family_order({lane.id: tuple(lane.parents) for lane in lanes})
    by_id = {lane.id: lane for lane in lanes}
    silent = _silent(lanes)
    heard = [by_id[name] for name in order if name not in silent]
    shown = heard[:MODULE_COLOURS]
    # Where there are enough, the colour of a module is the same in every drawing of its zoo.
    numbered = lanes if len(lanes) <= MODULE_COLOURS else shown
    colours = {lane.id: module_role(place) for place, lane in enumerate(numbered)}
    values = [value for lane in shown for point in lane.points if (value := finite(point.value)) is not None]
    top_value = max(values, default=0.0)
    title, subtitle = one_line(title), one_line(subtitle)
    top = headline_height(title, subtitle) + 22
    bottom = top + _LANE * len(shown)
    operations = _operations(shown)
    known = any(value > 0 for value in values)
    families = families_of(lane.family for lane in shown)
    height = bottom + 40 + 20 * (bool(operations) + known) + (20 if families else 0) + 6
    modules = f"{len(lanes)} module{'' if len(lanes) == 1 else 's'}"
    words = f"{title or 'zoo'}: {modules}, {len(events)} event{'' if len(events) == 1 else 's'}"
    drawing = Drawing(_WIDTH, height, words)
    draw_headline(drawing, title, subtitle)
    more = [f"the first {len(shown)} of {len(heard)} modules"] if len(shown) < len(heard) else []
    if silent:
        more.append(f"{len(silent)} of {len(lanes)} modules, 0 throughout, left out")
    drawing.text(_WIDTH - MARGIN, top - 24, "; ".join(more), "fill-muted", 10, "end")
    x = Scale(0.0, max(finite(end) or 0.0, 1e-9), _LABELS, _WIDTH - _RIGHT)
    middles = {lane.id: top + _LANE * (place + 0.5) for place, lane in enumerate(shown)}
    _draw_time(drawing, x, top, bottom, over)
    _draw_events(drawing, events, x, top, bottom)
    for lane in shown:
        _draw_lane(drawing, lane, x, middles[lane.id], top_value, colours[lane.id])
    for lane in shown:
        _draw_ties(drawing, lane, x, middles)
    for lane in shown:
        _draw_marks(drawing, lane, x, middles[lane.id], colours[lane.id])
    y = bottom + 56
    if operations:
        draw_signs(drawing, operations, MARGIN, y)
        y += 20
    if known:
        _draw_scale(drawing, measure, top_value, y)
        y += 20
    draw_families(drawing, families, y)
    return drawing.svg()


def _silent(lanes: Sequence[Lane]) -> set[str]:
    """Ids of the lanes whose values are 0 throughout; none where all are, since nothing would be left."""
    # Also of a value that is too large to be drawn it is known that it is not 0.
    values = {
        lane.id: [point.value for point in lane.points if point.value is not None and math.isfinite(point.value)]
        for lane in lanes
    }
    silent = {name for name, each in values.items() if each and max(each) <= 0}
    return silent if len(silent) < len(lanes) else set()


def _draw_time(drawing: Drawing, x: Scale, top: float, bottom: float, over: Axis) -> None:
    drawing.line(x.start, bottom, x.end, bottom, "stroke-muted")
    ticks = x.ticks(8)
    texts, symbol = tick_texts(ticks, over.unit)
    for value, text in zip(ticks, texts, strict=True):
        drawing.line(x(value), bottom, x(value), bottom + 4, "stroke-muted")
        drawing.text(x(value), bottom + 16, text, "fill-muted", 10, "middle")
    name = f"{over.name} ({symbol})" if symbol else over.name
    drawing.text((x.start + x.end) / 2, bottom + 31, shorten(one_line(name, 120), 400, 11), "fill-ink", 11, "middle")


def _draw_events(drawing: Drawing, events: Sequence[EventMark], x: Scale, top: float, bottom: float) -> None:
    free = 0.0
    for event in events:
        place, label = x(event.x), str(event.number)
        with drawing.group("event", title=f"event {event.number}\n{event.words}".strip()):
            drawing.line(place, top - 4, place, bottom, "stroke-faint", stroke_width=1.5)
            if place - text_width(label, 10) / 2 > free:
                drawing.text(place, top - 8, label, "fill-muted", 10, "middle")
                free = place + text_width(label, 10) / 2 + 3
    if events:
        drawing.text(x.start - 8, top - 8, "event", "fill-muted", 10, "end")


def _draw_lane(drawing: Drawing, lane: Lane, x: Scale, y: float, most: float, role: str) -> None:
    name, archetype = one_line(lane.id, 80), one_line(lane.archetype, 80)
    until = x.high if lane.end is None else lane.end
    words = "\n".join(word for word in (name, archetype if archetype != name else "", lane.words) if word)
    with drawing.group("lane", title=words, data_id=name):
        drawing.path(family_glyph(lane.family, MARGIN + 5, y, 4.5), f"fill-{family_role(lane.family)}")
        drawing.text(MARGIN + 15, y + 4, shorten(name, _LABELS - MARGIN - 24, 11), "fill-ink", 11)
        places = course(lane, until)
        if most > 0 and any(value > 0 for _, value in places):
            above = [(x(at), y - _thick(value, most) / 2) for at, value in places]
            below = [(x(at), y + _thick(value, most) / 2) for at, value in reversed(places)]
            data = "M" + "L".join(f"{number(a)},{number(b)}" for a, b in [*above, *below]) + "Z"
            drawing.path(
                data, f"band fill-{role} stroke-{role}", fill_opacity=0.3, stroke_width=1, stroke_linejoin="round"
            )
        else:
            drawing.line(x(lane.start), y, x(until), y, f"band stroke-{role}", stroke_width=_THIN)
        if lane.end is None:
            last = next((v for p in reversed(lane.points) if (v := finite(p.value)) is not None), None)
            drawing.text(x.end + 8, y + 4, "" if last is None else show(last, digits=2), "fill-ink", 10)
    for point in lane.points:
        place = f"{name}\n{point.words}" if point.words else name
        drawing.element("circle", f"fill-{role}", place, cx=x(point.x), cy=y, r=1.8)


def _thick(value: float, most: float) -> float:
    return max(_BAND * min(value / most, 1.0), _THIN)


def _draw_ties(drawing: Drawing, lane: Lane, x: Scale, middles: Mapping[str, float]) -> None:
    """Draw the curves from its parents, and to its heir."""
    y, at = middles[lane.id], x(lane.start)
    for parent in dict.fromkeys(lane.parents):
        if parent in middles and parent != lane.id:
            begin = max(at - 26, x.start)
            data = f"M{number(begin)},{number(middles[parent])}C{number(at)},{number(middles[parent])} "
            data += f"{number(begin)},{number(y)} {number(at - 7)},{number(y)}"
            dash = _DASHES.get(lane.birth, "")
            more: dict[str, str | float] = {"stroke_dasharray": dash} if dash else {}
            drawing.path(data, "tie hollow stroke-ink", f"{parent} → {lane.id}", stroke_width=1.2, **more)
            drawing.element("circle", "fill-ink", cx=begin, cy=middles[parent], r=2)
    if lane.heir in middles and lane.end is not None:
        here, there = x(lane.end), middles[lane.heir]
        bulge = here + 24
        data = f"M{number(here + 5)},{number(y)}C{number(bulge)},{number(y)} "
        data += f"{number(bulge)},{number(there)} {number(here + 7)},{number(there)}"
        words = f"{lane.id} gave its place to {lane.heir}"
        drawing.path(data, "tie hollow stroke-failed", words, stroke_width=1.2, stroke_dasharray="2 3")


def _draw_marks(drawing: Drawing, lane: Lane, x: Scale, y: float, role: str) -> None:
    for at in lane.again:
        with drawing.group("again", title=f"{lane.id} warms up again"):
            draw_sign(drawing, "rewarm", x(at), y, role)
    for at, operation in lane.enlarged:
        with drawing.group("enlarged", title=f"{lane.id}: {words_of(operation)}"):
            draw_sign(drawing, operation, x(at), y, role)
    if lane.birth:
        with drawing.group("birth", title=f"{lane.id}: {words_of(lane.birth)}"):
            draw_sign(drawing, lane.birth, x(lane.start), y, role)
    if lane.end is not None:
        words = f"gave its place to {lane.heir}" if lane.heir else "was pruned"
        with drawing.group("death", title=f"{lane.id} {words}"):
            draw_sign(drawing, "prune", x(lane.end), y)


def _operations(lanes: Sequence[Lane]) -> set[str]:
    """The operations that the legend explains."""
    operations = {lane.birth for lane in lanes} | {operation for lane in lanes for _, operation in lane.enlarged}
    operations |= {"prune"} if any(lane.end is not None for lane in lanes) else set()
    operations |= {REPLACED} if any(lane.heir for lane in lanes) else set()
    return (operations | {"rewarm"} if any(lane.again for lane in lanes) else operations) - {""}


def _draw_scale(drawing: Drawing, measure: str, most: float, y: float) -> None:
    """Draw the scale of the thickness."""
    drawing.path(
        f"M{number(MARGIN)},{number(y - 4)}L{number(MARGIN + 40)},{number(y - 4 - _BAND / 4)}"
        f"V{number(y - 4 + _BAND / 4)}Z",
        "fill-memoryless-soft stroke-memoryless",
    )
    name = shorten(one_line(measure, 60), 240, 10)
    words = f"thickness: {name}, 0 to {show(most, digits=3)}; a number at the right is the last one"
    drawing.text(MARGIN + 48, y, words, "fill-muted", 10)
