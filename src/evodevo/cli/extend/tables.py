"""States of systems as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evodevo.cli import output
from evodevo.report.charts.numbers import MISSING, show

if TYPE_CHECKING:
    from evodevo.multitask.report.history import CycleSummary
    from evodevo.multitask.report.status import AgentStatus, Offer, SystemStatus
    from evodevo.storage.systems.status import Fates

ACCURACIES = ("validation", "score", "test")
SIZES = ("added", "shared", "accounted", "parameters", "activated", "trained")
MOST_ACTIONS = 6


def head(found: SystemStatus) -> None:
    """Print what holds for the whole system."""
    tasks, agents = len(found.tasks), sum(not one.root for one in found.agents)
    output.line(f"system {found.system.name} ({found.system.id}): {tasks} tasks, {agents} agents, view {found.view}")
    output.line(f"children: {_told(found.children)}")
    pinned = f", and {_size(found.pinned)} that only multipath paths run through" if found.pinned else ""
    per_task = "" if found.per_task is None else f", {_size(found.per_task)} per task"
    output.line(f"parameters: {_size(found.distinct)} distinct{per_task}{pinned}")
    running: dict[str, list[str]] = {}
    for one in found.agents:
        if one.holder is not None:
            running.setdefault(one.holder, []).append(one.name)
    for holder, names in running.items():
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        output.line(f"running in {holder}: {', '.join(names[:8])}{more}")


def tasks(found: SystemStatus) -> None:
    """Print the leaderboard of the tasks."""
    rows = [
        (
            one.name,
            one.best or MISSING,
            *_accuracies(one.offer),
            _size(one.added),
            _size(one.shared),
            _size(one.accounted),
        )
        for one in found.tasks
    ]
    output.line()
    output.table(
        ("task", "best", *ACCURACIES, "added", "shared", "accounted"),
        rows,
        right=(*ACCURACIES, "added", "shared", "accounted"),
    )
    if not rows:
        output.words(f"no task yet. Add one with: evodevo extend add {found.system.name} TASK --data FOLDER")


def agents(found: SystemStatus) -> None:
    """Print all agents: their paths, the origin of their components, and their progress."""
    rows = []
    for one in found.agents:
        offer = one.offer
        rows.append(
            (
                one.name,
                one.cycles,
                MISSING if one.open is None else one.open + 1,
                _told(one.last, short=True),
                MISSING if offer is None else offer.path.rpartition("/")[2],
                show(one.quality),
                MISSING if offer is None else _size(offer.activated),
                _share(offer),
                one.state if offer is None else _makers(found, one.name),
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


def agent(found: SystemStatus, one: AgentStatus, course: Sequence[CycleSummary]) -> None:
    """Print one agent in detail."""
    output.line()
    held = f", running in {one.holder}" if one.holder else ""
    output.line(f"{one.name}: {_told(one.children)}{held}")
    if one.offer is None:
        output.line("offers nothing: it was withdrawn" if one.state == "withdrawn" else "offers nothing yet")
    else:
        offer = one.offer
        flops = "" if offer.flops is None else f", {show(offer.flops, 'flops')} per sample"
        output.line(
            f"offers {offer.path}: {_size(offer.parameters)} parameters of its own components, {_size(offer.activated)}"
            f" activated, {_size(offer.trained)} trained ({_share(offer)}), {_size(offer.accounted)} accounted{flops}"
        )
        if offer.inside:
            output.line(f"inside {', '.join(offer.inside)}")
        users = [row for row in found.sharing if row.maker == one.name and row.user != one.name]
        output.line(f"has components of {_makers(found, one.name)}")
        output.line(
            f"its components are used by {_list([(row.user, row.components) for row in users]) or 'nobody else'}"
        )
    rows = [
        (
            cycle.number + 1,  # people count from 1
            MISSING if cycle.round is None else cycle.round,
            cycle.view,
            cycle.state,
            _told(cycle.children, short=True),
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


def children(told: Sequence[Mapping[str, Any]]) -> None:
    """Print every child in the order in which it was created."""
    rows = [
        (
            one["path"],
            one["cycle"] + 1,
            one["parent_path"] or MISSING,
            show(one["quality"]),
            show(one["bar"]),
            show(one["score"]),
            _actions([*_inside(one), *one["applied"]]),
            one["why"],
        )
        for one in told
    ]
    columns = ("child", "cycle", "parent", "validation", "bar", "score", "applied", "what became of it")
    output.table(columns, rows, right=("cycle", "validation", "bar", "score"))


def systems(every: Sequence[Mapping[str, Any]]) -> None:
    """Print all systems of a store."""
    rows = [
        (
            one["system"],
            one["id"],
            one["tasks"],
            one["agents"],
            one["cycles"],
            ", ".join(one["running"]) or MISSING,
            one["created"][:19],
        )
        for one in every
    ]
    output.table(
        ("system", "id", "tasks", "agents", "cycles", "running in", "created"),
        rows,
        right=("tasks", "agents", "cycles"),
    )
    if not rows:
        output.words("no system yet. Make one with: evodevo extend create NAME")


def _told(told: Fates, *, short: bool = False) -> str:
    """Counts as text, zeros left out: ``16 (3 kept, 13 discarded)``."""
    parts = [
        f"{count} {word}"
        for word, count in (
            ("kept", told.kept),
            ("discarded", told.discarded),
            ("failed", told.failed),
            ("waiting", told.asked - told.told),
        )
        if count
    ]
    said = ", ".join(parts)
    if short:
        return said or MISSING
    return f"{told.asked}" + (f" ({said})" if said else "")


def _makers(found: SystemStatus, name: str) -> str:
    return _list(
        [("itself" if row.maker == name else row.maker, row.components) for row in found.sharing if row.user == name]
    )


def _list(counted: Sequence[tuple[str, int]]) -> str:
    shown = [f"{name} ({count})" for name, count in counted[:6]]
    return ", ".join([*shown, *([f"and {len(counted) - 6} more"] if len(counted) > 6 else [])])


def _actions(applied: Sequence[str]) -> str:
    more = f", +{len(applied) - MOST_ACTIONS}" if len(applied) > MOST_ACTIONS else ""
    return (", ".join(applied[:MOST_ACTIONS]) + more) or MISSING


def _inside(one: Mapping[str, Any]) -> list[str]:
    """The supports of a multipath child, which are drawn, not mutated."""
    return [f"support {name}" for name in one["inside"][1:]]


def _accuracies(offer: Offer | None) -> tuple[str, str, str]:
    if offer is None:
        return MISSING, MISSING, MISSING
    return show(offer.quality), show(offer.score), show(offer.test)


def _share(offer: Offer | None) -> str:
    share = None if offer is None else offer.trained_share
    return MISSING if share is None else f"{100 * share:.3g} %"


def _size(count: float) -> str:
    return show(count, "parameters")
