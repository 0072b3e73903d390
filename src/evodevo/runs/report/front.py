"""The front beside the baselines, and what a trained model must beat."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from xml.etree.ElementTree import Element

from evodevo.report.charts.axes import Axis
from evodevo.report.charts.front import BaselinePoint, FrontPoint, front_chart
from evodevo.report.charts.numbers import MISSING, show
from evodevo.report.html import Content, cut, details, element, figure, paragraph, section, table
from evodevo.report.svg import finite
from evodevo.runs.archive import Individual, Run
from evodevo.runs.report.view import ReportView, axis, short
from evodevo.search.problem import Goal
from evodevo.storage.base import as_written

BIGRAM = "byte_bigram"


def front_section(view: ReportView) -> Element | None:
    if not view.goals:
        return None
    content: list[Element] = []
    if len(view.goals) == 1:
        content.append(_single_goal_figure(view))
    # Quality, the first goal by custom, goes upwards and against every other; the rest is folded away.
    first, others = view.goals[0], view.goals[1:4]
    content += [_scatter(view, other, first) for other in others]
    pairs = [_scatter(view, x, y) for y, x in combinations(others, 2)]
    content += [details("Other pairs of objectives", *pairs)] if pairs else []
    rows = [view.score_row(short(one.id), one, view.birth(one)) for one in view.front]
    for one in view.baselines:
        summary = one.summary(view.goals[0].name)
        seeds = 1 if summary is None else summary.seeds
        rows.append(view.score_row(cut(one.name), one, f"baseline, {seeds} seed{'s' * (seeds != 1)}"))
    shown = rows[: view.detail.rows]
    headings = ["", *(view.heading(goal) for goal in view.goals), "origin"]
    caption = f"Front and baselines{view.listed(len(shown), len(rows))}. In brackets: lowest and highest seed."
    content.append(table(headings, shown, range(1, len(view.goals) + 1), caption))
    for rule, individual in view.picks.items():
        content.append(paragraph(f"Picked by {cut(rule)}: ", element("code", cut(individual)), "."))
    return section("front", "Front", *content)


def _scatter(view: ReportView, x: Goal, y: Goal) -> Element:
    points = [
        FrontPoint(
            one.id,
            view.scores(one).get(x.name),
            view.scores(one).get(y.name),
            one.generation,
            view.state(one),
            view.spread(one, x),
            view.spread(one, y),
            short(one.id)[:4] if view.state(one) == "front" else "",
            f"{view.reason(one)}: {_detail(one)[:200]}" if view.state(one) == "failed" else view.birth(one),
        )
        for one in view.whole[: 2 * view.detail.rows]
    ]
    baselines = [
        BaselinePoint(
            one.name,
            view.scores(one).get(x.name),
            view.scores(one).get(y.name),
            view.spread(one, x),
            view.spread(one, y),
        )
        for one in view.baselines
    ]
    caption = (
        f"{cut(y.name)} against {cut(x.name)}. The line is the edge of what the front dominates; bars span the "
        f"seeds; the margin holds what lacks a number.{_left_out(view)}"
    )
    return figure(front_chart(points, axis(x), axis(y), baselines), caption)


def _detail(individual: Individual) -> str:
    return "" if individual.evaluation is None else individual.evaluation.detail


def _single_goal_figure(view: ReportView) -> Element:
    goal = view.goals[0]
    points = [
        FrontPoint(one.id, one.generation, view.scores(one).get(goal.name), one.generation, view.state(one))
        for one in view.whole[: 2 * view.detail.rows]
    ]
    svg = front_chart(points, Axis("generation"), axis(goal), step_line=False)
    return figure(svg, f"{cut(goal.name)} of every individual, by generation of birth.{_left_out(view)}")


def _left_out(view: ReportView) -> str:
    stopped = len(view.individuals) - len(view.whole)
    return f" {stopped:,} individuals that stopped at a rung are left out." if stopped else ""


def bigram(run: Run) -> float | None:
    """Bits per byte of the byte-bigram count model on the task's text; None where the task has no such model."""
    with as_written(f"run {run.id}", "a description of its data"):
        known = run.data().get("count_models", {})
        return float(known[BIGRAM]) if BIGRAM in known else None


def reference_section(view: ReportView) -> Element | None:
    """The individuals that beat the byte-bigram count model."""
    reference = bigram(view.run)
    if reference is None:
        return None
    bar, beaten = finite(reference), 0
    rows: list[list[Content]] = []
    for individual in [*view.run.baselines(), *view.run.front()][: view.detail.rows]:
        value = finite(individual.fact.get("bits_per_byte"))
        if bar is None or value is None:
            verdict = element("span", MISSING)
        elif value < bar:
            verdict, beaten = element("span", "beats it", classes="good"), beaten + 1
        else:
            verdict = element("span", "does not beat it", classes="bad")
        gain = MISSING if bar is None or value is None else f"{bar - value:+.3f}"
        remark = cut(view.parts.remark(individual), 300)
        rows.append([element("code", cut(individual.name, 40)), show(value, padded=True), gain, verdict, remark])
    unit = "bits per byte"
    words = f"byte bigram (add-α counts, α chosen on validation) reaches {show(bar)} {unit} on the same split"
    words += f"; {beaten} of {len(rows)} models beat it." if rows else "."
    content = [paragraph(words), paragraph("on the same bytes")]
    if rows:
        content.append(table(["model", unit, "gain", "verdict", "remark"], rows, (1, 2)))
    return section("reference", "What must be beaten", *content)


def lead_words(view: ReportView) -> Iterator[str]:
    names = " and ".join(cut(goal.name, 40) for goal in view.goals[:6])
    for baseline in view.baselines:
        better = [one for one in view.front if _is_ahead(view, one, baseline)]
        if better:
            ids = ", ".join(short(one.id) for one in better[:8]) + (" …" if len(better) > 8 else "")
            verb = "is" if len(better) == 1 else "are"
            leads = f"{len(better)} of {len(view.front)} on the front {verb} ahead of"
            yield f"{leads} {cut(baseline.name)} in {names}: {ids}."
        elif view.front:
            yield f"None on the front is ahead of {cut(baseline.name)} in {names}."


def _is_ahead(view: ReportView, first: Individual, second: Individual) -> bool:
    """Whether ``first`` is nowhere worse and somewhere better, by the values shown."""
    better = False
    for goal in view.goals:
        ours, theirs = (finite(view.scores(one).get(goal.name)) for one in (first, second))
        if ours is None or theirs is None:
            return False
        gain = goal.to_minimise(theirs) - goal.to_minimise(ours)
        if gain < 0:
            return False
        better = better or gain > 0
    return better
