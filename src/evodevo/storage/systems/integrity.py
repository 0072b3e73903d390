"""Consistency checks of the rows of multitask systems that foreign keys and constraints cannot express."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, and_, select

from evodevo.errors import StoreDamagedError
from evodevo.storage.base import Damage
from evodevo.storage.systems import garbage as system_garbage
from evodevo.storage.systems import parts as system_parts
from evodevo.storage.systems import reading
from evodevo.storage.systems.base import component_key, path_id
from evodevo.storage.systems.schema import (
    agent_table,
    component_table,
    component_use_table,
    path_table,
    publication_table,
    subpath_table,
)


def problems(connection: Connection) -> Iterator[Damage]:
    """Changed and lost rows, ids that do not match their derivation, references into another system, and missing
    weights that are needed.
    """
    try:
        reading.every_agent(connection)
        for system in reading.systems(connection):
            _read(connection, system.id)
            names = {agent.id: agent.name for agent in reading.agents(connection, system.id)}
            yield from _ids(connection, system.id, names)
            yield from _publications(connection, system.id, names)
            yield from _weights(connection, system.id)
        yield from _strangers(connection)
    except StoreDamagedError as error:
        yield Damage("row", "systems", str(error))


def _read(connection: Connection, system_id: str) -> None:
    """Read everything that belongs to a system; seals are compared there."""
    reading.cycles(connection, system_id=system_id)
    paths = [path.id for path in reading.paths_of_system(connection, system_id)]
    system_parts.components(connection, system_id)
    system_parts.used(connection, paths)
    system_parts.subpaths_of(connection, paths)


def _ids(connection: Connection, system_id: str, names: dict[str, str]) -> Iterator[Damage]:
    path, component = path_table, component_table
    of_system = select(agent_table.c.run_id).where(agent_table.c.system_id == system_id)
    for row in connection.execute(select(path).where(path.c.agent_id.in_(of_system))):
        if row.individual_id != path_id(row.agent_id, row.number):
            subject = f"path {names[row.agent_id]}/{row.number}"
            yield Damage("row", subject, "its individual does not follow from its agent and number")
    query = (
        select(component, path.c.agent_id.label("maker"), path.c.first_component, path.c.end_component)
        .join(path, path.c.individual_id == component.c.individual_id)
        .where(component.c.agent_id.in_(of_system))
    )
    for row in connection.execute(query):
        subject = f"component {names[row.agent_id]}:{row.number}"
        if row.id != component_key(row.agent_id, row.number):
            yield Damage("row", subject, "its id does not follow from its agent and number")
        if row.maker != row.agent_id or not row.first_component <= row.number < row.end_component:
            yield Damage("row", subject, "its number was not set aside for the path that it was made for")


def _publications(connection: Connection, system_id: str, names: dict[str, str]) -> Iterator[Damage]:
    table = publication_table
    query = (
        select(table, path_table.c.agent_id.label("owner"))
        .outerjoin(path_table, path_table.c.individual_id == table.c.individual_id)
        .where(table.c.system_id == system_id)
        .order_by(table.c.seq)
    )
    for number, row in enumerate(connection.execute(query), start=1):
        subject = f"publication {row.seq} of {system_id}"
        if row.seq != number:
            yield Damage("row", subject, f"number {number} is missing before it")
            return
        if row.agent_id not in names:
            yield Damage("row", subject, "its agent belongs to another system")
        elif row.individual_id is not None and row.owner != row.agent_id:
            yield Damage("row", subject, "its path belongs to another agent")


def _weights(connection: Connection, system_id: str) -> Iterator[Damage]:
    needed = system_garbage.roots(connection, system_id)
    gone = {
        part.id for parts in system_parts.components_of(connection, needed).values() for part in parts if not part.held
    }
    for name in sorted(gone):
        yield Damage(
            "row",
            f"component {name}",
            "its weights are gone; go on with the cycle that made it, or withdraw the tasks that use it",
        )


def _strangers(connection: Connection) -> Iterator[Damage]:
    """Paths that use components or sub-paths of another system."""
    use, component, inner = component_use_table, component_table, subpath_table
    mine, theirs = agent_table.alias("mine"), agent_table.alias("theirs")
    own = path_table.alias("own")
    made_of = (
        select(own.c.individual_id)
        .join(mine, mine.c.run_id == own.c.agent_id)
        .join(use, use.c.individual_id == own.c.individual_id)
        .join(component, component.c.id == use.c.component_id)
        .join(theirs, and_(theirs.c.run_id == component.c.agent_id, theirs.c.system_id != mine.c.system_id))
    )
    through = (
        select(own.c.individual_id)
        .join(mine, mine.c.run_id == own.c.agent_id)
        .join(inner, inner.c.individual_id == own.c.individual_id)
        .join(path_table, path_table.c.individual_id == inner.c.subpath_id)
        .join(theirs, and_(theirs.c.run_id == path_table.c.agent_id, theirs.c.system_id != mine.c.system_id))
    )
    for individual in sorted(connection.execute(made_of.union(through)).scalars()):
        yield Damage("row", f"individual {individual}", "this path uses what belongs to another system")
