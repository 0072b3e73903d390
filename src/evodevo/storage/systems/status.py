"""Status of a multitask system, read in one transaction with a number of statements that does not grow with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, and_, case, func, select

from evodevo.storage import queries
from evodevo.storage.base import EvaluationRow
from evodevo.storage.schema import evaluation_table, event_table
from evodevo.storage.systems import parts as system_parts
from evodevo.storage.systems import reading, sealing
from evodevo.storage.systems import views as system_views
from evodevo.storage.systems.base import AgentRow, ComponentRow, CycleRow, PathRow, Publication, SystemRow
from evodevo.storage.systems.schema import agent_table, component_use_table, path_table


@dataclass(frozen=True)
class ChildCounts:
    """Numbers of children of a cycle.

    Attributes:
        created: Number of recorded children.
        finished: Number of finished children.
        kept: Number of finished children whose components were stored.
        failed: Number of finished children whose evaluation failed.
    """

    created: int = 0
    finished: int = 0
    kept: int = 0
    failed: int = 0

    @property
    def discarded(self) -> int:
        """Number of children that were trained to the end and not kept."""
        return self.finished - self.kept - self.failed

    def __add__(self, other: ChildCounts) -> ChildCounts:
        return ChildCounts(
            self.created + other.created,
            self.finished + other.finished,
            self.kept + other.kept,
            self.failed + other.failed,
        )


@dataclass(frozen=True)
class SystemMoment:
    """The records that the status of a system shows, all from one transaction.

    Attributes:
        agents: Agents in the order in which they were added.
        cycles: Cycles in the order in which they began.
        children: (Agent's id, number of a cycle) -> numbers of its children.
        published: Agent's id -> its publications, in order.
        offers: Agent's name -> its current publication.
        subpaths: Published individual -> ids of its sub-paths, the main path first.
        paths: Individual -> its path, for published individuals and their sub-paths.
        parts: Individual -> its components, for published individuals and their sub-paths.
        evaluations: Individual -> all its evaluations, for published individuals.
        withdrawn: Ids of the agents that were withdrawn.
    """

    agents: tuple[AgentRow, ...]
    cycles: tuple[CycleRow, ...]
    children: Mapping[tuple[str, int], ChildCounts]
    published: Mapping[str, tuple[Publication, ...]]
    offers: Mapping[str, Publication]
    subpaths: Mapping[str, list[str]]
    paths: Mapping[str, PathRow]
    parts: Mapping[str, list[ComponentRow]]
    evaluations: Mapping[str, list[EvaluationRow]]
    withdrawn: frozenset[str]


@dataclass(frozen=True)
class SystemCounts:
    """A system in a list, with its agents and the number of closed cycles of all of them."""

    system: SystemRow
    agents: tuple[AgentRow, ...]
    cycles: int


def moment(connection: Connection, system_id: str, fidelity: str, withdrawal: str) -> SystemMoment:
    """The current status of a system.

    Args:
        connection: Connection with an open transaction.
        system_id: Id of the system.
        fidelity: Fidelity of the evaluations that decide about children.
        withdrawal: Type of the event by which an agent ends.
    """
    published: dict[str, list[Publication]] = {}
    offers: dict[str, Publication] = {}
    for publication in system_views.publications(connection, system_id):
        published.setdefault(publication.agent_id, []).append(publication)
        # A dictionary keeps the position of a replaced key, but offers are in order of publication.
        offers.pop(publication.agent, None)
        if publication.path_id is not None:
            offers[publication.agent] = publication
    individuals = [publication.path_id for publication in offers.values() if publication.path_id is not None]
    subpaths = system_parts.subpaths_of(connection, individuals)
    every = list(dict.fromkeys([*individuals, *(sub for inside in subpaths.values() for sub in inside)]))
    return SystemMoment(
        tuple(reading.agents(connection, system_id)),
        tuple(reading.cycles(connection, system_id=system_id)),
        _child_counts(connection, system_id, fidelity),
        {agent: tuple(rows) for agent, rows in published.items()},
        offers,
        subpaths,
        reading.paths_by_id(connection, every),
        system_parts.components_of(connection, every),
        reading.evaluations_of(connection, individuals),
        _withdrawn(connection, [agent for agent, rows in published.items() if rows[-1].path_id is None], withdrawal),
    )


def _child_counts(connection: Connection, system_id: str, fidelity: str) -> dict[tuple[str, int], ChildCounts]:
    """(Agent's id, number of a cycle) -> numbers of its children that were recorded, finished, kept and failed."""
    # What is counted is compared with its seals first.
    system_parts.used(connection, [path.id for path in reading.paths_of_system(connection, system_id)])
    queries.confirm_evaluations(connection, sealing.agents_of(system_id))
    table, use = evaluation_table, component_use_table
    # A path that repair marked as lost is evaluated again, so the last result decides.
    last = (
        select(table.c.individual_id, func.max(table.c.finished_seq).label("seq"))
        .join(agent_table, agent_table.c.run_id == table.c.run_id)
        .where(
            agent_table.c.system_id == system_id,
            table.c.fidelity == fidelity,
            table.c.state.in_(("done", "failed")),
            table.c.reason.is_distinct_from("lost"),
        )
        .group_by(table.c.individual_id)
        .subquery()
    )
    kept = select(use.c.individual_id).where(use.c.individual_id == path_table.c.individual_id).exists()
    query = (
        select(
            path_table.c.agent_id,
            path_table.c.cycle,
            func.count().label("created"),
            func.count(last.c.seq).label("finished"),
            func.sum(case((kept, 1), else_=0)).label("kept"),
            func.sum(case((table.c.state == "failed", 1), else_=0)).label("failed"),
        )
        .join(agent_table, agent_table.c.run_id == path_table.c.agent_id)
        .outerjoin(last, last.c.individual_id == path_table.c.individual_id)
        .outerjoin(table, and_(table.c.individual_id == last.c.individual_id, table.c.finished_seq == last.c.seq))
        .where(agent_table.c.system_id == system_id)
        .group_by(path_table.c.agent_id, path_table.c.cycle)
    )
    return {
        (row.agent_id, row.cycle): ChildCounts(row.created, row.finished, row.kept, row.failed)
        for row in connection.execute(query)
    }


def listing(connection: Connection) -> list[SystemCounts]:
    """All systems of the store with their agents, oldest first."""
    agents: dict[str, list[AgentRow]] = {}
    for agent in reading.every_agent(connection):
        agents.setdefault(agent.system_id, []).append(agent)
    of_system = {agent.id: system for system, inside in agents.items() for agent in inside}
    cycles = Counter(of_system.get(cycle.agent_id) for cycle in reading.cycles(connection) if cycle.state == "closed")
    return [
        SystemCounts(system, tuple(agents.get(system.id, ())), cycles[system.id])
        for system in reading.systems(connection)
    ]


def _withdrawn(connection: Connection, without_path: list[str], withdrawal: str) -> frozenset[str]:
    # An agent whose children all failed publishes nothing either: only the event distinguishes the two.
    table, withdrawn = event_table, set[str]()
    for batch in reading.batches(without_path):
        query = select(table.c.run_id).where(table.c.run_id.in_(batch), table.c.type == withdrawal)
        withdrawn.update(connection.execute(query).scalars())
    return frozenset(withdrawn)
