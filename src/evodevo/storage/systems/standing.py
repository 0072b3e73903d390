"""How a system stands, read in one transaction: so many questions, however many agents and children there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, and_, case, func, select

from evodevo.storage.base import EvaluationRow
from evodevo.storage.schema import evaluation_table, event_table
from evodevo.storage.systems import parts as system_parts
from evodevo.storage.systems import reading
from evodevo.storage.systems import views as system_views
from evodevo.storage.systems.base import AgentRow, ComponentRow, CycleRow, PathRow, Publication, SystemRow
from evodevo.storage.systems.schema import agent_table, component_use_table, cycle_table, path_table


@dataclass(frozen=True)
class Fates:
    """Children of one cycle: ``told`` have a result, of which ``failed`` ended without one and ``kept`` are made of
    components."""

    asked: int = 0
    told: int = 0
    kept: int = 0
    failed: int = 0

    @property
    def discarded(self) -> int:
        """Trained to the end, and not good enough."""
        return self.told - self.kept - self.failed

    def __add__(self, other: Fates) -> Fates:
        return Fates(
            self.asked + other.asked, self.told + other.told, self.kept + other.kept, self.failed + other.failed
        )


@dataclass(frozen=True)
class SystemMoment:
    """What is recorded of a system at one moment, as far as its status tells of it.

    Attributes:
        agents: in the order in which they were added.
        cycles: in the order in which they began.
        fates: (agent's id, number of a cycle) -> its children.
        published: agent's id -> its publications, in order.
        offers: agent's name -> what it offers.
        subpaths: individual that is offered -> individuals inside it, the main path first.
        paths: individual -> where it stands; of those that are offered, and those inside them.
        parts: individual -> its components, of the same.
        evaluations: individual -> all its evaluations, of those that are offered.
        withdrawn: ids of the agents that offer nothing any more because somebody said so.
    """

    agents: tuple[AgentRow, ...]
    cycles: tuple[CycleRow, ...]
    fates: Mapping[tuple[str, int], Fates]
    published: Mapping[str, tuple[Publication, ...]]
    offers: Mapping[str, Publication]
    subpaths: Mapping[str, list[str]]
    paths: Mapping[str, PathRow]
    parts: Mapping[str, list[ComponentRow]]
    evaluations: Mapping[str, list[EvaluationRow]]
    withdrawn: frozenset[str]


@dataclass(frozen=True)
class SystemCounts:
    """One system of a list; ``cycles`` are those that ended, of all its agents."""

    system: SystemRow
    agents: tuple[AgentRow, ...]
    cycles: int


def moment(connection: Connection, system_id: str, fidelity: str, withdrawal: str) -> SystemMoment:
    """A system now.

    Args:
        connection: an open transaction.
        system_id: of the system.
        fidelity: of the evaluations that decide about children.
        withdrawal: type of the event by which an agent ends.
    """
    published: dict[str, list[Publication]] = {}
    offers: dict[str, Publication] = {}
    for one in system_views.publications(connection, system_id):
        published.setdefault(one.agent_id, []).append(one)
        offers.pop(one.agent, None)  # the order is that of what is offered now
        if one.path_id is not None:
            offers[one.agent] = one
    individuals = [one.path_id for one in offers.values() if one.path_id is not None]
    subpaths = system_parts.subpaths_of(connection, individuals)
    every = list(dict.fromkeys([*individuals, *(sub for inside in subpaths.values() for sub in inside)]))
    return SystemMoment(
        tuple(reading.agents(connection, system_id)),
        tuple(reading.cycles(connection, system_id=system_id)),
        fates(connection, system_id, fidelity),
        {agent: tuple(rows) for agent, rows in published.items()},
        offers,
        subpaths,
        reading.paths_by_id(connection, every),
        system_parts.components_of(connection, every),
        reading.evaluations_of(connection, individuals),
        _withdrawn(connection, [agent for agent, rows in published.items() if rows[-1].path_id is None], withdrawal),
    )


def fates(connection: Connection, system_id: str, fidelity: str) -> dict[tuple[str, int], Fates]:
    """(Agent's id, number of a cycle) -> how many of its children were asked for, told, kept, and failed."""
    table, use = evaluation_table, component_use_table
    # A path that repair calls lost is done again, so the result that came last decides.
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
            func.count().label("asked"),
            func.count(last.c.seq).label("told"),
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
        (row.agent_id, row.cycle): Fates(row.asked, row.told, row.kept, row.failed) for row in connection.execute(query)
    }


def listing(connection: Connection) -> list[SystemCounts]:
    """All systems of the store with their agents, oldest first."""
    agents: dict[str, list[AgentRow]] = {}
    for one in reading.every_agent(connection):
        agents.setdefault(one.system_id, []).append(one)
    closed = (
        select(agent_table.c.system_id, func.count())
        .join(cycle_table, cycle_table.c.agent_id == agent_table.c.run_id)
        .where(cycle_table.c.state == "closed")
        .group_by(agent_table.c.system_id)
    )
    cycles = {system: int(count) for system, count in connection.execute(closed)}
    return [
        SystemCounts(one, tuple(agents.get(one.id, ())), cycles.get(one.id, 0)) for one in reading.systems(connection)
    ]


def _withdrawn(connection: Connection, silent: list[str], withdrawal: str) -> frozenset[str]:
    # An agent whose children all failed publishes nothing either: the event tells them apart.
    table, found = event_table, set[str]()
    for batch in reading.batches(silent):
        query = select(table.c.run_id).where(table.c.run_id.in_(batch), table.c.type == withdrawal)
        found.update(connection.execute(query).scalars())
    return frozenset(found)
