"""The sections of a system's page: its graph over time, the best paths, shared components, courses, and
reasons of the children's outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from evodevo.multitask.diagrams.multipath_model import multipath_model
from evodevo.multitask.diagrams.support_usage import support_usage
from evodevo.multitask.diagrams.system.cycles import CycleCurve, means, system_cycles
from evodevo.multitask.diagrams.system.frame import Joined, SystemFrame, percent
from evodevo.multitask.diagrams.system.graph import system_graph
from evodevo.multitask.diagrams.system.outline import parts_in_words
from evodevo.multitask.report.data import AccuracyCurve, SystemReport
from evodevo.report.charts.bars import Measure, bars_beside
from evodevo.report.charts.heat_map import HeatRows, heat_map
from evodevo.report.html import Content, add, cards, details, element, figure, paragraph, section, table
from evodevo.report.svg import whole
from evodevo.report.word_tables import words_table

_SCROLLED = 14
"""A graph of more tasks keeps its size and is scrolled."""


@dataclass(frozen=True)
class SystemDetail:
    """Limits of the numbers of shown things: frames of the graph, drawn multipath models, arms of a chart, rows
    of children."""

    frames: int
    models: int
    arms: int
    children: int


def summary_section(data: SystemReport, detail: SystemDetail) -> Element:
    """Key numbers and remarks."""
    content: list[Element] = [cards(data.cards)] if data.cards else []
    content += [paragraph(whole(note)) for note in list(data.notes)[:20]]
    return section("summary", "In one look", *content)


def graph_section(data: SystemReport, detail: SystemDetail) -> Element | None:
    """Fig. 2 at every moment; a slider leafs through them."""
    if not data.frames:
        return None
    frames = chosen(data.frames, detail.frames)
    slides = element("div", classes="slides", **{"data-label": "state"})
    for frame in frames:
        title = f"publication {frame.seq}: {whole(frame.label)}"
        wide = len(frame.tasks) > _SCROLLED
        drawn = figure(system_graph(frame, within=frames), "", classes="" if wide else "fits")
        folded = details(title, drawn)
        if frame is frames[-1]:
            folded.set("open", "open")
        add(slides, folded)
    note = f" {len(frames)} of {data.moments} states." if len(frames) < data.moments else ""
    words = (
        "Tasks are at the bottom. A box is a component, with the number and in the colour of the task that it was last "
        "trained on; a coloured line is the path of one task, up to its head with the validation accuracy in percent. "
        "Lines without a colour belong to multipath models: they lead from the paths inside through connectors to "
        f"the router. Point at a line to follow it.{note}"
    )
    return section("graph", "Graph", paragraph(words), slides, details("The paths in words", _paths(frames[-1])))


def task_section(data: SystemReport, detail: SystemDetail) -> Element:
    """The leaderboard, and every agent."""
    content: list[Element] = [words_table(data.tasks)]
    if data.agents.rows:
        content.append(details("Every agent", words_table(data.agents)))
    return section("tasks", "Tasks", *content)


def parameter_section(data: SystemReport, detail: SystemDetail) -> Element | None:
    """Parameters that each task added, and those that it uses of others."""
    if not data.parameters:
        return None
    names = [task.task for task in data.parameters]
    bars = [
        Measure("parameters that its agents added", [task.added for task in data.parameters], "parameters"),
        Measure("parameters that it shares", [task.shared for task in data.parameters], "parameters"),
    ]
    rows: list[list[Content]] = [[whole(o.task), f"{o.added:,}", f"{o.shared:,}"] for o in data.parameters[:600]]
    numbers = table(("task", "added", "shared"), rows, (1, 2))
    caption = "Of the paths that a task's agents offer, with all that multipath ones run through."
    content = [figure(bars_beside(names, bars), caption, numbers, classes="fits")]
    if data.sharing is not None:
        svg = heat_map([data.sharing], data.makers, "components in an agent's path (row) by their maker (column)")
        content.append(
            figure(
                svg,
                "Components by user (row) and origin (column). Columns have the numbers of the tasks; + is a further "
                "agent of a task.",
                classes="fits" if len(data.makers) < 20 else "",
            )
        )
    return section("parameters", "Parameters", *content)


def course_section(data: SystemReport, detail: SystemDetail) -> Element | None:
    """Fig. 3: validation and test accuracy over cycles."""
    content = [part for course in data.courses for part in _course(course, detail.arms)]
    return section("cycles", "Cycles", *content) if content else None


def model_section(data: SystemReport, detail: SystemDetail) -> Element | None:
    """Fig. 1 of every multipath model."""
    models = list(data.frames[-1].joined) if data.frames else []
    if not models:
        return None
    frame, shown = data.frames[-1], models[: detail.models]
    content: list[Element] = []
    for place, model in enumerate(shown):
        drawn = figure(multipath_model(frame, model, title=model.path), _weights(model), classes="fits")
        title = f"{model.task}: validation {percent(model.accuracy)} %, {len(model.streams) - 1} supports"
        folded = details(whole(title), drawn)
        if place == 0:
            folded.set("open", "open")
        content.append(folded)
    if len(shown) < len(models):
        content.append(paragraph(f"The first {len(shown)} of {len(models)} models.", classes="muted"))
    return section("multipath", "Multipath models", *content)


def transfer_section(data: SystemReport, detail: SystemDetail) -> Element | None:
    """What each agent's linear probes found of the paths of others."""
    if not data.probes:
        return None
    probed = list(dict.fromkeys(row.path for found in data.probes.values() for row in found.rows))
    values = []
    for found in data.probes.values():
        losses = found.losses
        values.append([_gain(losses[path], found.prior) if path in losses else None for path in probed])
    rows: list[list[Content]] = [
        [whole(agent), whole(row.path), f"{row.loss:.3f}", f"{found.prior:.3f}", percent(row.accuracy)]
        for agent, found in data.probes.items()
        for row in found.rows
    ]
    numbers = table(("agent", "path", "log-loss", "of frequencies alone", "accuracy in percent"), rows[:600], (2, 3, 4))
    svg = heat_map(
        [HeatRows("", _short(list(data.probes)), values)],
        _short([path.partition("/")[0] for path in probed]),
        "what a probe of a path (column) tells of a task's classes (row)",
        high=1.0,
    )
    caption = (
        "1 minus the probe's log-loss over that of the classes' frequencies, measured before the agent's first choice; "
        "the parents of its first children are drawn by it."
    )
    return section("transfer", "Probes", figure(svg, caption, numbers, classes="fits" if len(probed) < 12 else ""))


def _short(agents: Sequence[str]) -> list[str]:
    """Tasks in the place of agents, and "root", where these are enough to tell them apart."""
    tasks = ["root" if "~root_model~" in name else name.partition("~")[2] for name in agents]
    return tasks if len(set(tasks)) == len(tasks) else list(agents)


def _gain(loss: float, prior: float) -> float:
    return max(0.0, 1 - loss / prior) if prior else 0.0


def support_section(data: SystemReport, detail: SystemDetail) -> Element | None:
    """Use of each task's paths as supports of other tasks."""
    if not data.supports:
        return None
    rows: list[list[Content]] = [
        [whole(o.task), whole(o.support), str(o.tried), str(o.kept), "yes" if o.offered else "", _share(o.weight)]
        for o in data.supports[:600]
    ]
    heads = ("task", "support", "children", "kept", "offered now", "mean weight")
    numbers = table(heads, rows, (2, 3, 5))
    caption = "Children that have a result, by the paths that they ran through besides the main one."
    return section("supports", "Supports", figure(support_usage(data.supports), caption, numbers, classes="fits"))


def child_section(data: SystemReport, detail: SystemDetail) -> Element | None:
    """Why every child was kept or not."""
    if not data.children:
        return None
    content: list[Element] = []
    left = detail.children
    for child in data.children:
        rows = child.rows.rows[: max(left, 0)]
        left -= len(rows)
        more = f" The newest {len(rows)} of {len(child.rows.rows)}." if len(rows) < len(child.rows.rows) else ""
        words = replace(child.rows, rows=rows, caption=f"{child.rows.caption}{more}".strip())
        content.append(details(whole(f"{child.agent}: {child.summary}"), words_table(words)))
    return section("children", "Children", *content)


def fact_section(data: SystemReport, detail: SystemDetail) -> Element:
    """Origin and settings of the system."""
    rows = [[whole(name), whole(value)] for name, value in data.facts if value]
    settings = element("pre", json.dumps(data.settings, indent=1, sort_keys=True)[:200_000])
    return section("facts", "Facts", table(("", ""), rows), details("All settings", settings))


SECTIONS: tuple[Callable[[SystemReport, SystemDetail], Element | None], ...] = (
    summary_section,
    graph_section,
    task_section,
    parameter_section,
    course_section,
    transfer_section,
    model_section,
    support_section,
    child_section,
    fact_section,
)


def chosen(frames: Sequence[SystemFrame], limit: int) -> list[SystemFrame]:
    """At most so many frames (2 or more), evenly chosen, the first and the last among them."""
    if len(frames) <= limit:
        return list(frames)
    return [frames[place] for place in sorted({round(n * (len(frames) - 1) / (limit - 1)) for n in range(limit)})]


def _paths(frame: SystemFrame) -> Element:
    rows: list[list[Content]] = [
        [
            "R" if route.root else str(frame.number(route.task)),
            whole(route.task),
            element("code", whole(route.path)),
            percent(route.accuracy),
            whole(parts_in_words(frame, route.parts)),
        ]
        for route in frame.routes[:400]
    ]
    caption = "Components from the bottom to the head; =N: trained last for task N, =R: for a root."
    return table(("", "task", "path", "validation %", "components"), rows, (3,), caption)


def _course(curve: AccuracyCurve, limit: int) -> list[Element]:
    validation, test = list(curve.validation)[:limit], list(curve.test)[:limit]
    if not any(means(arm.courses) for arm in validation):
        return []
    numbers: list[list[Content]] = []
    for name, arms in (("validation", validation), ("test", test)):
        numbers += [_row(name, arm) for arm in arms if means(arm.courses)]
    more = f" The first {limit} of {len(curve.validation)}." if len(curve.validation) > limit else ""
    caption = f"Accuracy of the published path after each cycle.{more}"
    alternative = table(("", "", "cycles", "first %", "last %", "error"), numbers, (2, 3, 4, 5))
    svg = system_cycles(validation, test, over=curve.over)
    return [element("h3", whole(curve.heading)), figure(svg, caption, alternative, classes="fits")]


def _row(name: str, arm: CycleCurve) -> list[Content]:
    points = means(arm.courses)
    error = points[-1].error
    shown = "" if error is None else f"{100 * error:.2f}"
    return [name, whole(arm.name), str(len(points)), percent(points[0].mean), percent(points[-1].mean), shown]


def _weights(model: Joined) -> str:
    known = [f"{stream.path} {stream.weight:.3f}" for stream in model.streams if stream.weight is not None]
    if known:
        return "Mean weights over the test samples: " + ", ".join(known) + "."
    return "Weights are known once it was measured on test data: evodevo extend run SYSTEM --test."


def _share(weight: float | None) -> str:
    return "" if weight is None else f"{weight:.3f}"
