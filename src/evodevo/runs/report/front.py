"""The front beside the baselines, and what a trained model must beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from xml.etree.ElementTree import Element

from evodevo.report.charts.axes import Axis
from evodevo.report.charts.front import BaselinePoint, FrontPoint, front_chart
from evodevo.report.charts.numbers import MISSING, show
from evodevo.report.html import Content, cut, details, element, figure, paragraph, section, table
from evodevo.report.svg import finite
from evodevo.runs.report.data import ReportedBaseline, ReportedIndividual, ReportedObjective
from evodevo.runs.report.view import LISTED, ReportView, short


def front_section(view: ReportView) -> Element | None:
    if not view.objectives:
        return None
    content: list[Element] = []
    if len(view.objectives) == 1:
        content.append(_single_objective_figure(view))
    # Quality, the first objective by custom, goes upwards and against every other; the rest is folded away.
    first, others = view.objectives[0], view.objectives[1:4]
    content += [_scatter(view, other, first) for other in others]
    pairs = [_scatter(view, x, y) for y, x in combinations(others, 2)]
    content += [details("Other pairs of objectives", *pairs)] if pairs else []
    rows = [view.score_row(short(i.id), i.scores, i.spreads, view.birth(i)) for i in view.front]
    rows += [
        view.score_row(cut(b.name), b.scores, b.spreads, f"baseline, {b.seeds} seed{'s' * (b.seeds != 1)}")
        for b in view.baselines
    ]
    shown = rows[: view.detail.rows]
    headings = ["", *(view.heading(o) for o in view.objectives), "origin"]
    caption = f"Front and baselines{view.listed(len(shown), len(rows))}. In brackets: lowest and highest seed."
    content.append(table(headings, shown, range(1, len(view.objectives) + 1), caption))
    for rule, individual in list(view.data.picks.items())[:LISTED]:
        content.append(paragraph(f"Picked by {cut(rule)}: ", element("code", cut(individual)), "."))
    return section("front", "Front", *content)


def _scatter(view: ReportView, x: ReportedObjective, y: ReportedObjective) -> Element:
    points = [
        FrontPoint(
            i.id,
            i.scores.get(x.name),
            i.scores.get(y.name),
            i.generation,
            i.state,
            i.spreads.get(x.name),
            i.spreads.get(y.name),
            short(i.id)[:4] if i.state == "front" else "",
            f"{i.reason}: {i.detail[:200]}" if i.state == "failed" else view.birth(i),
        )
        for i in view.individuals[: 2 * view.detail.rows]
    ]
    baselines = [
        BaselinePoint(b.name, b.scores.get(x.name), b.scores.get(y.name), b.spreads.get(x.name), b.spreads.get(y.name))
        for b in view.baselines
    ]
    caption = (
        f"{cut(y.name)} against {cut(x.name)}. The line is the edge of what the front dominates; bars span the "
        "seeds; the margin holds what lacks a number."
    )
    return figure(front_chart(points, x.axis(), y.axis(), baselines), caption)


def _single_objective_figure(view: ReportView) -> Element:
    objective = view.objectives[0]
    points = [
        FrontPoint(i.id, i.generation, i.scores.get(objective.name), i.generation, i.state)
        for i in view.individuals[: 2 * view.detail.rows]
    ]
    svg = front_chart(points, Axis("generation"), objective.axis(), step_line=False)
    return figure(svg, f"{cut(objective.name)} of every individual, by generation of birth.")


def reference_section(view: ReportView) -> Element | None:
    reference = view.data.reference
    if reference is None:
        return None
    bar, beaten = finite(reference.value), 0
    rows: list[list[Content]] = []
    for result in list(reference.results)[: view.detail.rows]:
        value = finite(result.value)
        if bar is None or value is None:
            verdict = element("span", MISSING)
        elif value < bar:
            verdict, beaten = element("span", "beats it", classes="good"), beaten + 1
        else:
            verdict = element("span", "does not beat it", classes="bad")
        gain = MISSING if bar is None or value is None else f"{bar - value:+.3f}"
        rows.append(
            [element("code", cut(result.name, 40)), show(value, padded=True), gain, verdict, cut(result.note, 300)]
        )
    words = f"{cut(reference.name)} reaches {show(bar)} {cut(reference.unit)} on the same split"
    words += f"; {beaten} of {len(rows)} models beat it." if rows else "."
    content = [paragraph(words)]
    content += [paragraph(reference.note[: view.detail.text])] if reference.note else []
    if rows:
        unit = cut(reference.unit)
        content.append(table(["model", unit, "gain", "verdict", "remark"], rows, (1, 2)))
    return section("reference", "What must be beaten", *content)


def dominance_words(view: ReportView) -> Iterator[str]:
    names = " and ".join(cut(objective.name, 40) for objective in view.objectives[:6])
    for baseline in view.baselines:
        better = [i for i in view.front if _dominates(i, baseline, view.objectives)]
        if better:
            ids = ", ".join(short(i.id) for i in better[:8]) + (" …" if len(better) > 8 else "")
            verb = "dominates" if len(better) == 1 else "dominate"
            yield f"{len(better)} of {len(view.front)} on the front {verb} {cut(baseline.name)} in {names}: {ids}."
        elif view.front:
            yield f"None on the front dominates {cut(baseline.name)} in {names}."


def _dominates(first: ReportedIndividual, second: ReportedBaseline, objectives: Sequence[ReportedObjective]) -> bool:
    """Whether ``first`` is nowhere worse and somewhere better, by the values shown."""
    better = False
    for objective in objectives:
        a, b = finite(first.scores.get(objective.name)), finite(second.scores.get(objective.name))
        if a is None or b is None:
            return False
        gain = b - a if objective.minimise else a - b
        if gain < 0:
            return False
        better = better or gain > 0
    return better
