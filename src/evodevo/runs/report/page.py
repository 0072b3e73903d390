"""The page on one search: one HTML file, at most ``LIMIT_BYTES`` long, with its quantities over time.

When it would be longer, curves lose points and long lists their ends, and a note on the page states it.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series, TrainingCurve, line_chart, stability_words, training_curves
from evodevo.report.charts.lineage import LineageNode, lineage_chart
from evodevo.report.charts.numbers import says_its_unit, show
from evodevo.report.html import cards, cut, element, figure, navigation, page, paragraph, section, table
from evodevo.report.svg import finite
from evodevo.runs.archive import Run
from evodevo.runs.pick import certainty, compare
from evodevo.runs.report.downstream import downstream_section
from evodevo.runs.report.front import front_section, lead_words, reference_section
from evodevo.runs.report.lists import duration, fact_section, failure_section, individual_section
from evodevo.runs.report.operations import operation_section
from evodevo.runs.report.training import token_section
from evodevo.runs.report.view import LISTED, Detail, GenomeParts, ReportView, short

LIMIT_BYTES = 5_000_000
_DETAILS = (
    Detail(curves=600, curve_points=200, genomes=48, livs=512, strips=200, lineage=1200, rows=1500, text=4000),
    Detail(curves=400, curve_points=80, genomes=24, livs=256, strips=100, lineage=600, rows=800, text=1500),
    Detail(curves=200, curve_points=40, genomes=12, livs=128, strips=48, lineage=300, rows=300, text=600),
    Detail(curves=60, curve_points=24, genomes=6, livs=64, strips=16, lineage=150, rows=100, text=200),
)


def search_page(run: Run, parts: GenomeParts | None = None) -> str:
    """One self-contained HTML page on a search, at most ``LIMIT_BYTES`` long in UTF-8.

    Args:
        run: The search.
        parts: Sections of its slice; None for none.
    """
    view, text = ReportView(run, parts or GenomeParts(), _DETAILS[0]), ""
    for view.detail in _DETAILS:
        view.reduced = view.detail is not _DETAILS[0]
        text = _html(view)
        if len(text.encode()) <= LIMIT_BYTES:
            break
    return text


def _html(view: ReportView) -> str:
    run, parts = view.run, view.parts
    built = (
        _summary(view),
        front_section(view),
        reference_section(view),
        downstream_section(view),
        parts.genomes(view),
        progress_section(view, parts.progress(view)),
        curve_section(view),
        token_section(view),
        lineage_section(view),
        operation_section(view),
        parts.motifs(view),
        parts.population(view),
        failure_section(view),
        individual_section(view),
        fact_section(view),
    )
    sections = [part for part in built if part is not None]
    nav = navigation(sections)
    given = (run.recipe, run.state, run.row.created_at, duration(run))
    subtitle = " · ".join(cut(text) for text in given if text)
    header = element(
        "header",
        element("h1", f"Evolution {cut(run.id)}"),
        paragraph(subtitle, classes="muted") if subtitle else None,
        nav,
    )
    footer = element("footer", paragraph("One file, no scripts, no outside references. Made by evodevo."))
    return page(f"Evolution {cut(run.id)}", header, element("main", *sections), footer)


def _summary(view: ReportView) -> Element:
    scored = len(view.individuals) - len(view.failed)
    items = [(str(scored), "scored"), (str(len(view.failed)), "failed"), (str(len(view.front)), "on the front")]
    for goal in view.goals[:4]:
        known = [v for one in view.whole if (v := finite(view.scores(one).get(goal.name))) is not None]
        if known:
            best = min(known, key=goal.to_minimise)
            unit = f" ({cut(goal.unit, 40)})" if goal.unit and not says_its_unit(goal.unit) else ""
            items.append((show(best, goal.unit), f"best {cut(goal.name, 40)}{unit}"))
    volumes = [value for row in view.generations if (value := finite(row["hypervolume"])) is not None]
    if len(volumes) > 1:
        items.append((f"{show(volumes[0], digits=3)} → {show(volumes[-1], digits=3)}", "hypervolume"))
    content: list[Element] = [cards(items)]
    content += [paragraph(note[: view.detail.text]) for note in notes(view.run)[:LISTED]]
    content += [paragraph(words) for words in lead_words(view)]
    if not view.individuals:
        content.append(paragraph("No individual was evaluated in this run."))
    elif not scored:
        content.append(paragraph("No evaluation succeeded; the failures below show why.", classes="bad"))
    if view.reduced:
        content.append(
            paragraph(
                f"Reduced to keep this file under {LIMIT_BYTES // 1_000_000} MB: curves have at most "
                f"{view.detail.curve_points} points (their extremes are kept), long lists are cut where "
                "noted. The store holds everything.",
                classes="muted",
            )
        )
    return section("summary", "In one look", *content)


def notes(run: Run) -> list[str]:
    """Notes for the reader: the individuals that are ahead of the baselines on validation, and with which certainty."""
    sentences = []
    for one in run.front():
        beaten = [comparison for comparison in compare(one, run) if comparison.ahead]
        if not beaten:
            continue
        fresh = all(verdict.ours.fresh for comparison in beaten for verdict in comparison.verdicts)
        count = min(verdict.ours.seeds for comparison in beaten for verdict in comparison.verdicts)
        how = "on fresh seeds" if fresh else f"on {count} seeds" if count > 1 else "on the search's own seed"
        doubts = certainty([verdict for comparison in beaten for verdict in comparison.verdicts])
        names = " and ".join(comparison.baseline for comparison in beaten)
        sure = f" ({doubts})" if doubts else ", beyond the spread over seeds"
        sentences.append(f"{one.id} (born by {one.operation}) is ahead of {names} on validation, {how}{sure}.")
    if run.front() and not sentences:
        sentences.append("No individual of the front is ahead of a baseline on validation.")
    summaries = [one.summary(run.goals[0].name) for one in run.front()]
    seeds = [summary.seeds for summary in summaries if summary is not None and summary.fresh]
    if seeds:
        sentences.append(
            f"Front and baselines are shown with their means over {seeds[0]} fresh seeds, which played no part in the "
            "search; all others with the search's own seed, which flatters whoever won."
        )
    return sentences


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
