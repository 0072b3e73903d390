"""Read queries for the parts of paths: functions from an open transaction to components and sub-paths."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from evodevo.storage.schema import blob_reference_table
from evodevo.storage.systems.base import ComponentRow
from evodevo.storage.systems.reading import batches
from evodevo.storage.systems.schema import agent_table, component_table, component_use_table, subpath_table


def components(connection: Connection, system_id: str) -> list[ComponentRow]:
    """All components of a system, by agent and number."""
    query = _COMPONENTS.where(agent_table.c.system_id == system_id)
    return [_component(row) for row in connection.execute(query.order_by(agent_table.c.name, component_table.c.number))]


def components_of(connection: Connection, individuals: Collection[str]) -> dict[str, list[ComponentRow]]:
    """The components of each of these paths, in order, with their roles in it; none for a discarded path."""
    use = component_use_table
    components: dict[str, list[ComponentRow]] = {individual: [] for individual in individuals}
    for batch in batches(individuals):
        query = (
            _COMPONENTS.add_columns(use.c.individual_id.label("user"), use.c.role.label("place_role"))
            .join(use, use.c.component_id == component_table.c.id)
            .where(use.c.individual_id.in_(batch))
            .order_by(use.c.individual_id, use.c.place)
        )
        for row in connection.execute(query):
            components[row.user].append(replace(_component(row), role=row.place_role))
    return components


def components_of_path(connection: Connection, individual: str) -> list[ComponentRow]:
    """The components that were made for a path, by number."""
    query = _COMPONENTS.where(component_table.c.individual_id == individual).order_by(component_table.c.number)
    return [_component(row) for row in connection.execute(query)]


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
        for row in connection.execute(query):
            subpaths[row.individual_id].append(row.subpath_id)
    return subpaths


_HELD = (
    select(blob_reference_table.c.owner_id)
    .where(
        blob_reference_table.c.owner_kind == "component",
        blob_reference_table.c.owner_id == component_table.c.id,
        blob_reference_table.c.released == 0,
    )
    .exists()
    .label("held")
)


_COMPONENTS: Select[Any] = select(component_table, agent_table.c.name.label("agent_name"), _HELD).join(
    agent_table, agent_table.c.run_id == component_table.c.agent_id
)


def _component(row: Row[Any]) -> ComponentRow:
    name = f"{row.agent_name}:{row.number}"
    made_for = row.individual_id
    return ComponentRow(name, row.agent_id, row.number, row.role, row.parameters, row.digest, made_for, bool(row.held))
