"""States of systems as plain data for programs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evodevo.multitask.report.history import CycleSummary
    from evodevo.multitask.report.status import AgentStatus, Offer, SystemStatus
    from evodevo.storage.liveness import Owner
    from evodevo.storage.systems.status import ChildCounts, SystemCounts


def system(status: SystemStatus, names: Collection[str]) -> dict[str, Any]:
    """A system, with those of its agents that have one of the given names, and what they use."""
    tasks = {agent.task for agent in status.agents if agent.name in names}
    return {
        "system": status.system.name,
        "id": status.system.id,
        "seed": status.system.seed,
        "view": status.view,
        "parameters": {"distinct": status.distinct, "per_task": status.per_task, "pinned": status.pinned},
        "children": child_counts(status.children),
        "tasks": [
            {
                "task": task.name,
                "agents": list(task.agents),
                "best": task.best,
                **_answer(task.offer),
                "added": task.added,
                "shared": task.shared,
                "accounted": task.accounted,
            }
            for task in status.tasks
            if task.name in tasks
        ],
        "agents": [_agent(agent) for agent in status.agents if agent.name in names],
        "sharing": [asdict(use) for use in status.sharing if {use.user, use.maker} & set(names)],
    }


def child_counts(counts: ChildCounts) -> dict[str, int]:
    """Numbers of children by outcome."""
    return {
        "asked": counts.created,
        "waiting": counts.created - counts.finished,
        "kept": counts.kept,
        "discarded": counts.discarded,
        "failed": counts.failed,
    }


def courses(every: Mapping[str, Sequence[CycleSummary]]) -> dict[str, Any]:
    """Cycles by name of the agent."""
    return {
        name: [{**asdict(cycle), "children": child_counts(cycle.children)} for cycle in cycles]
        for name, cycles in every.items()
    }


def listed(counts: SystemCounts, owners: Mapping[str, Owner]) -> dict[str, Any]:
    """A system's entry in a list."""
    tasks = {agent.task for agent in counts.agents if not agent.settings.get("root")}
    holders = {str(owners[agent.id]) for agent in counts.agents if agent.id in owners}
    return {
        "system": counts.system.name,
        "id": counts.system.id,
        "tasks": len(tasks),
        "agents": len(counts.agents),
        "cycles": counts.cycles,
        "running": sorted(holders),
        "created": counts.system.created_at,
    }


def _agent(status: AgentStatus) -> dict[str, Any]:
    offer = {} if status.offer is None else asdict(status.offer)
    share = None if status.offer is None else status.offer.trained_share
    return {
        "agent": status.name,
        "class": status.kind,
        "task": status.task,
        "root": status.root,
        "state": status.state,
        "holder": status.holder,
        "cycles": status.cycles,
        "open_cycle": status.open,
        "children": child_counts(status.children),
        "last_cycle": child_counts(status.last),
        "offer": None
        if status.offer is None
        else {**offer, "inside": list(status.offer.inside), "trained_share": share},
    }


def _answer(offer: Offer | None) -> dict[str, Any]:
    facts = ("path", "quality", "score", "test")
    return {key: None if offer is None else getattr(offer, key) for key in facts}
