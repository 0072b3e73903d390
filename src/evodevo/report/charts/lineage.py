"""The lineage of individuals: one column per generation, up to two parents per child, ancestors never dropped.

Rows within a column are ordered by the mean row of the parents (barycentre sweeps), which keeps families together
and is deterministic. Colour and dash of an edge show the operation that made the child.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evodevo.report.charts import glyphs as marks
from evodevo.report.palette import generation_role
from evodevo.report.svg import Drawing, empty, number, text_width
from evodevo.report.wrapping import least_width, wrap

_SWEEPS = 6
_EDGES: dict[str, tuple[str, str]] = {
    "crossover": ("attention", ""),
    "mutation": ("recurrence", "5 3"),
    "crossover+mutation": ("other", "8 3 2 3"),
    "attraction": ("convolution", "2 3"),
}
_OTHER_EDGE = ("memoryless", "1 2")
_LABEL, _STEP, _LABEL_LINES = 8.5, 9.5, 3
"""Of labels: font size and distance of lines in pixels, and the lines for which a wider column is sought."""
_AIR, _WIDEST = 18.0, 150.0
"""Pixels between the labels of two columns, and from one column to the next at most, where nobody says how many."""


@dataclass(frozen=True)
class LineageNode:
    """One individual; ``parents`` are ids, those not among the nodes are not drawn."""

    id: str
    generation: int
    parents: Sequence[str] = ()
    operation: str = "initial"
    state: Literal["front", "dominated", "failed"] = "dominated"
    label: str = ""
    title: str = ""


def ancestors(nodes: Sequence[LineageNode], individual: str) -> set[str]:
    """``individual`` and all its ancestors; empty when it is not among the nodes."""
    parents = {node.id: node.parents for node in nodes}
    names: set[str] = set()
    waiting = [individual] if individual in parents else []
    while waiting:
        current = waiting.pop()
        if current not in names:
            names.add(current)
            waiting += [parent for parent in parents[current] if parent in parents]
    return names


def lineage_layout(nodes: Sequence[LineageNode]) -> dict[str, tuple[int, int]]:
    """Column and row for every id: columns are the generations that occur, rows are counted from the top."""
    generations = sorted({node.generation for node in nodes})
    columns = {generation: index for index, generation in enumerate(generations)}
    members: list[list[LineageNode]] = [[] for _ in generations]
    for node in nodes:
        members[columns[node.generation]].append(node)
    neighbours: dict[str, list[str]] = {node.id: [] for node in nodes}
    for node in nodes:
        for parent in node.parents:
            if parent in neighbours and parent != node.id:
                neighbours[node.id].append(parent)
                neighbours[parent].append(node.id)
    # Rows as shares of the column, so that columns of different lengths compare.
    place = {node.id: (row + 0.5) / len(column) for column in members for row, node in enumerate(column)}
    for sweep in range(_SWEEPS):
        for column in members if sweep % 2 == 0 else reversed(members):
            pull = {
                node.id: sum(place[other] for other in neighbours[node.id]) / len(neighbours[node.id])
                if neighbours[node.id]
                else place[node.id]
                for node in column
            }
            column.sort(key=lambda node: pull[node.id])
            place.update({node.id: (row + 0.5) / len(column) for row, node in enumerate(column)})
    return {node.id: (index, row) for index, column in enumerate(members) for row, node in enumerate(column)}


def lineage_chart(nodes: Sequence[LineageNode], highlight: str = "", pitch: float = 0.0) -> str:
    """The ancestry as an SVG string; labels are never cut. ``highlight`` names one individual: its ancestors and the
    edges between them are drawn strong, all others pale. ``pitch`` is the width of a generation; 0 chooses it by their
    number and labels."""
    unique = list({node.id: node for node in nodes}.values())
    if not unique:
        return empty("No individuals, so no ancestry.")
    layout = lineage_layout(unique)
    columns = max(column for column, _ in layout.values()) + 1
    rows = max(row for _, row in layout.values()) + 1
    labels = [node.label for node in unique if node.label]
    if not pitch:
        pitch = min(max(900 / max(columns, 1), 74 if labels else 46), _WIDEST)
        pitch = _AIR + least_width(labels, _LABEL_LINES, _LABEL, pitch - _AIR, _WIDEST - _AIR, mono=True)
    blocks = {node.id: wrap(node.label, pitch - _AIR, _LABEL, mono=True) for node in unique if node.label}
    more = _STEP * (max(map(len, blocks.values()), default=1) - 1)
    line = 25.0 + more if labels else 16.0
    widest = max((text_width(one, _LABEL, mono=True) for block in blocks.values() for one in block), default=0.0)
    left, top = max(36.0, widest / 2 + 4), 70.0 + more
    width = max(2 * left + (columns - 1) * pitch, 420.0)
    height = top + (rows - 1) * line + 26
    sizes: dict[int, int] = {}
    for column, _ in layout.values():
        sizes[column] = sizes.get(column, 0) + 1

    def at(individual: str) -> tuple[float, float]:
        column, row = layout[individual]
        # Shorter columns are centred.
        return left + column * pitch, top + (row + (rows - sizes[column]) / 2) * line

    chosen = ancestors(unique, highlight)
    generations = sorted({node.generation for node in unique})
    words = f"Ancestry of {len(unique)} individuals over {len(generations)} generations"
    drawing = Drawing(width, height, words)
    for index, generation in enumerate(generations):
        drawing.text(left + index * pitch, 46, f"gen {generation}", "fill-muted", 10, "middle")

    by_id = {node.id: node for node in unique}
    edges = [(p, node.id) for node in unique for p in node.parents if p in by_id and p != node.id]
    for parent, child in sorted(edges, key=lambda edge: edge[0] in chosen and edge[1] in chosen):
        strong = parent in chosen and child in chosen
        _draw_edge(drawing, at(parent), at(child), by_id[child], parent, strong, bool(chosen) and not strong)
    for node in unique:
        pale = bool(chosen) and node.id not in chosen
        _draw_node(drawing, node, blocks.get(node.id, []), *at(node.id), generations[-1], pale, node.id == highlight)
    _draw_legend(drawing, {node.operation for node in unique if any(p in by_id for p in node.parents)}, width)
    return drawing.svg()


def _draw_edge(
    drawing: Drawing,
    start: tuple[float, float],
    end: tuple[float, float],
    child: LineageNode,
    parent: str,
    strong: bool,
    pale: bool,
) -> None:
    role, dash = _EDGES.get(child.operation, _OTHER_EDGE)
    (x1, y1), (x2, y2) = start, end
    if x1 == x2:  # one generation, as in a steady state: an arc beside the column
        out, back = 26.0, -26.0
    else:
        out = back = (x2 - x1) / 2
    data = (
        f"M{number(x1)},{number(y1)}C{number(x1 + out)},{number(y1)} "
        f"{number(x2 - back)},{number(y2)} {number(x2)},{number(y2)}"
    )
    more: dict[str, str | float] = {"stroke_dasharray": dash} if dash else {}
    drawing.path(
        data,
        f"edge hollow stroke-{role}",
        title=f"{parent} → {child.id}\n{child.operation}",
        stroke_width=2.4 if strong else 1.0,
        stroke_opacity="1" if strong else "0.16" if pale else "0.55",
        **more,
    )


def _draw_node(
    drawing: Drawing,
    node: LineageNode,
    label: Sequence[str],
    x: float,
    y: float,
    last: int,
    pale: bool,
    target: bool,
) -> None:
    words = "\n".join(
        filter(None, [node.id, f"generation {node.generation}, {node.operation}, {node.state}", node.title])
    )
    more: Mapping[str, str | float] = {"opacity": "0.35"} if pale else {}
    with drawing.group(f"node {node.state}", title=words, **more):
        role = generation_role(node.generation, last)
        if target:
            drawing.element("circle", "hollow stroke-ink", cx=x, cy=y, r=9, stroke_width=1.5)
        if node.state == "failed":
            drawing.path(marks.circle(x, y, 5), "fill-paper")
            drawing.path(marks.cross(x, y, 3.6), "hollow stroke-failed", stroke_width=1.7)
        elif node.state == "front":
            drawing.path(marks.diamond(x, y, 6.5), f"fill-{role} stroke-ink", stroke_width=1.3)
        else:
            drawing.path(marks.circle(x, y, 4.2), f"fill-{role} stroke-paper", stroke_width=1)
        if label:
            # Above the marker: edges arrive and leave beside it.
            first = y - (12 if target else 8) - _STEP * (len(label) - 1)
            drawing.lines(x, first, label, "fill-muted mono", _LABEL, "middle", step=_STEP)


def _draw_legend(drawing: Drawing, operations: set[str], width: float) -> None:
    x = 12.0
    known = [name for name in _EDGES if name in operations]
    entries = [(name, *_EDGES[name]) for name in known]
    entries += [("other operation", *_OTHER_EDGE)] if operations - set(_EDGES) else []
    for name, role, dash in entries:
        more: dict[str, str | float] = {"stroke_dasharray": dash} if dash else {}
        if x + 30 + text_width(name, 10.5) > width:
            break
        drawing.line(x, 16, x + 24, 16, f"stroke-{role}", stroke_width=1.8, **more)
        drawing.text(x + 30, 20, name, "fill-muted", 10.5)
        x += 30 + text_width(name, 10.5) + 14
