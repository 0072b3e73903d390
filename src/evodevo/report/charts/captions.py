"""The text around a drawing of an architecture: its title above, facts and the legend of families below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from evodevo.report.charts.glyphs import family_glyph
from evodevo.report.palette import FAMILIES, family_role
from evodevo.report.svg import Drawing, one_line, shorten, text_width
from evodevo.report.wrapping import wrap

MARGIN = 14.0
LINE = 16.0


def headline_height(title: str, subtitle: str, width: float = math.inf) -> float:
    """Room that ``draw_headline`` needs, with a little air below.

    Args:
        title, subtitle: texts; empty for none.
        width: width in which they are wrapped, in pixels; infinite where they are shortened.
    """
    lines = len(_title_lines(title, width)) + len(wrap(subtitle, width - 2 * MARGIN, 11)) - 2
    return 12.0 + (20.0 if title else 0.0) + (LINE if subtitle else 0.0) + LINE * lines


def draw_headline(drawing: Drawing, title: str, subtitle: str, width: float = math.inf) -> None:
    """The title and, smaller, the subtitle; whole in their tooltips. They are wrapped in ``width`` pixels where that is
    given, else shortened."""
    room = drawing.width - 2 * MARGIN
    y = 22.0
    if title := one_line(title):
        lines = [shorten(title, room, 14)] if math.isinf(width) else _title_lines(title, width)
        drawing.lines(MARGIN, y, lines, "fill-ink strong", 14, title=title, step=LINE)
        y += LINE * (len(lines) - 1)
    if subtitle := one_line(subtitle):
        y += 17 if title else -2
        lines = [shorten(subtitle, room, 11)] if math.isinf(width) else wrap(subtitle, width - 2 * MARGIN, 11)
        drawing.lines(MARGIN, y, lines, "fill-muted", 11, title=subtitle, step=LINE)


def _title_lines(title: str, width: float) -> list[str]:
    """In a size that allows for bold letters."""
    return wrap(title, width - 2 * MARGIN, 16)


def wrapped(facts: Sequence[str], width: float, size: float = 11, between: str = " · ") -> list[str]:
    """Facts, separated by dots, in lines that fit; a fact that is longer than a line is wrapped itself."""
    lines: list[str] = []
    for fact in facts:
        joined = f"{lines[-1]}{between}{fact}" if lines else fact
        if lines and text_width(joined, size) <= width:
            lines[-1] = joined
        else:
            lines += wrap(fact, width, size)
    return lines


def families_of(names: Iterable[str]) -> list[str]:
    """The families among the names, in the palette's order."""
    roles = {family_role(name) for name in names}
    return [family for family in FAMILIES if family in roles]


def draw_families(drawing: Drawing, families: Sequence[str], y: float) -> None:
    """One glyph and name per family, on the baseline ``y``."""
    x = MARGIN
    for family in families:
        drawing.path(family_glyph(family, x + 5, y - 3.5, 4.5), f"fill-{family}")
        drawing.text(x + 15, y, family, "fill-muted", size=10)
        x += text_width(family, 10) + 26


def families_width(families: Sequence[str]) -> float:
    """Width that ``draw_families`` takes, in pixels, margins included."""
    return 2 * MARGIN + sum(text_width(family, 10) + 26 for family in families)
