"""The routing drawn: class means and their differences, single samples, patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from xml.etree.ElementTree import Element

import numpy as np

from evodevo.h_model.diagrams.flow import RoutingGraph, mean_flow, strongest_routes
from evodevo.h_model.diagrams.routing import DIFFERENCE, routing_diagram, routing_difference
from evodevo.h_model.report.view import RoutingView
from evodevo.report.html import Content, cut, details, element, figure, paragraph, section, table

_TABLE_ROWS = 60


def class_section(view: RoutingView) -> Element | None:
    """The mean over all samples and over each class, and differences of two classes."""
    trace = view.report.trace
    whole = mean_flow(trace)
    choices = [(f"all {trace.count:,} samples", [_mean_figure(view, whole, "All samples")])]
    flows = [mean_flow(trace.select(each.places)) for each in view.classes]
    for each, flow in zip(view.classes, flows, strict=True):
        name = cut(each.name, 60)
        choices.append((f"{name} ({flow.samples:,} samples)", [_mean_figure(view, flow, name)]))
    content: list[Element] = [chooser("mean of", choices)]
    pairs = list(combinations(range(len(flows)), 2))
    limits = replace(view.limits, threshold=DIFFERENCE)
    differences: list[tuple[str, list[Content]]] = []
    for first, other in pairs[: view.detail.pairs]:
        names = (cut(view.classes[first].name, 60), cut(view.classes[other].name, 60))
        svg = routing_difference(flows[first], flows[other], names, "", limits)
        differences.append((f"{names[0]} minus {names[1]}", [figure(svg, "", classes="")]))
    if differences:
        words = "Means of two classes, subtracted: solid where the first one's weight is larger, dashed the second's."
        every = len(view.report.classes) * (len(view.report.classes) - 1) // 2
        if len(differences) < every:
            words += f" The first {len(differences)} of {every} pairs."
        content += [element("h3", "Difference of two classes"), paragraph(words), chooser("difference", differences)]
    by = f" by {cut(view.report.fact, 40)}" if flows else ""
    return section("means", f"Mean routing{by}", *content)


def _mean_figure(view: RoutingView, flow: RoutingGraph, title: str) -> Element:
    svg = routing_diagram(flow, title, "", view.limits)
    return figure(svg, "", _strongest(flow), classes="")


def _strongest(flow: RoutingGraph) -> Element:
    """The largest weights as a table."""
    routes = strongest_routes(flow, range(len(flow.hidden)), flow.iterations, most=_TABLE_ROWS)
    names = [cut(name, 60) for name in (*flow.inputs, *flow.hidden, *flow.outputs)]
    rows = [
        [str(source.column or "input"), names[source.row], names[target.row], f"{weight:.3f}"]
        for source, target, weight in routes.drawn
    ]
    caption = f"The {len(rows)} largest of {routes.every:,} mean weights"
    return table(["iteration", "from", "to", "weight"], rows, (3,), caption)


def sample_section(view: RoutingView) -> Element | None:
    """Single samples, spread over the classes."""
    trace, chosen = view.report.trace, view.chosen()
    if not len(chosen):
        return None
    choices: list[tuple[str, list[Content]]] = []
    for place in chosen:
        each = view.class_of(int(place))
        name = f"sample {place}" + (f" ({cut(each.name, 40)})" if each else "")
        flow = mean_flow(trace.select(np.array([place])))
        svg = routing_diagram(flow, name[0].upper() + name[1:], "", view.limits)
        shown = trace.samples[int(place)] if trace.samples else {}
        rows = [[cut(key, 60), cut(text, 600)] for key, text in shown.items()]
        choices.append((name, [figure(svg, "", classes=""), table(["part", "text"], rows) if rows else None]))
    words = f"{len(choices)} of {trace.count:,} samples." if len(choices) < trace.count else ""
    return section("samples", "Single samples", paragraph(words) if words else None, chooser("sample", choices))


def pattern_section(view: RoutingView) -> Element | None:
    """Clusters of routes as small pictures with their shares."""
    patterns = view.report.patterns
    if not patterns.shares:
        return None
    grid = element("div", classes="patterns")
    for place, share in list(enumerate(patterns.shares))[: view.detail.patterns]:
        flow = mean_flow(view.report.trace.select(patterns.labels == place))
        caption = f"{100 * share:.0f} % of the samples"
        grid.append(figure(routing_diagram(flow, f"Pattern {place + 1}", caption, view.limits, compact=True), ""))
    if len(patterns.shares) == 1:
        words = "One pattern: the routes of all samples are alike, a stable architecture."
    else:
        words = f"k-means finds {len(patterns.shares)} patterns"
        words += f" (mean silhouette {patterns.silhouettes[len(patterns.shares)]:.2f})."
    if patterns.agreement is not None:
        words += f" They agree with {cut(view.report.fact, 40)} to {patterns.agreement:.2f} (adjusted Rand index)."
    tried = [[str(count), f"{value:.3f}"] for count, value in patterns.silhouettes.items()]
    numbers = details("How many patterns?", table(["k", "mean silhouette"], tried, (0, 1))) if tried else None
    return section("patterns", "Routing patterns", paragraph(words), grid, numbers)


def chooser(label: str, choices: Sequence[tuple[str, Sequence[Content]]]) -> Element:
    """Pictures of which one is seen at a time; a list to choose from where scripts run, else folds."""
    made = element("div", classes="chooser", **{"data-label": label})
    for place, (name, content) in enumerate(choices):
        fold = details(name, *content)
        fold.set("name", label)
        if not place:
            fold.set("open", "")
        made.append(fold)
    return made
