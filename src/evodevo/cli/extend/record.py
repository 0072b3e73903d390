"""States of systems as plain data for programs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evodevo.multitask.report.history import CycleSummary
    from evodevo.multitask.report.status import AgentStatus, Offer, SystemStatus
    from evodevo.storage.liveness import Owner
    from evodevo.storage.systems.status import Fates, SystemCounts


def system(found: SystemStatus, names: Collection[str]) -> dict[str, Any]:
    """A system, with those of its agents that have one of the given names, and what they use."""
    tasks = {one.task for one in found.agents if one.name in names}
    return {
        "system": found.system.name,
        "id": found.system.id,
        "seed": found.system.seed,
        "view": found.view,
        "parameters": {"distinct": found.distinct, "per_task": found.per_task, "pinned": found.pinned},
        "children": fates(found.children),
        "tasks": [
            {
                "task": one.name,
                "agents": list(one.agents),
                "best": one.best,
                **_answer(one.offer),
                "added": one.added,
                "shared": one.shared,
                "accounted": one.accounted,
            }
            for one in found.tasks
            if one.name in tasks
        ],
        "agents": [_agent(one) for one in found.agents if one.name in names],
        "sharing": [asdict(one) for one in found.sharing if {one.user, one.maker} & set(names)],
    }


def fates(told: Fates) -> dict[str, int]:
    """Numbers of children by outcome."""
    return {
        "asked": told.asked,
        "waiting": told.asked - told.told,
        "kept": told.kept,
        "discarded": told.discarded,
        "failed": told.failed,
    }


def courses(every: Mapping[str, Sequence[CycleSummary]]) -> dict[str, Any]:
    """Cycles by name of the agent."""
    return {
        name: [{**asdict(one), "children": fates(one.children)} for one in cycles] for name, cycles in every.items()
    }


def listed(one: SystemCounts, owners: Mapping[str, Owner]) -> dict[str, Any]:
    """A system's entry in a list."""
    tasks = {agent.task for agent in one.agents if not agent.settings.get("root")}
    holders = {str(owners[agent.id]) for agent in one.agents if agent.id in owners}
    return {
        "system": one.system.name,
        "id": one.system.id,
        "tasks": len(tasks),
        "agents": len(one.agents),
        "cycles": one.cycles,
        "running": sorted(holders),
        "created": one.system.created_at,
    }


def _agent(one: AgentStatus) -> dict[str, Any]:
    offer = {} if one.offer is None else asdict(one.offer)
    share = None if one.offer is None else one.offer.trained_share
    return {
        "agent": one.name,
        "class": one.kind,
        "task": one.task,
        "root": one.root,
        "state": one.state,
        "holder": one.holder,
        "cycles": one.cycles,
        "open_cycle": one.open,
        "children": fates(one.children),
        "last_cycle": fates(one.last),
        "offer": None if one.offer is None else {**offer, "inside": list(one.offer.inside), "trained_share": share},
    }


def _answer(offer: Offer | None) -> dict[str, Any]:
    facts = ("path", "quality", "score", "test")
    return {key: None if offer is None else getattr(offer, key) for key in facts}
