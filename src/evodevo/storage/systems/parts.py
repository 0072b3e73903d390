"""Read queries for the parts of paths: functions from an open transaction to components and sub-paths."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, select

from evodevo.errors import StoreDamagedError
from evodevo.storage import seals
from evodevo.storage.systems import sealing
from evodevo.storage.systems.base import ComponentRow
from evodevo.storage.systems.reading import batches
from evodevo.storage.systems.schema import agent_table, component_table, component_use_table, subpath_table


def components(connection: Connection, system_id: str) -> list[ComponentRow]:
    """All components of a system, by agent and number."""
    query = _COMPONENTS.where(agent_table.c.system_id == system_id)
    rows = connection.execute(query.order_by(agent_table.c.name, component_table.c.number)).all()
    sealing.confirm_components(connection, rows, sealing.agents_of(system_id))
    return [_component(row) for row in rows]


def components_of(connection: Connection, individuals: Collection[str]) -> dict[str, list[ComponentRow]]:
    """The components of each of these paths, in order, with their roles in it; none for a discarded path."""
    components: dict[str, list[ComponentRow]] = {individual: [] for individual in individuals}
    for batch in batches(individuals):
        uses = _uses(connection, batch)
        names = {row.component_id for row in uses}
        made = {}
        for some in batches(names):
            rows = connection.execute(_COMPONENTS.where(component_table.c.id.in_(some))).all()
            sealing.confirm_components(connection, rows)
            made.update({row.id: _component(row) for row in rows})
        for row in uses:
            if row.component_id not in made:
                raise StoreDamagedError(f"path {row.individual_id} uses a component that is not there. {seals.NEXT}")
            components[row.individual_id].append(replace(made[row.component_id], role=row.role))
    return components


def used(connection: Connection, individuals: Collection[str]) -> set[str]:
    """Keys of the components of these paths."""
    return {row.component_id for batch in batches(individuals) for row in _uses(connection, batch)}


def _uses(connection: Connection, batch: Collection[str]) -> Sequence[Row[Any]]:
    use = component_use_table
    query = select(use).where(use.c.individual_id.in_(batch)).order_by(use.c.individual_id, use.c.place)
    rows = connection.execute(query).all()
    digests = sealing.in_order(seals.USES, (row._mapping for row in rows))
    sealing.confirm_of_paths(connection, seals.USES, batch, digests)
    return rows


def components_of_path(connection: Connection, individual: str) -> list[ComponentRow]:
    """The components that were made for a path, by number."""
    query = _COMPONENTS.where(component_table.c.individual_id == individual).order_by(component_table.c.number)
    rows = connection.execute(query).all()
    sealing.confirm_components(connection, rows)
    return [_component(row) for row in rows]


def missing_components(connection: Connection, names: dict[str, str]) -> list[str]:
    """The names of the components that are not recorded.

    Args:
        connection: Connection with an open transaction.
        names: Key of a component -> its name.
    """
    there: set[str] = set()
    for batch in batches(names):
        there.update(connection.execute(select(component_table.c.id).where(component_table.c.id.in_(batch))).scalars())
    return [name for key, name in names.items() if key not in there]


def subpaths_of(connection: Connection, individuals: Collection[str]) -> dict[str, list[str]]:
    """The ids of the sub-paths of each of these multipath individuals, the main path first."""
    table = subpath_table
    subpaths: dict[str, list[str]] = {individual: [] for individual in individuals}
    for batch in batches(individuals):
        query = select(table).where(table.c.individual_id.in_(batch)).order_by(table.c.individual_id, table.c.place)
        rows = connection.execute(query).all()
        digests = sealing.in_order(seals.SUBPATHS, (row._mapping for row in rows))
        sealing.confirm_of_paths(connection, seals.SUBPATHS, batch, digests)
        for row in rows:
            subpaths[row.individual_id].append(row.subpath_id)
    return subpaths


_COMPONENTS = sealing.WITH_WEIGHTS


def _component(row: Row[Any]) -> ComponentRow:
    name = f"{row.agent_name}:{row.number}"
    made_for = row.individual_id
    held = row.weights_released == 0
    return ComponentRow(name, row.agent_id, row.number, row.role, row.parameters, row.digest, made_for, held)
