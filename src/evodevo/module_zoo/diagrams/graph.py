"""The graph of one module of a zoo, from what it reads at the left to what it answers at the right.

Boxes are nodes with parameters, tinted by family; small circles are sums and concatenations, which have none. A line
that passes by boxes is a residual connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from evodevo.report.charts.captions import (
    LINE,
    MARGIN,
    draw_families,
    draw_headline,
    families_of,
    families_width,
    headline_height,
    wrapped,
)
from evodevo.report.charts.glyphs import arrow_head, family_glyph
from evodevo.report.layered_layout import BoxSize, Layout, Point, layered
from evodevo.report.palette import family_role
from evodevo.report.svg import Drawing, empty, number, one_line, shorten, text_width

_HEIGHT, _PLAIN_HEIGHT = 38.0, 26.0
_JOINT = 18.0
_LEAST_WIDTH, _MOST_BOX = 260.0, 150.0
_SYMBOLS = {"sum": "+", "concat": "‖"}


@dataclass(frozen=True)
class NodeMark:
    """The facts of a node that a drawing needs.

    Attributes:
        id: unique name, used by edges.
        name: ``attention``; ``sum`` and ``concat`` are drawn as joints.
        family: ``attention``, ``recurrence``, ``convolution``, ``memoryless``, or another word.
        detail: sizes, in few characters.
        end: an end of the graph, drawn as a pill.
        title: the tooltip.
    """

    id: str
    name: str
    family: str = "other"
    detail: str = ""
    end: bool = False
    title: str = ""

    @property
    def joint(self) -> bool:
        """Whether it only brings together."""
        return self.name in _SYMBOLS


def module_graph_diagram(
    nodes: Sequence[NodeMark],
    edges: Sequence[tuple[str, str]],
    facts: Sequence[str] = (),
    title: str = "",
    subtitle: str = "",
) -> str:
    """A graph without cycles as an SVG string; each node is a group of class ``node`` with ``data-id``.

    Args:
        nodes: every one that an edge names, the ends included.
        edges: (from, to).
        facts: short sentences below the graph.
        title, subtitle: text above the graph.
    """
    if not nodes:
        return empty("This module has no nodes.")
    title, subtitle = one_line(title), one_line(subtitle)
    layout = layered({node.id: _size(node) for node in nodes}, edges)
    families = families_of(node.family for node in nodes if not (node.joint or node.end))
    width = max(layout.width + 2 * MARGIN, families_width(families), _LEAST_WIDTH)
    lines = wrapped([one_line(fact, 200) for fact in facts], width - 2 * MARGIN)
    head = headline_height(title, subtitle)
    under = head + layout.height + 8
    height = under + LINE * len(lines) + 12 + (16 if families else 0)
    drawing = Drawing(width, height, f"{title or 'module'}: {len(nodes)} nodes, {len(edges)} edges")
    draw_headline(drawing, title, subtitle)
    left = (width - layout.width) / 2
    marks = {node.id: node for node in nodes}
    for edge in layout.routes:
        _draw_edge(drawing, edge, layout, marks, left, head)
    for node in nodes:
        x, y = layout.centres[node.id]
        _draw_node(drawing, node, left + x, head + y)
    for place, line in enumerate(lines):
        drawing.text(MARGIN, under + 14 + LINE * place, line, "fill-ink", size=11)
    draw_families(drawing, families, height - 10)
    return drawing.svg()


def _size(node: NodeMark) -> BoxSize:
    if node.joint:
        return BoxSize(_JOINT, _JOINT)
    name = text_width(one_line(node.name, 80), 11) + (20 if node.end else 34)
    detail = text_width(one_line(node.detail, 80), 9) + 14
    return BoxSize(min(max(name, detail, 44), _MOST_BOX), _HEIGHT if node.detail else _PLAIN_HEIGHT)


def _draw_node(drawing: Drawing, node: NodeMark, x: float, y: float) -> None:
    size, name, detail = _size(node), one_line(node.name, 80), one_line(node.detail, 80)
    words = "\n".join(word for word in (node.id, name if name != node.id else "", detail, node.title) if word)
    left, top = x - size.width / 2, y - size.height / 2
    with drawing.group("node", title=words, data_id=node.id):
        if node.joint:
            drawing.element("circle", "fill-panel stroke-muted", cx=x, cy=y, r=_JOINT / 2)
            drawing.text(x, y + 4, _SYMBOLS[node.name], "fill-ink strong", size=12, anchor="middle")
            return
        if node.end:
            drawing.rect(left, top, size.width, size.height, "fill-panel stroke-muted", rx=size.height / 2)
            base = y - 3 if detail else y + 4
            drawing.text(x, base, shorten(name, size.width - 12, 11), "fill-ink", size=11, anchor="middle")
            drawing.text(x, y + 11, shorten(detail, size.width - 12, 9), "fill-muted", size=9, anchor="middle")
            return
        role = family_role(node.family)
        drawing.rect(left, top, size.width, size.height, f"fill-{role}-soft stroke-{role}", rx=4)
        base = top + (16 if detail else 17)
        drawing.path(family_glyph(node.family, left + 11, base - 4, 4), f"fill-{role}")
        drawing.text(left + 20, base, shorten(name, size.width - 26, 11), "fill-ink strong", size=11)
        drawing.text(left + 7, top + 30, shorten(detail, size.width - 12, 9), "fill-muted", size=9)


def _draw_edge(
    drawing: Drawing, edge: tuple[str, str], layout: Layout, marks: dict[str, NodeMark], left: float, top: float
) -> None:
    """A smooth line through the free places between the boxes, with a head where it ends."""
    start, end = edge
    (x1, y1), (x2, y2) = layout.centres[start], layout.centres[end]
    tip = x2 - _size(marks[end]).width / 2
    points = [(x1 + _size(marks[start]).width / 2, y1), *layout.routes[edge], (tip - 5, y2)]
    placed = [(left + x, top + y) for x, y in points]
    drawing.path(_smooth(placed), "edge hollow stroke-muted", title=f"{start} → {end}", stroke_width=1.2)
    drawing.path(arrow_head(left + tip, top + y2, 1), "fill-muted")


def _smooth(points: Sequence[Point]) -> str:
    """Path data whose tangents are level at every point."""
    data = f"M{number(points[0][0])},{number(points[0][1])}"
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = number((x1 + x2) / 2)
        data += f"C{middle},{number(y1)} {middle},{number(y2)} {number(x2)},{number(y2)}"
    return data
