"""The lists: failures with their reasons, all individuals, how the run was made."""

from __future__ import annotations

import json
from collections import Counter
from xml.etree.ElementTree import Element

from evodevo.report.charts.numbers import show
from evodevo.report.html import Content, cut, details, element, paragraph, section, table
from evodevo.report.svg import clean, one_line
from evodevo.runs.report.view import LISTED, ReportView, short


def failure_section(view: ReportView) -> Element | None:
    if not view.failed:
        return None
    reasons = Counter(cut(i.reason) or "unknown" for i in view.failed)
    counts = table(["reason", "individuals"], [[name, str(n)] for name, n in reasons.most_common(LISTED)], (1,))
    rows: list[list[Content]] = []
    for individual in view.failed[: view.detail.rows]:
        detail = clean(individual.detail, view.detail.text)
        folded = (
            details(one_line(detail.strip().splitlines()[-1], 120), element("pre", detail)) if detail.strip() else None
        )
        rows.append(
            [
                element("code", short(individual.id)),
                cut(individual.reason) or "unknown",
                str(individual.generation),
                show(individual.seconds, "seconds", 3),
                folded,
            ]
        )
    caption = f"Every failed individual{view.listed(len(rows), len(view.failed))}"
    each = table(["individual", "reason", "generation", "time", "what it said"], rows, (2, 3), caption)
    words = (
        f"{len(view.failed)} of {len(view.individuals)} evaluations failed. A failure ends one individual, not the run."
    )
    return section("failures", "Failures", paragraph(words), counts, element("h3", "One by one"), each)


def individual_section(view: ReportView) -> Element | None:
    if not view.individuals:
        return None
    rows: list[list[Content]] = []
    for individual in view.individuals[: view.detail.rows]:
        text = individual.text if len(rows) < view.detail.strips else ""
        genome = details("as text", element("code", clean(text, 1000))) if text else None
        state = f"{individual.state}: {cut(individual.reason, 40)}" if individual.reason else individual.state
        rows.append(
            [
                element("code", short(individual.id)),
                str(individual.generation),
                state,
                *(view.score(o, individual.scores, individual.spreads) for o in view.objectives),
                cut(individual.operation, 60),
                element("code", " ".join(short(parent) for parent in individual.parents[:4])),
                genome,
            ]
        )
    headings = [
        "id",
        "generation",
        "state",
        *(view.heading(o) for o in view.objectives),
        "operation",
        "parents",
        "genome",
    ]
    numeric = [1, *range(3, 3 + len(view.objectives))]
    caption = f"All individuals{view.listed(len(rows), len(view.individuals))}, in order of birth"
    folded = details(f"{len(view.individuals):,} individuals", table(headings, rows, numeric, caption))
    return section("individuals", "Individuals", folded)


def fact_section(view: ReportView) -> Element:
    run = view.data.run
    facts = {
        "run": run.id,
        "recipe": run.recipe,
        "state": run.state,
        "seed": run.seed,
        "started": run.started,
        "finished": run.finished,
        "duration": run.duration,
        "hardware": run.hardware,
        **dict(list(run.more.items())[:LISTED]),
        "versions": ", ".join(f"{name} {version}" for name, version in list(run.versions.items())[:LISTED]),
    }
    rows = [[cut(name), cut(value, 1000)] for name, value in facts.items() if str(value)]
    content: list[Element] = [table(["fact", "value"], rows)]
    if run.command:
        content += [element("h3", "Command"), element("pre", clean(run.command, view.detail.text))]
    if run.settings:
        settings = json.dumps(run.settings, indent=2, sort_keys=True, default=str, ensure_ascii=False)
        content.append(details("Settings", element("pre", clean(settings, 20_000))))
    return section("facts", "How it was run", *content)
