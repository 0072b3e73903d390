"""From a recorded system to the data of its report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from evodevo.errors import NotFoundError, quoted_list
from evodevo.multitask.diagrams.system.cycles import CycleCurve
from evodevo.multitask.diagrams.system.frame import percent
from evodevo.multitask.report.data import AccuracyCurve, AgentChildren, SystemReport, TaskParameters
from evodevo.multitask.report.outcomes import child_records
from evodevo.multitask.report.page import system_page
from evodevo.multitask.report.picture import SystemFrames
from evodevo.multitask.report.status import SystemStatus, status_of
from evodevo.multitask.report.supports import support_uses
from evodevo.multitask.schedule import is_root
from evodevo.multitask.system import System
from evodevo.multitask.transfer.table import TransferTable, recorded
from evodevo.report.charts.heat_map import HeatRows
from evodevo.report.charts.numbers import show
from evodevo.report.word_tables import TextTable
from evodevo.runs.archive import OF_SYSTEMS, Archive, Run
from evodevo.storage.systems.base import SystemRow

MOST_FRAMES = 60
MOST_CHILDREN = 1500
"""Children that a page lists, the newest of each agent first."""
_APPLIED = 12


def run_or_system(archive: Archive, name: str) -> Run | SystemRow:
    """A run by a beginning of its id or ``last``; where there is none, a system by its name or a beginning.

    Raises:
        NotFoundError: neither.
        UsageError: more than one.
    """
    systems = archive.store.systems
    try:
        reference = None if name == "last" else archive.store.find(name)
        if reference is not None and reference.kind == "run" and archive.store.run(reference.id).kind in OF_SYSTEMS:
            return systems.find_system(name)
        return archive.run(name)
    except NotFoundError:
        there = quoted_list(system.name for system in systems.systems()[:8])
        if name == "last" or not there:
            raise
    try:
        return systems.find_system(name)
    except NotFoundError:
        words = f"neither a run nor a system is called {name[:80]!r}. Systems here: {there}; runs: evodevo status"
        raise NotFoundError(words) from None


def system_report(archive: Archive, row: SystemRow) -> str:
    """One self-contained HTML page on a system."""
    return system_page(report_data(System(archive.store, row)))


def report_data(system: System) -> SystemReport:
    """Everything that the page shows."""
    picture, now = SystemFrames(system), status_of(system.store, system.row)
    frames = picture.frames(MOST_FRAMES)
    running = [agent.name for agent in now.agents if agent.holder is not None]
    return SystemReport(
        system.row.name,
        f"{system.row.id} · made {system.row.created_at} · publication {now.view}",
        _cards(now),
        _notes(now, running),
        frames,
        len(picture.moments),
        _tasks(now),
        _agents(now),
        [TaskParameters(task.name, task.added, task.shared) for task in now.tasks if task.best is not None],
        _sharing(now),
        [_marks(now)[maker] for maker in _makers(now)],
        _courses(picture),
        support_uses(picture, frames[-1]) if frames else (),
        _probes(system, now),
        _children(system, now),
        _facts(system, now),
        {"system": system.row.settings, "agents": {agent.name: agent.settings for agent in system.agents()}},
    )


def _cards(now: SystemStatus) -> list[tuple[str, str]]:
    offers = [task.offer for task in now.tasks if task.offer is not None]
    known = [offer.quality for offer in offers if offer.quality is not None]
    tests = [offer.test for offer in offers if offer.test is not None]
    items = [
        (str(len(offers)), "tasks answered"),
        (f"{percent(sum(known) / len(known))} %" if known else "–", "mean validation accuracy"),
    ]
    if tests:
        of = "" if len(tests) == len(offers) else f" of {len(tests)} tasks"
        items.append((f"{percent(sum(tests) / len(tests))} %", f"mean test accuracy{of}"))
    children = now.children
    return [
        *items,
        (show(now.distinct, "parameters"), "distinct parameters"),
        (show(now.per_task, "parameters"), "parameters per task, roots included"),
        (f"{children.kept} of {children.kept + children.discarded + children.failed}", "children kept"),
    ]


def _notes(now: SystemStatus, running: Sequence[str]) -> list[str]:
    notes = ["Paths are chosen by validation accuracy alone; test accuracy is shown where it was measured."]
    if running:
        notes.append(f"Running while this was written: {', '.join(running)}.")
    if now.pinned:
        notes.append(f"Multipath models keep {show(now.pinned, 'parameters')} further parameters of older paths.")
    gone = [agent.name for agent in now.agents if agent.state == "withdrawn"]
    if gone:
        notes.append(f"Withdrawn: {', '.join(gone)}.")
    return notes


def _tasks(now: SystemStatus) -> TextTable:
    rows = []
    for place, task in enumerate(now.tasks, 1):
        offer = task.offer
        rows.append(
            (
                task.name,
                str(place),
                task.best or "–",
                percent(None if offer is None else offer.quality),
                percent(None if offer is None else offer.test),
                "–" if offer is None or offer.score is None else f"{offer.score:.4f}",
                f"{task.added:,}",
                f"{task.shared:,}",
                "–" if offer is None or offer.trained_share is None else f"{100 * offer.trained_share:.2g}",
                f"{task.accounted:,.0f}",
            )
        )
    columns = (
        "task",
        "no.",
        "answered by",
        "validation %",
        "test %",
        "score",
        "added",
        "shared",
        "trained %",
        "accounted",
    )
    caption = (
        "By validation accuracy. Added: parameters that the task's agents made; shared: those of others; trained: of "
        "the parameters that a sample activates, those trained for this very path; accounted: shared ones split evenly "
        "among their users."
    )
    return TextTable(columns, rows, caption, texts=("answered by",), ids=("answered by",))


def _agents(now: SystemStatus) -> TextTable:
    rows = []
    for agent in now.agents:
        offer, children = agent.offer, agent.children
        rows.append(
            (
                agent.name,
                f"{agent.state}, running" if agent.holder else agent.state,
                "–" if offer is None else offer.path,
                str(agent.cycles),
                percent(None if offer is None else offer.quality),
                percent(None if offer is None else offer.test),
                str(children.kept),
                str(children.discarded),
                str(children.failed),
                "–" if offer is None else f"{offer.accounted:,.0f}",
                ", ".join(offer.inside) if offer is not None else "",
            )
        )
    numbers = ("cycles", "validation %", "test %", "kept", "discarded", "failed", "accounted")
    columns = ("agent", "state", "path", *numbers, "runs through")
    return TextTable(columns, rows, texts=("state", "path", "runs through"), ids=("path", "runs through"))


def _makers(now: SystemStatus) -> list[str]:
    return list(dict.fromkeys(use.maker for use in now.sharing))


def _sharing(now: SystemStatus) -> HeatRows | None:
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for use in now.sharing:
        counts[use.user][use.maker] = use.components
    if not counts:
        return None
    marks, makers = _marks(now), _makers(now)
    names = [f"{marks[user]} {now.agent(user).task}" for user in counts]
    return HeatRows("", names, [[counts[user].get(maker) for maker in makers] for user in counts])


def _probes(system: System, now: SystemStatus) -> dict[str, TransferTable]:
    found = {agent.name: recorded(system.store, agent.id) for agent in now.agents if not agent.root}
    return {name: table for name, table in found.items() if table is not None and table.rows}


def _marks(now: SystemStatus) -> dict[str, str]:
    """Agent -> a few letters: the number of its task, with ``+`` for further agents of the same task; ``R``."""
    numbers = {task.name: str(place) for place, task in enumerate(now.tasks, 1)}
    marks: dict[str, str] = {}
    for agent in now.agents:
        mark = "R" if agent.root else numbers[agent.task]
        while not agent.root and mark in marks.values():
            mark += "+"
        marks[agent.name] = mark
    return marks


def _courses(picture: SystemFrames) -> list[AccuracyCurve]:
    courses = {name: known for name, known in picture.courses().items() if known}
    validation = {name: [path.quality for path in known] for name, known in courses.items()}
    test = {name: [picture.test(path.id) for path in known] for name, known in courses.items()}
    kinds: dict[str, list[str]] = defaultdict(list)
    for name in courses:
        kinds[picture.agents[name].kind].append(name)
    curves = []
    if any(len(names) > 1 for names in kinds.values()):
        arms = [
            [CycleCurve(kind, [of[name] for name in names]) for kind, names in kinds.items()]
            for of in (validation, test)
        ]
        curves.append(AccuracyCurve("Mean of each class of agents over its tasks", "tasks", arms[0], arms[1]))
    for kind, names in kinds.items():
        tasks = {name: picture.agents[name].task for name in names}
        arms = [
            [CycleCurve(task, [of[name]], picture.tasks.index(task)) for name, task in tasks.items()]
            for of in (validation, test)
        ]
        curves.append(AccuracyCurve(f"{kind}, each task", "systems", arms[0], arms[1]))
    return curves


def _children(system: System, now: SystemStatus) -> list[AgentChildren]:
    rows, left = [], MOST_CHILDREN
    for agent in now.agents:
        if agent.root or not agent.by_cycle:
            continue
        newest = [path.id for path in system.store.systems.paths(agent.id)][::-1][: max(left, 0)]
        left -= len(newest)
        records = child_records(system.store, newest)
        counts = agent.children
        words = f"{counts.kept} kept, {counts.discarded} discarded"
        words += f", {counts.failed} failed" if counts.failed else ""
        table = TextTable(_COLUMNS, [_row(row) for row in records], texts=_TEXTS, ids=("parent",))
        rows.append(AgentChildren(agent.name, words, table))
    return rows


_COLUMNS = ("child", "cycle", "validation %", "score", "bar", "parent", "changes", "why")
_TEXTS = ("parent", "changes", "why")


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.4f}"

    applied = [str(action) for action in row["applied"]]
    more = f" and {len(applied) - _APPLIED} more" if len(applied) > _APPLIED else ""
    changes = ", ".join(applied[:_APPLIED]) + more
    return (
        str(row["path"]).rpartition("/")[2],
        str(row["cycle"] + 1),
        percent(row["quality"]),
        number(row["score"]),
        number(row["bar"]),
        row["parent_path"] or "none",
        "; ".join(one for one in (str(row.get("begins", "")).replace("_", " "), changes) if one),
        row["why"],
    )


def _facts(system: System, now: SystemStatus) -> list[tuple[str, str]]:
    run = system.store.run(system.row.id)
    return [
        ("system", system.row.name),
        ("id", system.row.id),
        ("made", system.row.created_at),
        ("seed", str(system.row.seed)),
        ("publications", str(len(system.store.systems.publications(system.row.id)))),
        ("roots", ", ".join(agent.name for agent in system.agents() if is_root(agent))),
        ("status", f"evodevo extend status {system.row.name}"),
        *((f"version of {name}", str(version)) for name, version in run.versions.items()),
    ]
