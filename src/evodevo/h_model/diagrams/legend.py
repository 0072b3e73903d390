"""The legend of a routing diagram: its lines and glyphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.h_model.diagrams.flow import RoutingGraph
from evodevo.h_model.diagrams.layout import Sheet
from evodevo.report.charts import glyphs as marks
from evodevo.report.palette import family_role
from evodevo.report.svg import Drawing, one_line, shorten, text_width

KIND_FAMILIES = {
    "transformer": "attention",
    "convolution": "convolution",
    "lstm": "recurrence",
    "mlp": "memoryless",
}
"""Kind of a layer -> operator family, whose colour and glyph it has; all other kinds are "other"."""
SMALL = 10.5
"""Font size of legends and remarks."""
CALLED = 0.005
"""A layer that is called for a smaller share of the samples counts as not called."""


def line_look(weight: float, dashed: bool = False) -> dict[str, str | float]:
    """Width and opacity of a connection of ``weight`` in [0, 1], dashed or not."""
    look: dict[str, str | float] = {"stroke_width": 0.5 + 3.0 * weight, "stroke_opacity": f"{0.12 + 0.88 * weight:.2f}"}
    return {**look, "stroke_dasharray": "5 3"} if dashed else look


@dataclass(frozen=True)
class LegendEntry:
    """One entry of the legend: a line of ``weight``, or the glyph of a family."""

    words: str
    role: str
    weight: float = 0.0
    dashed: bool = False
    family: str = ""
    faint: bool = False

    @property
    def width(self) -> float:
        return (28 if self.weight else 16) + text_width(self.words, SMALL) + 16


def legend_entries(flow: RoutingGraph, sheet: Sheet, names: tuple[str, str] | None) -> list[LegendEntry]:
    """Legend entries of one drawing; ``names`` are those of the two groups of a difference."""
    if names:
        entries = [
            LegendEntry(f"more in {names[0]}", "attention", 0.7),
            LegendEntry(f"more in {names[1]}", "recurrence", 0.7, True),
        ]
    else:
        entries = [LegendEntry(f"weight {weight:g}", "ink", weight) for weight in (0.25, 0.5, 1.0)]
    kinds: dict[str, list[str]] = {}
    for kind in dict.fromkeys(flow.kinds):
        kinds.setdefault(KIND_FAMILIES.get(kind, "other"), []).append(one_line(kind, 30).replace("_", "-"))
    entries += [
        LegendEntry(", ".join(names_of), family_role(family), family=family) for family, names_of in kinds.items()
    ]
    if (flow.called[: sheet.columns - 2] < CALLED).any():
        family = KIND_FAMILIES.get(flow.kinds[0], "other")
        entries.append(LegendEntry("not called", "muted", family=family, faint=True))
    return entries


def in_lines(entries: Sequence[LegendEntry], width: float) -> list[list[LegendEntry]]:
    """The entries in lines that fit."""
    lines: list[list[LegendEntry]] = [[]]
    for entry in entries:
        if lines[-1] and sum(other.width for other in lines[-1]) + entry.width > width + 16:
            lines.append([])
        lines[-1].append(entry)
    return lines


def draw_legend(drawing: Drawing, entries: Sequence[LegendEntry], y: float) -> None:
    """One line of the legend with its texts on the baseline ``y``."""
    x = 12.0
    for entry in entries:
        if entry.weight:
            look = line_look(entry.weight, entry.dashed)
            drawing.line(x, y - 4, x + 22, y - 4, f"stroke-{entry.role}", **look)
        else:
            classes = "hollow stroke-faint" if entry.faint else f"fill-{entry.role}"
            drawing.path(marks.family_glyph(entry.family, x + 5, y - 4, 4.5), classes, stroke_width=1.4)
        used = 28 if entry.weight else 16
        drawing.text(x + used, y, shorten(entry.words, drawing.width - x - used - 4, SMALL), "fill-muted", SMALL)
        x += entry.width
