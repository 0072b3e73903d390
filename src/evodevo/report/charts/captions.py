"""The text around a drawing of an architecture: its title above, facts and the legend of families below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evodevo.report.charts.glyphs import family_glyph
from evodevo.report.palette import FAMILIES, family_role
from evodevo.report.svg import Drawing, one_line, shorten, text_width

MARGIN = 14.0
LINE = 16.0


def headline_height(title: str, subtitle: str) -> float:
    """Room that ``draw_headline`` needs, with a little air below."""
    return 12.0 + (20.0 if title else 0.0) + (LINE if subtitle else 0.0)


def draw_headline(drawing: Drawing, title: str, subtitle: str) -> None:
    """The title and, smaller, the subtitle; whole in their tooltips."""
    room = drawing.width - 2 * MARGIN
    if title := one_line(title):
        drawing.text(MARGIN, 22, shorten(title, room, 14), "fill-ink strong", size=14, title=title)
    if subtitle := one_line(subtitle):
        y = 39 if title else 20
        drawing.text(MARGIN, y, shorten(subtitle, room, 11), "fill-muted", size=11, title=subtitle)


def wrapped(facts: Sequence[str], width: float, size: float = 11, between: str = " · ") -> list[str]:
    """Facts, separated by dots, in lines that fit."""
    lines: list[str] = []
    for fact in facts:
        joined = f"{lines[-1]}{between}{fact}" if lines else fact
        if lines and text_width(joined, size) <= width:
            lines[-1] = joined
        else:
            lines.append(shorten(fact, width, size))
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
