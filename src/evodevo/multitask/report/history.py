"""The cycles of one agent: children, published paths, and their accuracy. No numpy, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evodevo.multitask.recorded import ACCURACY, QUALITY, SCORE, TEST, deciding, value_of
from evodevo.multitask.report.status import AgentStatus
from evodevo.storage import Store
from evodevo.storage.systems.base import SystemRow
from evodevo.storage.systems.status import ChildCounts


@dataclass(frozen=True)
class CycleSummary:
    """One cycle.

    Attributes:
        number, round, view: number of the cycle, its round and its view; no round in the schedule ``free``.
        state: "open" or "closed".
        children: its children.
        path: the path that it published, "agent/number"; often an older one. None where it published nothing.
        quality, score: validation accuracy of that path, 0 to 1, and its score in its own cycle.
        test: accuracy on test data, where it was measured.
    """

    number: int
    round: int | None
    view: int
    state: Literal["open", "closed"]
    children: ChildCounts
    path: str | None
    quality: float | None
    score: float | None
    test: float | None


def course(store: Store, system: SystemRow, agent: AgentStatus) -> list[CycleSummary]:
    """The cycles of an agent, in order."""
    rows = [publication for publication in store.systems.publications(system.id) if publication.agent_id == agent.id]
    published = {row.cycle: row.path_id for row in rows if row.path_id is not None}
    individuals = sorted(set(published.values()))
    numbers = {row.id: row.number for row in store.systems.paths(agent.id)}
    evaluations = store.systems.evaluations_of(individuals)
    summaries = []
    for cycle in store.systems.cycles(agent_id=agent.id):
        path = published.get(cycle.number)
        results = [] if path is None else evaluations[path]
        tests = [result for result in results if result.fidelity == TEST and result.state == "done"]
        summaries.append(
            CycleSummary(
                cycle.number,
                cycle.round,
                cycle.view,
                cycle.state,
                agent.by_cycle.get(cycle.number, ChildCounts()),
                None if path is None else f"{agent.name}/{numbers[path]}",
                value_of(deciding(results), QUALITY),
                value_of(deciding(results), SCORE),
                value_of(tests[-1], ACCURACY) if tests else None,
            )
        )
    return summaries
