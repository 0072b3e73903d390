"""Read queries for multitask systems, from an open transaction to rows; a fixed number of statements per 500 rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, select

from evodevo.errors import NotFoundError, UsageError, quoted_list
from evodevo.storage import queries, seals
from evodevo.storage.base import EvaluationRow, EventRow, IndividualRow
from evodevo.storage.queries import read_names, read_object
from evodevo.storage.schema import evaluation_table, run_table
from evodevo.storage.systems import sealing
from evodevo.storage.systems.base import AgentRow, Counters, CycleRow, PathRow, SystemRow
from evodevo.storage.systems.schema import agent_table, cycle_table, path_table, system_table

BATCH = 500


def systems(connection: Connection) -> list[SystemRow]:
    """All systems of the store, oldest first."""
    rows = connection.execute(_SYSTEMS.order_by(run_table.c.created_seq)).all()
    digests = {}
    for row in rows:
        digests.update(sealing.system({"run_id": row.id, "name": row.name}))
    seals.confirm_all(connection, seals.STORE, seals.SYSTEM, digests)
    _confirm_runs(connection, rows)
    return [_system(row) for row in rows]


def find_system(connection: Connection, name: str) -> SystemRow:
    """A system by its name, its id, or a unique prefix of either; a whole name or id takes precedence.

    Raises:
        UsageError: Several systems begin with the text; the message lists them.
        NotFoundError: No system begins with it; the message has the names of some.
    """
    every = systems(connection)
    exact = [system for system in every if system.name == name] or [system for system in every if system.id == name]
    if exact:
        return exact[0]
    near = [system for system in every if name and (system.name.startswith(name) or system.id.startswith(name))]
    if len(near) == 1:
        return near[0]
    if near:
        raise UsageError(
            f"{name[:80]!r} is ambiguous: {quoted_list(system.name for system in near[:8])}. Give more of it."
        )
    names = quoted_list(system.name for system in every[:8]) or "none"
    raise NotFoundError(f"no system {name[:80]!r}. Systems here: {names}. Make one with: evodevo extend create.")


def agents(connection: Connection, system_id: str) -> list[AgentRow]:
    """The agents of a system in the order in which they were added, which is called "agent order"."""
    query = _AGENTS.where(agent_table.c.system_id == system_id).order_by(run_table.c.created_seq)
    rows = connection.execute(query).all()
    seals.confirm_all(connection, system_id, seals.AGENT, _sealed(sealing.agent, rows))
    _confirm_runs(connection, rows)
    return [_agent(row) for row in rows]


def every_agent(connection: Connection) -> list[AgentRow]:
    """The agents of all systems in the order in which they were added."""
    rows = connection.execute(_AGENTS.order_by(run_table.c.created_seq)).all()
    sealing.confirm_all(connection, seals.AGENT, select(system_table.c.run_id), _sealed(sealing.agent, rows))
    _confirm_runs(connection, rows)
    return [_agent(row) for row in rows]


def agent(connection: Connection, agent_id: str) -> AgentRow:
    """One agent by the id of its run.

    Raises:
        NotFoundError: No agent has that id.
    """
    row = connection.execute(_AGENTS.where(agent_table.c.run_id == agent_id)).first()
    if row is None:
        raise NotFoundError(f"no agent {agent_id!r} in this store.")
    own = {(row.system_id, key): digest for key, digest in sealing.agent(row._mapping).items()}
    seals.confirm(connection, seals.AGENT, own)
    _confirm_runs(connection, [row])
    return _agent(row)


def cycles(connection: Connection, *, agent_id: str | None = None, system_id: str | None = None) -> list[CycleRow]:
    """Cycles of an agent, or of all agents of a system, in the order in which they began."""
    table = cycle_table
    query = select(table).order_by(table.c.opened_seq)
    if agent_id is not None:
        query = query.where(table.c.agent_id == agent_id)
    if system_id is not None:
        query = query.where(table.c.agent_id.in_(sealing.agents_of(system_id)))
    rows = connection.execute(query).all()
    digests = _sealed(sealing.cycle, rows)
    if agent_id is not None:
        digests = {key: digest for key, digest in digests.items() if key.startswith(f"{agent_id}/")}
        seals.confirm_all(connection, agent_id, seals.CYCLE, digests)
    else:
        whose = select(agent_table.c.run_id) if system_id is None else sealing.agents_of(system_id)
        sealing.confirm_all(connection, seals.CYCLE, whose, digests)
    return [_cycle(row) for row in rows]


def open_cycle(connection: Connection, agent_id: str) -> CycleRow | None:
    """The open cycle of an agent, None where it has none."""
    return next((cycle for cycle in cycles(connection, agent_id=agent_id) if cycle.state == "open"), None)


def last_cycle(connection: Connection, agent_id: str) -> int:
    """The largest number of a cycle of an agent; -1 before its first."""
    return max((cycle.number for cycle in cycles(connection, agent_id=agent_id)), default=-1)


def paths(connection: Connection, agent_id: str, cycle: int | None = None) -> list[PathRow]:
    """Paths of an agent by number, of all cycles or of one; discarded ones included."""
    query = select(path_table).where(path_table.c.agent_id == agent_id)
    if cycle is not None:
        query = query.where(path_table.c.cycle == cycle)
    rows = connection.execute(query.order_by(path_table.c.number)).all()
    if cycle is None:
        seals.confirm_all(connection, agent_id, seals.PATH, _sealed(sealing.path, rows))
    else:
        _confirm_paths(connection, rows)
    return [_path(row) for row in rows]


def paths_of_system(connection: Connection, system_id: str) -> list[PathRow]:
    """All paths of a system."""
    query = select(path_table).where(path_table.c.agent_id.in_(sealing.agents_of(system_id)))
    rows = connection.execute(query).all()
    sealing.confirm_all(connection, seals.PATH, sealing.agents_of(system_id), _sealed(sealing.path, rows))
    return [_path(row) for row in rows]


def path(connection: Connection, individual: str) -> PathRow:
    """The path of an individual.

    Raises:
        NotFoundError: The individual is no path.
    """
    row = connection.execute(select(path_table).where(path_table.c.individual_id == individual)).first()
    if row is None:
        raise NotFoundError(f"individual {individual!r} is no path of a system.")
    _confirm_paths(connection, [row])
    return _path(row)


def paths_by_id(connection: Connection, individuals: Collection[str]) -> dict[str, PathRow]:
    """The paths among the given individuals."""
    paths_of = {}
    for batch in batches(individuals):
        rows = connection.execute(select(path_table).where(path_table.c.individual_id.in_(batch))).all()
        _confirm_paths(connection, rows)
        paths_of.update({row.individual_id: _path(row) for row in rows})
    return paths_of


def open_asks(connection: Connection, agent_id: str) -> list[PathRow]:
    """Paths of the open cycle without a result, by number; a resumed cycle evaluates these again."""
    ended = select(evaluation_table.c.individual_id).where(
        evaluation_table.c.individual_id == path_table.c.individual_id,
        evaluation_table.c.run_id == path_table.c.agent_id,
        evaluation_table.c.state.in_(("done", "failed")),
        evaluation_table.c.reason.is_distinct_from("lost"),
    )
    query = (
        select(path_table)
        .join(
            cycle_table,
            and_(cycle_table.c.agent_id == path_table.c.agent_id, cycle_table.c.number == path_table.c.cycle),
        )
        .where(path_table.c.agent_id == agent_id, cycle_table.c.state == "open", ~ended.exists())
    )
    rows = connection.execute(query.order_by(path_table.c.number)).all()
    _confirm_paths(connection, rows)
    return [_path(row) for row in rows]


def counters(connection: Connection, agent_id: str) -> Counters:
    """The first path and component numbers that the agent never used, not even for a discarded child."""
    known = paths(connection, agent_id)
    return Counters(
        1 + max((path.number for path in known), default=-1), max((path.end_component for path in known), default=0)
    )


def individuals(connection: Connection, ids: Collection[str]) -> dict[str, IndividualRow]:
    """The recorded individuals among the given ids."""
    return {row.id: row for batch in batches(ids) for row in queries.individuals_by_id(connection, batch)}


def evaluations_of(connection: Connection, ids: Collection[str]) -> dict[str, list[EvaluationRow]]:
    """Evaluations of each of these individuals in order of completion."""
    evaluations: dict[str, list[EvaluationRow]] = {individual: [] for individual in ids}
    for batch in batches(ids):
        for row in queries.evaluations(connection, individual_ids=batch):
            evaluations[row.individual_id].append(row)
    return evaluations


def events_of(connection: Connection, agent_ids: Collection[str], type: str) -> list[EventRow]:
    """Events of one type of these agents, in order."""
    found = [row for batch in batches(agent_ids) for row in queries.events_of(connection, batch, type)]
    return sorted(found, key=lambda row: row.seq)


def batches(names: Collection[str]) -> Iterator[list[str]]:
    """Batches of names that fit one statement: SQLite limits the number of bound values."""
    every = list(names)
    for start in range(0, len(every), BATCH):
        yield every[start : start + BATCH]


_SYSTEMS: Select[Any] = select(run_table, system_table.c.name).join(
    system_table, system_table.c.run_id == run_table.c.id
)


_AGENTS: Select[Any] = select(agent_table, run_table).join(run_table, run_table.c.id == agent_table.c.run_id)


def _sealed(digest: Callable[[Mapping[Any, Any]], dict[str, str]], rows: Sequence[Row[Any]]) -> dict[str, str]:
    return {key: value for row in rows for key, value in digest(row._mapping).items()}


def _confirm_paths(connection: Connection, rows: Sequence[Row[Any]]) -> None:
    digests = {(row.agent_id, row.individual_id): sealing.path(row._mapping)[row.individual_id] for row in rows}
    seals.confirm(connection, seals.PATH, digests)


def _confirm_runs(connection: Connection, rows: Sequence[Row[Any]]) -> None:
    """Compare the seals of the runs that systems or agents are."""
    digests = {(seals.STORE, row.id): seals.digest(run_table, row._mapping) for row in rows}
    seals.confirm(connection, seals.RUN, digests)


def _system(row: Row[Any]) -> SystemRow:
    settings = read_object(row.settings, f"the settings of run {row.id}")
    return SystemRow(row.id, row.name, row.seed, settings, row.created_at)


def _agent(row: Row[Any]) -> AgentRow:
    fields = row._mapping
    settings = read_object(row.settings, f"the settings of run {row.run_id}")
    return AgentRow(row.run_id, row.system_id, row.name, fields["class"], row.task, row.seed, settings)


def _cycle(row: Row[Any]) -> CycleRow:
    kept = read_names(row.retained, f"what cycle {row.number} of {row.agent_id} retains")
    return CycleRow(row.agent_id, row.number, row.round, row.view_seq, row.state, kept)


def _path(row: Row[Any]) -> PathRow:
    return PathRow(row.individual_id, row.agent_id, row.number, row.cycle, row.first_component, row.end_component)
