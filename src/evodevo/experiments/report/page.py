"""The page of one experiment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evodevo.experiments.comparison import ComparisonTable, compare_arms
from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.recipe import PaperTable
from evodevo.experiments.report.parts import PagePart
from evodevo.experiments.report.tables import (
    Chart,
    arms_table,
    baseline_words,
    budget_words,
    curves,
    differences_table,
    groups,
    headlines_table,
    inside_table,
    metrics_table,
    percent,
    probes_table,
    ranks_table,
    sweeps,
)
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series, line_chart, thin
from evodevo.report.html import Content, cards, cut, details, element, figure, navigation, page, paragraph, section
from evodevo.report.html import table as html_table
from evodevo.report.palette import MODULE_COLOURS
from evodevo.report.word_tables import MOST_ROWS, TextTable, words_table
from evodevo.runs.archive import Individual, Run
from evodevo.runs.report.lists import command_elements, duration, hardware, overhead

MOST_LINES = MODULE_COLOURS
_POINTS = 64
_TIED = 4
_NOTES = 6
"""Remarks that are read at once; the others are folded."""


def report(run: Run) -> str:
    """One self-contained HTML page on an experiment, as one string of HTML."""
    table, comparison = compare_arms(run), run.settings.experiment
    parts = page_parts()
    shown = (
        summary_section(_cards(run, table), remarks(run, table), baseline_words(table)),
        *(part.section(run, table) for part in parts if part.is_first),
        _arms(table),
        _printed([printed for printed in comparison.paper if not printed.is_ours]),
        _measured([printed for printed in comparison.paper if printed.is_ours]),
        _charts("curves", "Curves", curves(table)),
        _charts("sweeps", "Sweeps", sweeps(table)),
        _groups(table),
        _words("probes", "Under other circumstances", probes_table(table)),
        _words("inside", "Inside", inside_table(table)),
        *(part.section(run, table) for part in parts if not part.is_first),
        _trainings(run.individuals()),
        _facts(run),
    )
    sections = [part for part in shown if part is not None]
    nav = navigation(sections)
    given = (run.recipe, run.id, run.state, run.row.created_at, duration(run))
    subtitle = " · ".join(cut(text) for text in given if text)
    title = element("h1", cut(comparison.title or run.recipe))
    header = element("header", title, paragraph(subtitle, classes="muted"), nav)
    footer = element("footer", paragraph("One file, no scripts, no outside references. Made by evodevo."))
    return page(f"Experiment {cut(run.id)}", header, element("main", *sections), footer)


def page_parts() -> list[PagePart]:
    """Sections of all procedures, in the order of their names; each returns None where it does not apply."""
    return [part for name in PROCEDURES for part in PROCEDURES.get(name).page_parts()]


def remarks(run: Run, table: ComparisonTable) -> list[str]:
    """Remarks for the reader, one sentence each."""
    return [
        *run.settings.experiment.caveats,
        *(sentence for part in page_parts() for sentence in part.remarks(run, table)),
        *(f"{row.group}: {sentence}." for row in table.rows for sentence in row.remarks),
        *(f"Missing: {words}." for row in table.rows for words in row.missing),
    ]


def _cards(run: Run, table: ComparisonTable) -> list[tuple[str, str]]:
    individuals = run.individuals()
    done = sum(individual.state == "done" for individual in individuals)
    items = [(str(len(table.rows)), "arms and cells"), (f"{done} of {len(individuals)}", "trainings finished")]
    return [*items, *best_card(table)]


def best_card(table: ComparisonTable) -> list[tuple[str, str]]:
    """The arm that is best on validation, with its result on the test split, which chooses nothing; no arm at a tie."""
    judged = [row for row in table.rows if row.validation is not None]
    if not judged:
        return []
    highest = max(row.validation.mean for row in judged if row.validation is not None)
    best = [row for row in judged if row.validation is not None and row.validation.mean == highest]
    if len(best) > 1:
        names = ", ".join(row.group for row in best[:_TIED]) + (" …" if len(best) > _TIED else "")
        return [(f"{percent(best[0].validation)} %", f"on validation, a tie of {len(best)} arms: {names}")]
    if best[0].test is None:
        return [(f"{percent(best[0].validation)} %", f"on validation: {best[0].group}, the best there")]
    return [(f"{percent(best[0].test)} %", f"on test: {best[0].group}, the best on validation")]


def _chart(chart: Chart) -> Element:
    lines = [Series(line.name, thin(list(line.points), _POINTS)) for line in chart.series[:MOST_LINES]]
    svg = line_chart(
        lines,
        Axis(chart.over, chart.over_unit),
        Axis(chart.name, chart.unit, minimise=chart.better == "lower"),
        whole_x=False,
    )
    more = f" The first {MOST_LINES} of {len(chart.series)} lines." if len(chart.series) > MOST_LINES else ""
    return figure(svg, cut(chart.caption, 400) + more)


def summary_section(items: Sequence[tuple[str, str]], sentences: Sequence[str], baselines: str) -> Element:
    """The summary at the top of the page.

    Args:
        items: (number, name of the number).
        sentences: remarks.
        baselines: words on simple opponents.
    """
    notes = [paragraph(cut(sentence, 600)) for sentence in sentences]
    content: list[Element] = [cards(items), *notes[:_NOTES]]
    if baselines:
        content.append(paragraph(cut(baselines, 600)))
    if len(notes) > _NOTES:
        content.append(details(f"{len(notes) - _NOTES} more remarks", *notes[_NOTES:]))
    return section("summary", "In one look", *content)


def _arms(table: ComparisonTable) -> Element:
    content = [words_table(arms_table(table))]
    if table.budgets:
        content.append(paragraph(cut(budget_words(table), 600), classes="muted"))
    more = (headlines_table(table), differences_table(table), ranks_table(table))
    content += [words_table(more_rows) for more_rows in more if more_rows is not None]
    metrics = metrics_table(table)
    if metrics is not None:
        content.append(details("Every output and metric on the test split", words_table(metrics)))
    return section("arms", "Arms", *content)


def _printed(tables: Sequence[PaperTable]) -> Element | None:
    content = _beside("Printed in ", tables)
    return section("printed", "What the paper prints", *content) if content else None


def _measured(tables: Sequence[PaperTable]) -> Element | None:
    content = _beside("Measured in ", tables)
    return section("measured", "What was measured here before", *content) if content else None


def _beside(origin: str, tables: Sequence[PaperTable]) -> list[Element]:
    content: list[Element] = []
    for known in tables:
        content += [
            element("h3", cut(f"{origin}{known.source}", 300)),
            words_table(TextTable(known.columns, known.rows)),
        ]
        content += [paragraph(cut(caveat, 600), classes="muted") for caveat in known.caveats]
    return content


def _charts(name: str, title: str, charts: Sequence[Chart]) -> Element | None:
    return section(name, title, *map(_chart, charts)) if charts else None


def _words(name: str, title: str, words: TextTable | None) -> Element | None:
    return None if words is None else section(name, title, words_table(words))


def _groups(table: ComparisonTable) -> Element | None:
    content: list[Element] = []
    for name, (words, chart) in groups(table).items():
        content.append(element("h3", f"By {cut(name, 60)}"))
        if chart is not None:
            content.append(_chart(chart))
        content.append(words_table(words))
    return section("groups", "Groups of samples", *content) if content else None


def _trainings(individuals: Sequence[Individual]) -> Element | None:
    if not individuals:
        return None
    rows: list[list[Content]] = []
    for individual in individuals[:MOST_ROWS]:
        accuracy = individual.fact.get("validation", {}).get("accuracy")
        traced = individual.evaluation is not None and "trace" in individual.evaluation.blobs
        rows.append(
            [
                element("code", individual.id),
                cut(individual.title, 160),
                individual.reason or individual.state,
                "–" if accuracy is None else f"{100 * accuracy:.1f}",
                "–" if individual.evaluation is None else f"{individual.evaluation.seconds:.1f} s",
                element("code", f"evodevo trace {individual.id}" if traced else ""),
            ]
        )
    names = ("individual", "training", "state", "validation %", "time", "its routes")
    return section("trainings", "Trainings", html_table(names, rows, (3, 4)))


def _facts(run: Run) -> Element:
    rows = [
        ("seed", str(run.seed)),
        *run.data_lines().items(),
        ("hardware", hardware()),
        ("started", run.row.created_at),
        ("finished", run.row.finished_at or ""),
        *((f"version of {name}", str(version)) for name, version in run.row.versions.items()),
        ("overhead of the search", overhead(run)),
    ]
    words = [[name, cut(value, 300)] for name, value in rows if value]
    settings = element("pre", json.dumps(run.row.settings, indent=1, sort_keys=True)[:200_000])
    facts = html_table(("", ""), words)
    return section("facts", "Facts", facts, *command_elements(run), details("All settings", settings))
