"""States of systems as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evodevo.cli import output
from evodevo.report.charts.numbers import MISSING, show

if TYPE_CHECKING:
    from evodevo.multitask.report.history import CycleSummary
    from evodevo.multitask.report.status import AgentStatus, Offer, SystemStatus
    from evodevo.multitask.transfer.table import TransferTable
    from evodevo.storage.systems.status import ChildCounts

ACCURACIES = ("validation", "score", "test")
SIZES = ("added", "shared", "accounted", "parameters", "activated", "trained")
MOST_ACTIONS = 6


def head(status: SystemStatus) -> None:
    """Print what holds for the whole system."""
    tasks, agents = len(status.tasks), sum(not member.root for member in status.agents)
    output.line(f"system {status.system.name} ({status.system.id}): {tasks} tasks, {agents} agents, view {status.view}")
    output.line(f"children: {_counts_words(status.children)}")
    pinned = f", and {_size(status.pinned)} that only multipath paths run through" if status.pinned else ""
    per_task = "" if status.per_task is None else f", {_size(status.per_task)} per task"
    output.line(f"parameters: {_size(status.distinct)} distinct{per_task}{pinned}")
    running: dict[str, list[str]] = {}
    for member in status.agents:
        if member.holder is not None:
            running.setdefault(member.holder, []).append(member.name)
    for holder, names in running.items():
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        output.line(f"running in {holder}: {', '.join(names[:8])}{more}")


def tasks(status: SystemStatus) -> None:
    """Print the leaderboard of the tasks."""
    rows = [
        (
            task.name,
            task.best or MISSING,
            *_accuracies(task.offer),
            _size(task.added),
            _size(task.shared),
            _size(task.accounted),
        )
        for task in status.tasks
    ]
    output.line()
    output.table(
        ("task", "best", *ACCURACIES, "added", "shared", "accounted"),
        rows,
        right=(*ACCURACIES, "added", "shared", "accounted"),
    )
    if not rows:
        output.words(f"no task yet. Add one with: evodevo extend add {status.system.name} TASK --data FOLDER")


def transfer(found: Mapping[str, TransferTable | None]) -> None:
    """Print the probes of each agent, best first."""
    for agent, table in found.items():
        if table is None:
            output.line(f"\n{agent}: no probes; it has had no choice between paths, or draws them uniformly.")
        elif table.failed:
            output.line(
                f"\n{agent}: its probes failed, and parents are drawn uniformly: {output.one_line(table.failed)}"
            )
        else:
            output.line(
                f"\n{agent}: linear probes on {table.samples:,} training samples; the frequencies of the classes alone "
                f"have a log-loss of {table.prior:.3f} nats"
            )
            rows = [
                (row.path, f"{row.loss:.3f}", f"{100 * row.accuracy:.1f}", row.width, f"{row.seconds:.2f} s")
                for row in table.rows
            ]
            columns = ("path", "log-loss", "accuracy", "numbers", "time")
            output.table(columns, rows, right=columns[1:])


def agents(status: SystemStatus) -> None:
    """Print all agents: their paths, the origin of their components, and their progress."""
    rows = []
    for member in status.agents:
        offer = member.offer
        rows.append(
            (
                member.name,
                member.cycles,
                MISSING if member.open is None else member.open + 1,
                _counts_words(member.last, short=True),
                MISSING if offer is None else offer.path.rpartition("/")[2],
                show(member.quality),
                MISSING if offer is None else _size(offer.activated),
                _share(offer),
                member.state if offer is None else _makers(status, member.name),
            )
        )
    columns = (
        "agent",
        "cycles",
        "open",
        "last children",
        "path",
        "validation",
        "activated",
        "trained",
        "components of",
    )
    output.line()
    output.table(columns, rows, right=("cycles", "open", "path", "validation", "activated", "trained"))


def agent(system: SystemStatus, status: AgentStatus, course: Sequence[CycleSummary]) -> None:
    """Print one agent in detail."""
    output.line()
    held = f", running in {status.holder}" if status.holder else ""
    output.line(f"{status.name}: {_counts_words(status.children)}{held}")
    if status.offer is None:
        output.line("offers nothing: it was withdrawn" if status.state == "withdrawn" else "offers nothing yet")
    else:
        offer = status.offer
        flops = "" if offer.flops is None else f", {show(offer.flops, 'flops')} per sample"
        output.line(
            f"offers {offer.path}: {_size(offer.parameters)} parameters of its own components, {_size(offer.activated)}"
            f" activated, {_size(offer.trained)} trained ({_share(offer)}), {_size(offer.accounted)} accounted{flops}"
        )
        if offer.inside:
            output.line(f"inside {', '.join(offer.inside)}")
        users = [row for row in system.sharing if row.maker == status.name and row.user != status.name]
        output.line(f"has components of {_makers(system, status.name)}")
        output.line(
            f"its components are used by {_list([(row.user, row.components) for row in users]) or 'nobody else'}"
        )
    rows = [
        (
            cycle.number + 1,  # people count from 1
            MISSING if cycle.round is None else cycle.round,
            cycle.view,
            cycle.state,
            _counts_words(cycle.children, short=True),
            cycle.path or MISSING,
            show(cycle.quality),
            show(cycle.score),
            show(cycle.test),
        )
        for cycle in course
    ]
    output.table(
        ("cycle", "round", "view", "state", "children", "published", *ACCURACIES),
        rows,
        right=("cycle", "round", "view", *ACCURACIES),
    )


def children(records: Sequence[Mapping[str, Any]]) -> None:
    """Print every child in the order in which it was created."""
    rows = [
        (
            child["path"],
            child["cycle"] + 1,
            child["parent_path"] or MISSING,
            show(child["quality"]),
            show(child["bar"]),
            show(child["score"]),
            # A first child is drawn by nothing, and supports are drawn, not mutated: no action names them.
            _actions([*_first(child), *(f"support {name}" for name in child["inside"][1:]), *child["applied"]]),
            child["why"],
        )
        for child in records
    ]
    columns = ("child", "cycle", "parent", "validation", "bar", "score", "applied", "what became of it")
    output.table(columns, rows, right=("cycle", "validation", "bar", "score"))


def _first(child: Mapping[str, Any]) -> list[str]:
    return [str(child["begins"]).replace("_", " ")] if "begins" in child else []


def systems(every: Sequence[Mapping[str, Any]]) -> None:
    """Print all systems of a store."""
    rows = [
        (
            system["system"],
            system["id"],
            system["tasks"],
            system["agents"],
            system["cycles"],
            ", ".join(system["running"]) or MISSING,
            system["created"][:19],
        )
        for system in every
    ]
    output.table(
        ("system", "id", "tasks", "agents", "cycles", "running in", "created"),
        rows,
        right=("tasks", "agents", "cycles"),
    )
    if not rows:
        output.words("no system yet. Make one with: evodevo extend create NAME")


def _counts_words(counts: ChildCounts, *, short: bool = False) -> str:
    """Counts as text, zeros left out: ``16 (3 kept, 13 discarded)``."""
    parts = [
        f"{count} {word}"
        for word, count in (
            ("kept", counts.kept),
            ("discarded", counts.discarded),
            ("failed", counts.failed),
            ("waiting", counts.created - counts.finished),
        )
        if count
    ]
    words = ", ".join(parts)
    if short:
        return words or MISSING
    return f"{counts.created}" + (f" ({words})" if words else "")


def _makers(status: SystemStatus, name: str) -> str:
    return _list(
        [("itself" if row.maker == name else row.maker, row.components) for row in status.sharing if row.user == name]
    )


def _list(counted: Sequence[tuple[str, int]]) -> str:
    shown = [f"{name} ({count})" for name, count in counted[:6]]
    return ", ".join([*shown, *([f"and {len(counted) - 6} more"] if len(counted) > 6 else [])])


def _actions(applied: Sequence[str]) -> str:
    more = f", +{len(applied) - MOST_ACTIONS}" if len(applied) > MOST_ACTIONS else ""
    return (", ".join(applied[:MOST_ACTIONS]) + more) or MISSING


def _accuracies(offer: Offer | None) -> tuple[str, str, str]:
    if offer is None:
        return MISSING, MISSING, MISSING
    return show(offer.quality), show(offer.score), show(offer.test)


def _share(offer: Offer | None) -> str:
    share = None if offer is None else offer.trained_share
    return MISSING if share is None else f"{100 * share:.3g} %"


def _size(count: float) -> str:
    return show(count, "parameters")
