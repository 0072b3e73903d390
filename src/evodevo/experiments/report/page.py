"""The report of one experiment: plain data in, one HTML file out."""

from __future__ import annotations

import json
from collections.abc import Callable
from xml.etree.ElementTree import Element

from evodevo.experiments.report.model import Chart, ExperimentReport
from evodevo.growth.report.page_sections import growth_section
from evodevo.module_zoo.ablation.sections import ablation_section
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series, line_chart, thin
from evodevo.report.html import Content, add, cards, details, element, figure, page, paragraph, section, table
from evodevo.report.view import cut
from evodevo.report.word_tables import MOST_ROWS, pictures, words_table

MOST_LINES = 24
_POINTS = 64
_NOTES = 6
"""Remarks that are read at once; the others are folded."""


def experiment_report(data: ExperimentReport) -> str:
    """The page as one string of HTML."""
    sections = [part for build in _SECTIONS if (part := build(data)) is not None]
    nav = element("nav")
    for part in sections:
        add(nav, element("a", part[0].text, href=f"#{part.get('id')}"), " ")
    run = data.run
    subtitle = " · ".join(cut(text) for text in (run.recipe, run.id, run.state, run.started, run.duration) if text)
    header = element("header", element("h1", cut(data.title or run.recipe)), paragraph(subtitle, classes="muted"), nav)
    footer = element("footer", paragraph("One file, no scripts, no outside references. Made by evodevo."))
    return page(f"Experiment {cut(run.id)}", header, element("main", *sections), footer)


def _chart(chart: Chart) -> Element:
    lines = [Series(one.name, thin(list(one.points), _POINTS)) for one in chart.series[:MOST_LINES]]
    svg = line_chart(
        lines,
        Axis(chart.over, chart.over_unit),
        Axis(chart.name, chart.unit, minimise=chart.better == "lower"),
        whole_x=False,
    )
    more = f" The first {MOST_LINES} of {len(chart.series)} lines." if len(chart.series) > MOST_LINES else ""
    return figure(svg, cut(chart.caption, 400) + more)


def _summary(data: ExperimentReport) -> Element:
    content: list[Element] = [cards(data.cards)] if data.cards else []
    notes = [paragraph(cut(note, 600)) for note in data.notes]
    content += notes[:_NOTES]
    if data.baselines:
        content.append(paragraph(cut(data.baselines, 600)))
    if len(notes) > _NOTES:
        content.append(details(f"{len(notes) - _NOTES} more remarks", *notes[_NOTES:]))
    return section("summary", "In one look", *content)


def _arms(data: ExperimentReport) -> Element:
    content = [words_table(data.arms)]
    if data.budgets:
        content.append(paragraph(cut(data.budgets, 600), classes="muted"))
    content += [words_table(one) for one in (data.headlines, data.differences, data.ranks) if one is not None]
    if data.metrics is not None:
        content.append(details("Every output and metric on the test split", words_table(data.metrics)))
    return section("arms", "Arms", *content)


def _printed(data: ExperimentReport) -> Element | None:
    content: list[Element] = []
    for one in data.printed:
        content += [element("h3", cut(f"Printed in {one.source}", 300)), words_table(one.table)]
        content += [paragraph(cut(caveat, 600), classes="muted") for caveat in one.caveats]
    return section("printed", "What the paper prints", *content) if content else None


def _curves(data: ExperimentReport) -> Element | None:
    return section("curves", "Curves", *map(_chart, data.curves)) if data.curves else None


def _sweeps(data: ExperimentReport) -> Element | None:
    return section("sweeps", "Sweeps", *map(_chart, data.sweeps)) if data.sweeps else None


def _groups(data: ExperimentReport) -> Element | None:
    content: list[Element] = []
    for name, (words, chart) in data.groups.items():
        content.append(element("h3", f"By {cut(name, 60)}"))
        if chart is not None:
            content.append(_chart(chart))
        content.append(words_table(words))
    return section("groups", "Groups of samples", *content) if content else None


def _probes(data: ExperimentReport) -> Element | None:
    if data.probes is None:
        return None
    return section("probes", "Under other circumstances", words_table(data.probes))


def _inside(data: ExperimentReport) -> Element | None:
    return None if data.inside is None else section("inside", "Inside", words_table(data.inside))


def _zoos(data: ExperimentReport) -> Element | None:
    content: list[Element] = [] if data.shares is None else [words_table(data.shares)]
    for name, drawn in data.pictures.items():
        content.append(element("h3", cut(name, 160)))
        content += pictures(drawn)
    return section("zoos", "Zoos", *content) if content else None


def _blocks(data: ExperimentReport) -> Element | None:
    return ablation_section(data.blocks) if data.blocks else None


def _growth(data: ExperimentReport) -> Element | None:
    return None if data.growth is None else growth_section(data.growth)


def _trainings(data: ExperimentReport) -> Element | None:
    if not data.trainings:
        return None
    rows: list[list[Content]] = [
        [element("code", one.id), cut(one.title, 160), one.state, one.accuracy, one.seconds, element("code", one.look)]
        for one in data.trainings[:MOST_ROWS]
    ]
    names = ("individual", "training", "state", "validation %", "time", "its routes")
    return section("trainings", "Trainings", table(names, rows, (3, 4)))


def _facts(data: ExperimentReport) -> Element:
    run = data.run
    rows = [
        ("command", run.command),
        ("seed", str(run.seed)),
        ("hardware", run.hardware),
        ("started", run.started),
        ("finished", run.finished),
        *((f"version of {name}", version) for name, version in run.versions.items()),
        *run.more.items(),
    ]
    words = [[name, cut(value, 300)] for name, value in rows if value]
    settings = element("pre", json.dumps(run.settings, indent=1, sort_keys=True)[:200_000])
    return section("facts", "Facts", table(("", ""), words), details("All settings", settings))


_SECTIONS: tuple[Callable[[ExperimentReport], Element | None], ...] = (
    _summary,
    _blocks,
    _arms,
    _printed,
    _curves,
    _sweeps,
    _groups,
    _probes,
    _inside,
    _growth,
    _zoos,
    _trainings,
    _facts,
)
