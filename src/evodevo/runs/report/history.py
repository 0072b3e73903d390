"""Quantities over time: hypervolume, training, ancestry."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series, TrainingCurve, line_chart, stability_words, training_curves
from evodevo.report.charts.lineage import LineageNode, lineage_chart
from evodevo.report.charts.numbers import show
from evodevo.report.html import cut, element, figure, section, table
from evodevo.runs.report.view import ReportView, short


def progress_section(view: ReportView, figures: Sequence[Element]) -> Element | None:
    content: list[Element] = []
    if view.generations:
        volumes = [(float(row["generation"]), row["hypervolume"]) for row in view.generations]
        rows = [[f"{x:g}", show(y, digits=6)] for x, y in volumes[: view.detail.rows]]
        reference = view.generations[-1]["reference"]
        point = ", ".join(
            f"{cut(goal.name)} {show(value, goal.unit)}"
            for goal, value in zip(view.goals, reference or (), strict=False)
        )
        caption = "Hypervolume of the front after each generation" + (f", measured from {point}." if point else ".")
        volume = Axis("hypervolume", minimise=False)
        svg = line_chart([Series("this run", volumes)], Axis("generation"), volume, height=280)
        content.append(figure(svg, caption, table(["generation", "hypervolume"], rows, (0, 1))))
    content += figures
    return section("progress", "Progress", *content) if content else None


def curve_section(view: ReportView) -> Element | None:
    having = [one for one in view.individuals if view.curve(one)]
    if not having:
        return None
    courses = {one.id: view.stability(one) for one in having}
    # What is special is kept when not all can be shown.
    rank = {"failed": 0, "front": 1, "dominated": 2}
    chosen = sorted(having, key=lambda one: (courses[one.id] == "stable", rank[view.state(one)]))[: view.detail.curves]
    every = [TrainingCurve(one.id, (), courses[one.id]) for one in having]
    curves = [
        TrainingCurve(one.id, view.curve(one), courses[one.id], view.state(one) == "front", view.birth(one))
        for one in chosen
    ]
    loss = Axis("training loss", "nats per token")
    svg = training_curves(curves, Axis("tokens", "tokens"), loss, limit=view.detail.curve_points)
    caption = f"{loss.name} of every candidate: {stability_words(every)} (compare Fig. 4.2)"
    rows = [
        [
            element("code", short(one.id)),
            courses[one.id],
            show(view.curve(one)[0][1]),
            show(view.curve(one)[-1][1]),
            str(len(view.curve(one))),
        ]
        for one in chosen[: min(view.detail.rows, 300)]
    ]
    numbers = table(["individual", "course", "first", "last", "points"], rows, (2, 3, 4))
    return section("training", "Training", figure(svg, caption + view.listed(len(curves), len(having)) + ".", numbers))


def lineage_section(view: ReportView) -> Element | None:
    if not view.individuals:
        return None
    target = next(iter(view.picks.values()), "")
    shown = view.individuals[-view.detail.lineage :]
    nodes = [
        LineageNode(
            one.id,
            one.generation,
            one.parents,
            one.operation,
            view.state(one),
            short(one.id)[:4] if len(shown) <= 400 else "",
            view.caption(one),
        )
        for one in shown
    ]
    svg = lineage_chart(nodes, target)
    words = f"The ancestors of {short(target)} are drawn strong. " if target else ""
    cut = f"The last {len(shown):,} of {len(view.individuals):,} individuals. " * (len(shown) < len(view.individuals))
    caption = f"{words}{cut}The table of individuals below names every one's parents."
    return section("lineage", "Lineage", figure(svg, caption, classes="" if len(nodes) > 60 else "fits"))
