"""The connections between the layers of an H-Model (paper, figures 5 to 17).

Columns are iterations, rows are nodes; a line from a source in one column to a target in the next has the strength
of its weight. Outputs receive messages in every iteration, along their rows; the answer is read at the right end.
"""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.h_model.diagrams.flow import DrawnConnection, GraphNode, RoutingGraph, flow_difference, strongest_routes
from evodevo.h_model.diagrams.layout import Limits, Sheet, left_out, row_name, sheet_for
from evodevo.h_model.diagrams.legend import (
    CALLED,
    SMALL,
    draw_legend,
    in_lines,
    legend_entries,
    line_look,
)
from evodevo.operators.layers.base import family_of_kind
from evodevo.report.charts import glyphs as marks
from evodevo.report.palette import family_role
from evodevo.report.svg import Drawing, empty, one_line, shorten, text_width

_TITLE = 13.0
DIFFERENCE = 0.01
"""A difference of two means that is smaller is not drawn."""


def routing_diagram(
    flow: RoutingGraph, title: str = "", caption: str = "", limits: Limits | None = None, compact: bool = False
) -> str:
    """The routing of one sample or the mean of several, from ``mean_flow``.

    Args:
        title: over the drawing, for example the name of a class.
        caption: below the title, for example the text of the sample.
        limits: limits of the drawn connections.
        compact: small, for several side by side.
    """
    return _diagram(flow, title, caption, limits or Limits(), compact, None)


def routing_difference(
    first: RoutingGraph, other: RoutingGraph, names: tuple[str, str], caption: str = "", limits: Limits | None = None
) -> str:
    """The difference between the routing of two groups of samples: solid lines where the first one's weight is larger,
    dashed ones in another colour where the second one's is. ``names`` are those of the groups. Means of groups differ
    less than weights do, so that by default less is left out, and strength is relative to the largest difference.
    """
    shown = (one_line(names[0], 60), one_line(names[1], 60))
    title = f"{shown[0]} minus {shown[1]}"
    return _diagram(flow_difference(first, other), title, caption, limits or Limits(DIFFERENCE), False, shown)


def _diagram(
    flow: RoutingGraph, title: str, caption: str, limits: Limits, compact: bool, names: tuple[str, str] | None
) -> str:
    if not flow.samples:
        return empty("No sample to draw the routing of.")
    sheet = sheet_for(flow, compact, bool(title), bool(caption))
    routes = strongest_routes(flow, sheet.layers, sheet.columns - 2, limits.threshold, limits.strongest)
    words = left_out(flow, sheet, limits, routes)
    full = 1.0
    if names and routes.drawn:  # means of groups differ by little; the largest difference is the strongest line
        full = abs(routes.drawn[0].weight)
        words.append(f"The strongest line is a difference of {full:.3f}.")
    width = sheet.x(sheet.columns - 1) + 34
    heading = shorten(one_line(title, 200), width - 24, _TITLE)
    below = shorten(one_line(caption, 400), width - 24, SMALL)
    lines = _wrapped(words, width - 24)
    label = f"Routing{': ' if title else ''}{title}. {len(routes.drawn)} connections drawn. {caption}"
    legend_lines = in_lines(legend_entries(flow, sheet, names), width - 24)
    height = sheet.bottom + 26 + 17 * len(legend_lines) + 14 * len(lines) + 4
    drawing = Drawing(width, height, label)
    if heading:
        drawing.text(12, 20, heading, "fill-ink strong", _TITLE)
    if below:
        drawing.text(12, 37 if heading else 20, below, "fill-muted", SMALL)
    _draw_grid(drawing, flow, sheet)
    for route in reversed(routes.drawn):
        _draw_route(drawing, flow, sheet, route, names, full)
    _draw_nodes(drawing, flow, sheet, names)
    y = sheet.bottom + 30
    for entries in legend_lines:
        draw_legend(drawing, entries, y)
        y += 17
    for line in lines:
        drawing.text(12, y, line, "fill-muted", SMALL)
        y += 14
    return drawing.svg()


def _wrapped(sentences: Sequence[str], width: float) -> list[str]:
    lines: list[str] = []
    for word in " ".join(sentences).split():
        if lines and text_width(f"{lines[-1]} {word}", SMALL) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [shorten(line, width, SMALL) for line in lines]


def _draw_grid(drawing: Drawing, flow: RoutingGraph, sheet: Sheet) -> None:
    names = [*flow.inputs, *flow.hidden, *flow.outputs]
    last = sheet.columns - 1
    for row, y in sheet.rows.items():
        outlet = row >= len(flow.inputs) + len(flow.hidden)
        first, end = (0, 0) if row < len(flow.inputs) else (1, last if outlet else last - 1)
        if end > first:
            drawing.line(sheet.x(first), y, sheet.x(end), y, "stroke-faint", stroke_width=2 if outlet else 1)
        drawing.text(sheet.left - 18, y + 4, row_name(names[row]), "fill-ink", 11, "end", title=one_line(names[row]))
    for column in range(sheet.columns):
        answer = "…" if last <= flow.iterations else "answer"
        words = "input" if column == 0 else answer if column == last else f"t = {column}"
        drawing.text(sheet.x(column), sheet.top - 6, shorten(words, sheet.pitch, 10), "fill-muted", 10, "middle")
    for step in range(min(flow.iterations, last - 1)):
        share = float(flow.halted[step])
        if share > 0:
            x = sheet.x(step + 0.5)
            words = "halts" if share > 0.995 else f"{100 * share:.0f} % halt"
            with drawing.group("halting", title=f"{words} after {step} iterations"):
                drawing.line(x, sheet.top + 2, x, sheet.bottom + 4, "stroke-failed", stroke_dasharray="3 3")
                drawing.text(x, sheet.bottom + 14, shorten(words, sheet.pitch - 2, 9.5), "fill-failed", 9.5, "middle")


def _draw_route(
    drawing: Drawing,
    flow: RoutingGraph,
    sheet: Sheet,
    route: DrawnConnection,
    names: tuple[str, str] | None,
    full: float,
) -> None:
    strength = min(abs(route.weight), 1.0)
    second = names is not None and route.weight < 0
    if names is None:
        layer = route.source.row - len(flow.inputs)
        role = "ink" if layer < 0 else family_role(family_of_kind(flow.kinds[layer]))
        words = f"{route.weight:.3f}"
    else:
        role = "recurrence" if second else "attention"
        words = f"{strength:.3f} more in {names[second]}"
    source, target = route.source, route.target
    drawing.element(
        "line",
        f"route stroke-{role}",
        f"{_name(flow, source)} → {_name(flow, target)}: {words}",
        x1=sheet.x(source.column),
        y1=sheet.rows[source.row],
        x2=sheet.x(target.column),
        y2=sheet.rows[target.row],
        data_from=f"{source.column}.{source.row}",
        data_to=f"{target.column}.{target.row}",
        data_weight=f"{strength:.3f}",
        **line_look(min(strength / full, 1.0), second),
    )


def _draw_nodes(drawing: Drawing, flow: RoutingGraph, sheet: Sheet, names: tuple[str, str] | None) -> None:
    last = sheet.columns - 1
    for row, y in sheet.rows.items():
        layer = row - len(flow.inputs)
        if layer < 0:
            columns = range(1)
        elif layer < len(flow.hidden):
            columns = range(1, last)
        else:
            columns = range(1, last + 1)
        for column in columns:
            node = GraphNode(column, row)
            with drawing.group("node", _node_words(flow, node, names), data_node=f"{column}.{row}"):
                _draw_node(drawing, flow, sheet, node, sheet.x(column), y)


def _draw_node(drawing: Drawing, flow: RoutingGraph, sheet: Sheet, node: GraphNode, x: float, y: float) -> None:
    layer, radius = node.row - len(flow.inputs), sheet.radius
    if layer < 0:
        drawing.path(marks.circle(x, y, radius), "fill-ink")
    elif layer >= len(flow.hidden):
        end = node.column == sheet.columns - 1
        classes = "fill-ink" if end else "fill-paper stroke-muted"
        drawing.path(marks.diamond(x, y, radius * 1.25 if end else radius * 0.62), classes)
    else:
        family = family_of_kind(flow.kinds[layer])
        glyph = marks.family_glyph(family, x, y, radius)
        called = float(flow.called[node.column - 1, layer])
        # The paper below hides lines that pass, so that a faint layer stays faint.
        drawing.path(glyph, "fill-paper stroke-faint" if called < CALLED else "fill-paper", stroke_width=1.4)
        if called >= CALLED:
            role = family_role(family)
            shade = f"{called:.2f}"
            drawing.path(glyph, f"fill-{role} stroke-{role}", stroke_width=1.2, fill_opacity=shade)


def _node_words(flow: RoutingGraph, node: GraphNode, names: tuple[str, str] | None) -> str:
    layer = node.row - len(flow.inputs)
    if layer < 0:
        return one_line(flow.inputs[node.row])
    words = _name(flow, node)
    more = f" more in {names[0]}" if names else ""
    words += f"\ninflow {flow.inflow[node.column - 1, layer]:{'+' if names else ''}.3f}{more}"
    if layer < len(flow.hidden):
        called = float(flow.called[node.column - 1, layer])
        words += f"\n{one_line(flow.kinds[layer], 40)}, message norm {flow.norms[node.column - 1, layer]:.3g}{more}"
        share = "" if flow.samples == 1 else f" for {100 * called:.0f} % of the samples"
        words += "\nnot called" if called < CALLED else f"\ncalled{share}"
    return words


def _name(flow: RoutingGraph, node: GraphNode) -> str:
    name = one_line([*flow.inputs, *flow.hidden, *flow.outputs][node.row], 80)
    is_output = node.row >= len(flow.inputs) + len(flow.hidden)
    return name if node.column == 0 or is_output else f"{name}, t = {node.column}"
