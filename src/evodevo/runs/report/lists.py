"""The lists: failures with their reasons, all individuals, how the run was made."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from datetime import datetime
from xml.etree.ElementTree import Element

from evodevo.report.charts.numbers import show
from evodevo.report.html import Content, cut, details, element, paragraph, section, table
from evodevo.report.svg import clean, one_line
from evodevo.runs.archive import Run
from evodevo.runs.command import commands
from evodevo.runs.report.view import LISTED, ReportView, short


def failure_section(view: ReportView) -> Element | None:
    if not view.failed:
        return None
    reasons = Counter(cut(view.reason(one)) or "unknown" for one in view.failed)
    counts = table(["reason", "individuals"], [[name, str(n)] for name, n in reasons.most_common(LISTED)], (1,))
    rows: list[list[Content]] = []
    for individual in view.failed[: view.detail.rows]:
        evaluation = individual.evaluation
        detail = "" if evaluation is None else clean(evaluation.detail, view.detail.text)
        folded = (
            details(one_line(detail.strip().splitlines()[-1], 120), element("pre", detail)) if detail.strip() else None
        )
        rows.append(
            [
                element("code", short(individual.id)),
                cut(view.reason(individual)) or "unknown",
                str(individual.generation),
                show(None if evaluation is None else evaluation.seconds, "seconds", 3),
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
        text = view.parts.text(individual) if len(rows) < view.detail.strips else ""
        genome = details("as text", element("code", clean(text, 1000))) if text else None
        reason = view.reason(individual)
        state = individual.state_words if individual.stopped else view.state(individual)
        state = f"{view.state(individual)}: {cut(reason, 40)}" if reason else state
        rows.append(
            [
                element("code", short(individual.id)),
                str(individual.generation),
                state,
                *(view.score(individual, goal) for goal in view.goals),
                cut(individual.operation, 60),
                element("code", " ".join(short(parent) for parent in individual.parents[:4])),
                genome,
            ]
        )
    headings = [
        "id",
        "generation",
        "state",
        *(view.heading(goal) for goal in view.goals),
        "operation",
        "parents",
        "genome",
    ]
    numeric = [1, *range(3, 3 + len(view.goals))]
    caption = f"All individuals{view.listed(len(rows), len(view.individuals))}, in order of birth"
    folded = details(f"{len(view.individuals):,} individuals", table(headings, rows, numeric, caption))
    return section("individuals", "Individuals", folded)


def fact_section(view: ReportView) -> Element:
    run = view.run
    versions = ", ".join(f"{name} {version}" for name, version in list(run.row.versions.items())[:LISTED])
    facts = {
        "run": run.id,
        "recipe": run.recipe,
        "state": run.state,
        "seed": run.seed,
        "started": run.row.created_at,
        "finished": run.row.finished_at or "",
        "duration": duration(run),
        **run.data_lines(),
        "hardware": hardware(),
        "overhead of the search": overhead(run),
        "versions": versions,
    }
    rows = [[cut(name), cut(value, 1000)] for name, value in facts.items() if str(value)]
    content: list[Element] = [table(["fact", "value"], rows), *command_elements(run, view.detail.text)]
    if run.row.settings:
        settings = json.dumps(run.row.settings, indent=2, sort_keys=True, default=str, ensure_ascii=False)
        content.append(details("Settings", element("pre", clean(settings, 20_000))))
    return section("facts", "How it was run", *content)


def command_elements(run: Run, longest: int = 4000) -> list[Element]:
    """The commands that made a run, under a heading; a sentence where none is known."""
    known = commands(run)
    if not known:
        words = "No command of this version gives exactly these settings; all of them are below."
        return [element("h3", "Command"), paragraph(words)]
    heading = "Command" if len(known) == 1 else "Commands, one after the other"
    return [element("h3", heading), element("pre", clean("\n".join(known), longest))]


def duration(run: Run) -> str:
    """Wall time of a finished run; empty of others."""
    if run.row.finished_at is None:
        return ""
    span = datetime.fromisoformat(run.row.finished_at) - datetime.fromisoformat(run.row.created_at)
    return f"{span.total_seconds() / 60:.1f} minutes"


def hardware() -> str:
    """The machine that makes the page."""
    return f"{platform.machine()}, {os.cpu_count()} cores"


def overhead(run: Run) -> str:
    """Time of the search itself, without waiting for evaluations; empty where it was not recorded."""
    times = [event for event in run.events() if event.type == "study.time"]
    if not times:
        return ""
    wall = sum(event.fact("wall_seconds", float) for event in times)
    busy = wall - sum(event.fact("waited_seconds", float) for event in times)
    return f"{busy:.1f} s of {wall:.1f} s ({busy / max(wall, 1e-9):.1%})"
