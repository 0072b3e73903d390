"""The report of one evolution: plain data in, one HTML file out, at most ``LIMIT_BYTES`` long.

When it would be longer, curves lose points and long lists their ends, and a note on the page states it.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from evodevo.report.charts.numbers import says_its_unit, show
from evodevo.report.html import add, cards, cut, element, page, paragraph, section
from evodevo.report.svg import finite
from evodevo.runs.report.data import EvolutionReport
from evodevo.runs.report.front import dominance_words, front_section, reference_section
from evodevo.runs.report.history import curve_section, lineage_section, progress_section
from evodevo.runs.report.lists import fact_section, failure_section, individual_section
from evodevo.runs.report.parts import GenomeParts
from evodevo.runs.report.view import LISTED, Detail, ReportView

LIMIT_BYTES = 5_000_000
_DETAILS = (
    Detail(curves=600, curve_points=200, genomes=48, livs=512, strips=200, lineage=1200, rows=1500, text=4000),
    Detail(curves=400, curve_points=80, genomes=24, livs=256, strips=100, lineage=600, rows=800, text=1500),
    Detail(curves=200, curve_points=40, genomes=12, livs=128, strips=48, lineage=300, rows=300, text=600),
    Detail(curves=60, curve_points=24, genomes=6, livs=64, strips=16, lineage=150, rows=100, text=200),
)


def evolution_report(data: EvolutionReport, parts: GenomeParts) -> str:
    """The page as one string of HTML, at most ``LIMIT_BYTES`` long in UTF-8."""
    text = ""
    for level, detail in enumerate(_DETAILS):
        text = _html(ReportView(data, detail, reduced=level > 0), parts)
        if len(text.encode()) <= LIMIT_BYTES:
            break
    return text


def _html(view: ReportView, parts: GenomeParts) -> str:
    built = (
        _summary(view),
        front_section(view),
        reference_section(view),
        parts.genomes(view),
        progress_section(view, parts.progress(view)),
        curve_section(view),
        lineage_section(view),
        parts.population(view),
        failure_section(view),
        individual_section(view),
        fact_section(view),
    )
    sections = [part for part in built if part is not None]
    nav = element("nav")
    for part in sections:
        add(nav, element("a", part[0].text, href=f"#{part.get('id')}"), " ")
    run = view.data.run
    subtitle = " · ".join(cut(text) for text in (run.recipe, run.state, run.started, run.duration) if text)
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
    for objective in view.objectives[:4]:
        known = [v for i in view.individuals if (v := finite(i.scores.get(objective.name))) is not None]
        if known:
            best = min(known) if objective.minimise else max(known)
            unit = f" ({cut(objective.unit, 40)})" if objective.unit and not says_its_unit(objective.unit) else ""
            items.append((show(best, objective.unit), f"best {cut(objective.name, 40)}{unit}"))
    volumes = [value for _, given in view.data.hypervolume if (value := finite(given)) is not None]
    if len(volumes) > 1:
        items.append((f"{show(volumes[0], digits=3)} → {show(volumes[-1], digits=3)}", "hypervolume"))
    content: list[Element] = [cards(items)]
    content += [paragraph(note[: view.detail.text]) for note in list(view.data.notes)[:LISTED]]
    content += [paragraph(words) for words in dominance_words(view)]
    if not view.individuals:
        content.append(paragraph("No individual was evaluated in this run."))
    elif not scored:
        content.append(paragraph("No evaluation succeeded; the failures below show why.", classes="bad"))
    if view.reduced:
        content.append(
            paragraph(
                f"Reduced to keep this file under {LIMIT_BYTES // 1_000_000} MB: curves have at most "
                f"{view.detail.curve_points} points (their extremes are kept), long lists are cut where they say "
                "so. The store holds everything.",
                classes="muted",
            )
        )
    return section("summary", "In one look", *content)
