"""The section of a search's page on motifs."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evodevo.backbone.motifs.count import ClassMotif, DistanceCount, SharingMotif
from evodevo.backbone.motifs.reading import search_motifs
from evodevo.backbone.motifs.rows import (
    CLASS_HEADINGS,
    SHARING_HEADINGS,
    THINGS,
    class_rows,
    connection,
    sequence,
    sharing_rows,
)
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.bars import Measure, bars_beside
from evodevo.report.charts.curves import Series, line_chart
from evodevo.report.html import Content, figure, paragraph, section, table
from evodevo.runs.report.view import ReportView

DRAWN = 16
NAME_WIDTH = 330
"""Pixels; four classes fit."""
SAID = (
    "By chance: for sequences of classes, the same LIVs of each genome in random order; for connections, as many of "
    "the kind, class and groups in each genome between random LIVs of the class. Position: 0 is the first LIV, 1 the "
    "last; the middle of a sequence, the owner of a connection. Genomes of one population are relatives: the numbers "
    "describe it, and test nothing."
)


def motif_section(view: ReportView) -> Element | None:
    found = search_motifs(view.run)
    if found is None:
        return None
    record = found.record
    words = f"Of {record.genomes} genomes, the population after generation {found.generation}. "
    content: list[Content] = [paragraph(words + SAID)]
    classes, sharing = record.classes[:DRAWN], record.sharing[:DRAWN]
    if classes:
        svg = bars_beside([sequence(one.classes) for one in classes], _measures(classes), NAME_WIDTH)
        numbers = table(CLASS_HEADINGS, class_rows(record.classes), range(1, 7))
        content.append(figure(svg, "Sequences of classes that exceed chance most.", numbers))
    if sharing:
        svg = bars_beside([connection(one) for one in sharing], _measures(sharing), NAME_WIDTH)
        numbers = table(SHARING_HEADINGS, sharing_rows(record.sharing), range(1, 8))
        content.append(figure(svg, "Connections that exceed chance most, with the classes that they span.", numbers))
        content.append(_distance_figure(record.distances))
    else:
        content.append(paragraph("No genome of this population shares anything."))
    series = [
        Series(THINGS[kind], [(float(at), counts[kind]) for at, counts in found.connections.items()]) for kind in THINGS
    ]
    if any(value for one in series for _, value in one.points):
        rows = [[str(at), *(f"{counts[kind]:.2f}" for kind in THINGS)] for at, counts in found.connections.items()]
        svg = line_chart(series, Axis("generation"), Axis("connections per genome"), include_zero=True)
        numbers = table(["generation", *THINGS.values()], rows, range(3))
        content.append(figure(svg, "Mean number of connections per genome of the population.", numbers))
    return section("motifs", "Motifs", *content)


def _measures(motifs: Sequence[ClassMotif] | Sequence[SharingMotif]) -> list[Measure]:
    full = max(max(one.count, one.expected) for one in motifs)
    return [
        Measure("count", [float(one.count) for one in motifs], full=full),
        Measure("by chance", [one.expected for one in motifs], full=full),
        Measure("position", [one.position for one in motifs], full=1.0),
    ]


def _distance_figure(distances: Sequence[DistanceCount]) -> Element:
    series = []
    for kind, name in THINGS.items():
        own = [row for row in distances if row.kind == kind]
        if own:
            series.append(Series(name, [(float(row.distance), float(row.count)) for row in own]))
            series.append(Series(f"{name}, by chance", [(float(row.distance), row.expected) for row in own]))
    rows = [[THINGS[row.kind], str(row.distance), str(row.count), f"{row.expected:.2f}"] for row in distances]
    numbers = table(["shared", "distance", "count", "by chance"], rows, range(1, 4))
    svg = line_chart(series, Axis("distance", "LIVs"), Axis("connections"), include_zero=True)
    return figure(svg, "How far connections reach, from owner to user.", numbers)
