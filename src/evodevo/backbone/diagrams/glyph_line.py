"""A genome on one line: one cell per LIV, glyph by family (hollow: differential form), tint by sharing group.

One strip names an individual at a glance; many below each other make motifs seen, individual by individual
(the view behind the population averages of the paper's Fig. 5.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.backbone.diagrams.genome import Arc, LivMark, sharing_groups
from evodevo.report.charts.glyphs import ASCII_GLYPHS, TEXT_GLYPHS, family_glyph
from evodevo.report.palette import family_role, group_role
from evodevo.report.svg import Drawing, empty, one_line, shorten, text_width


@dataclass(frozen=True)
class StripRow:
    """One individual of ``population_strips``: its cells and the text before and after them."""

    label: str
    livs: Sequence[LivMark]
    arcs: Sequence[Arc] = ()
    note: str = ""
    title: str = ""


def text_strip(livs: Sequence[LivMark], ascii_only: bool = False) -> str:
    """One character per LIV, for terminals: ■ attention, ● recurrence, ▲ convolution, ▬ memoryless, ◆ other, hollow
    for differential; letters A R C M X, small for differential, with ``ascii_only``. Holds no text of the genome.
    """
    glyphs = ASCII_GLYPHS if ascii_only else TEXT_GLYPHS
    return "".join(glyphs[family_role(liv.family)][liv.differential] for liv in livs)


def population_strips(rows: Sequence[StripRow], note_heading: str = "") -> str:
    """Strips below each other. Cells of a sharing group are tinted; one path per family and row keeps it small."""
    if not rows:
        return empty("No genomes to show.")
    notes = [shorten(one_line(row.note, 120), 240, 10) for row in rows]
    labels = [shorten(one_line(row.label, 80), 110, 10, mono=True) for row in rows]
    left = max(text_width(label, 10, mono=True) for label in labels) + 18
    cells = max(len(row.livs) for row in rows)
    heading = shorten(one_line(note_heading, 120), 240, 10)
    right = max(text_width(note, 10) for note in [*notes, heading]) + 20
    pitch, cell, top = 16.0, 13.0, 30.0
    drawing = Drawing(left + cells * cell + right, top + pitch * len(rows) + 8, f"{len(rows)} genomes, one per row")
    for position in range(0, cells, 4 if cells > 12 else 1):
        drawing.text(left + (position + 0.5) * cell, top - 8, position + 1, "fill-muted", size=9, anchor="middle")
    if heading:
        drawing.text(left + cells * cell + 10, top - 8, heading, "fill-muted", size=10)
    for index, row in enumerate(rows):
        y = top + index * pitch
        with drawing.group("strip", title=row.title or row.label):
            drawing.text(left - 8, y + 11, labels[index], "fill-muted mono", size=10, anchor="end")
            _draw_cells(drawing, row, left, y, cell)
            drawing.text(left + cells * cell + 10, y + 11, notes[index], "fill-ink", size=10)
    return drawing.svg()


def _draw_cells(drawing: Drawing, row: StripRow, left: float, y: float, cell: float) -> None:
    tints: dict[str, str] = {}
    for position, group in enumerate(sharing_groups(len(row.livs), row.arcs)):
        tint = "fill-panel" if group is None else f"fill-{group_role(group)}"
        tints[tint] = tints.get(tint, "") + f"M{left + position * cell + 0.5:g},{y + 1:g}h{cell - 1:g}v14h{1 - cell:g}z"
    for tint, data in tints.items():
        drawing.path(data, tint)
    glyphs: dict[str, str] = {}
    for position, liv in enumerate(row.livs):
        role = family_role(liv.family)
        fill = f"hollow stroke-{role}" if liv.differential else f"fill-{role} stroke-{role}"
        glyphs[fill] = glyphs.get(fill, "") + family_glyph(liv.family, left + (position + 0.5) * cell, y + 8, 3.8)
    for fill, data in glyphs.items():
        drawing.path(data, fill, stroke_width=1.2)
