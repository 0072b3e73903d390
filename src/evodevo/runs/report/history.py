"""Quantities over time: hypervolume, training, ancestry."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evodevo.report.charts.curves import TrainingCurve, hypervolume_chart, stability_words, training_curves
from evodevo.report.charts.lineage import LineageNode, lineage_chart
from evodevo.report.charts.numbers import show
from evodevo.report.html import cut, element, figure, section, table
from evodevo.runs.report.view import ReportView, short


def progress_section(view: ReportView, figures: Sequence[Element]) -> Element | None:
    content: list[Element] = []
    if view.data.hypervolume:
        rows = [[f"{x:g}", show(y, digits=6)] for x, y in list(view.data.hypervolume)[: view.detail.rows]]
        point = ", ".join(
            f"{cut(o.name)} {show(view.data.reference_point[o.name], o.unit)}"
            for o in view.objectives
            if o.name in view.data.reference_point
        )
        caption = "Hypervolume of the front after each generation" + (f", measured from {point}." if point else ".")
        svg = hypervolume_chart(view.data.hypervolume, list(view.data.hypervolume_others)[:5])
        content.append(figure(svg, caption, table(["generation", "hypervolume"], rows, (0, 1))))
    content += figures
    return section("progress", "Progress", *content) if content else None


def curve_section(view: ReportView) -> Element | None:
    having = [i for i in view.individuals if i.curve]
    if not having:
        return None
    # What is special is kept when not all can be shown.
    rank = {"failed": 0, "front": 1, "dominated": 2}
    chosen = sorted(having, key=lambda i: (i.curve_state == "stable", rank[i.state]))[: view.detail.curves]
    every = [TrainingCurve(i.id, (), i.curve_state) for i in having]
    curves = [TrainingCurve(i.id, i.curve, i.curve_state, i.state == "front", view.birth(i)) for i in chosen]
    svg = training_curves(curves, view.data.curve_x, view.data.curve_y, limit=view.detail.curve_points)
    caption = f"{cut(view.data.curve_y.name)} of every candidate: {stability_words(every)} (compare Fig. 4.2)"
    rows = [
        [element("code", short(i.id)), i.curve_state, show(i.curve[0][1]), show(i.curve[-1][1]), str(len(i.curve))]
        for i in chosen[: min(view.detail.rows, 300)]
    ]
    numbers = table(["individual", "course", "first", "last", "points"], rows, (2, 3, 4))
    return section("training", "Training", figure(svg, caption + view.listed(len(curves), len(having)) + ".", numbers))


def lineage_section(view: ReportView) -> Element | None:
    if not view.individuals:
        return None
    target = next(iter(view.data.picks.values()), view.front[0].id if view.front else "")
    shown = view.individuals[-view.detail.lineage :]
    nodes = [
        LineageNode(
            i.id,
            i.generation,
            i.parents,
            i.operation,
            i.state,
            short(i.id)[:4] if len(shown) <= 400 else "",
            view.caption(i.scores),
        )
        for i in shown
    ]
    svg = lineage_chart(nodes, target)
    words = f"The ancestors of {short(target)} are drawn strong. " if target else ""
    cut = f"The last {len(shown):,} of {len(view.individuals):,} individuals. " * (len(shown) < len(view.individuals))
    caption = f"{words}{cut}The table of individuals below names every one's parents."
    return section("lineage", "Lineage", figure(svg, caption, classes="" if len(nodes) > 60 else "fits"))
