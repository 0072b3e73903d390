"""Garbage collection of components: which ones are reachable from publications and open cycles.

Rows are permanent; the weights of unreachable components may be deleted (docs/spec/munet.md#stored-system).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime

from sqlalchemy import Connection, and_, func, select

from evodevo.storage import recording
from evodevo.storage.schema import blob_reference_table, evaluation_table, individual_table
from evodevo.storage.systems import parts as system_parts
from evodevo.storage.systems import reading, sealing
from evodevo.storage.systems import views as system_views
from evodevo.storage.systems.schema import agent_table, component_table, cycle_table, path_table

CLOCK_SLACK_SECONDS = 60.0

_OF_CYCLE = and_(cycle_table.c.agent_id == path_table.c.agent_id, cycle_table.c.number == path_table.c.cycle)


def roots(connection: Connection, system_id: str) -> set[str]:
    """Ids of the individuals whose weights are needed.

    These are the last publications; the individuals visible at the views of open cycles and at the newest view that
    any cycle had (agents of the same round may not have begun yet); the paths of open cycles; the individuals that
    agents retain; and all sub-paths of these.
    """
    cycles = reading.cycles(connection, system_id=system_id)
    running = [cycle for cycle in cycles if cycle.state == "open"]
    views = {system_views.view_now(connection, system_id), *(cycle.view for cycle in running)}
    views.add(max((cycle.view for cycle in cycles), default=0))
    needed = {
        publication.path_id
        for view in views
        for publication in system_views.visible(connection, system_id, view).values()
        if publication.path_id is not None
    }
    for cycle in running:
        needed.update(path.id for path in reading.paths(connection, cycle.agent_id, cycle.number))
    # Cycles come in order, so that the last closed one of each agent overwrites the others.
    closed = {cycle.agent_id: cycle for cycle in cycles if cycle.state == "closed"}
    needed.update(individual for cycle in closed.values() for individual in cycle.retained)
    return _with_subpaths(connection, needed)


def reachable(connection: Connection) -> set[str]:
    """Keys of the components that must keep their weights, in all systems of the store."""
    needed: set[str] = set()
    for system in reading.systems(connection):
        needed |= system_parts.used(connection, roots(connection, system.id))
    return needed


def unreachable(connection: Connection) -> list[str]:
    """Keys of the unreachable components that still hold weights."""
    rows = connection.execute(sealing.WITH_WEIGHTS.order_by(component_table.c.id)).all()
    sealing.confirm_components(connection, rows, select(agent_table.c.run_id))
    keys = [row.id for row in rows if row.weights_released == 0]
    if not keys:
        return []
    needed = reachable(connection)
    return [key for key in keys if key not in needed]


def release(connection: Connection, keys: Iterable[str]) -> None:
    """Release the weights of components; their rows stay as history."""
    reference, component = blob_reference_table, component_table
    for batch in reading.batches(list(keys)):
        whose: dict[str, list[str]] = defaultdict(list)
        for row in connection.execute(select(component.c.id, component.c.agent_id).where(component.c.id.in_(batch))):
            whose[row.agent_id].append(row.id)
        for agent, own in whose.items():
            recording.release(connection, agent, reference.c.owner_kind == "component", reference.c.owner_id.in_(own))


def evaluations_to_redo(connection: Connection, key: str) -> list[str]:
    """Ids of the finished evaluations of a component's path; none where its cycle is closed."""
    query = (
        select(evaluation_table.c.id)
        .join(path_table, path_table.c.individual_id == evaluation_table.c.individual_id)
        .join(component_table, component_table.c.individual_id == path_table.c.individual_id)
        .join(cycle_table, _OF_CYCLE)
        .where(component_table.c.id == key, cycle_table.c.state == "open", evaluation_table.c.state == "done")
    )
    return list(connection.execute(query).scalars())


def oldest_ask_seconds(connection: Connection) -> float:
    """Seconds since the oldest unfinished path of an open cycle was recorded; 0 where there is none.

    A worker may have put its blobs at any time since then, and no row refers to them yet.
    """
    done = select(evaluation_table.c.id).where(
        evaluation_table.c.individual_id == path_table.c.individual_id, evaluation_table.c.state == "done"
    )
    query = (
        select(func.min(individual_table.c.created_at))
        .join(path_table, path_table.c.individual_id == individual_table.c.id)
        .join(cycle_table, _OF_CYCLE)
        .where(cycle_table.c.state == "open", ~done.exists())
    )
    oldest = connection.execute(query).scalar()
    if oldest is None:
        return 0.0
    # The ages of files follow the wall clock too; the slack covers small corrections of that clock.
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(oldest)).total_seconds()) + CLOCK_SLACK_SECONDS


def _with_subpaths(connection: Connection, individuals: set[str]) -> set[str]:
    reached, fresh = set(individuals), set(individuals)
    while fresh:
        inside = system_parts.subpaths_of(connection, fresh)
        fresh = {subpath for own in inside.values() for subpath in own} - reached
        reached |= fresh
    return reached
