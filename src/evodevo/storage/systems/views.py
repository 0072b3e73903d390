"""Publications and locks at a view, the publications that a cycle may see: functions over an open transaction."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from evodevo.storage.systems.base import Publication
from evodevo.storage.systems.parts import components_of
from evodevo.storage.systems.schema import agent_table, publication_table


def publications(connection: Connection, system_id: str, *, until: int | None = None) -> list[Publication]:
    """All publications up to a view, in order."""
    table = publication_table
    query = _PUBLICATIONS.where(table.c.system_id == system_id).order_by(table.c.seq)
    if until is not None:
        query = query.where(table.c.seq <= until)
    return [_publication(row) for row in connection.execute(query)]


def view_now(connection: Connection, system_id: str) -> int:
    """The largest seq of a publication; 0 where there is none."""
    query = select(func.max(publication_table.c.seq)).where(publication_table.c.system_id == system_id)
    return int(connection.execute(query).scalar() or 0)


def visible(connection: Connection, system_id: str, view: int) -> dict[str, Publication]:
    """Agent's name -> its publication valid at a view, in order of publication; withdrawn agents are left out."""
    table = publication_table
    latest = (
        select(func.max(table.c.seq))
        .where(table.c.system_id == system_id, table.c.seq <= view)
        .group_by(table.c.agent_id)
    )
    chosen = (table.c.system_id == system_id, table.c.seq.in_(latest), table.c.individual_id.is_not(None))
    query = _PUBLICATIONS.where(*chosen).order_by(table.c.seq)
    return {row.name: _publication(row) for row in connection.execute(query)}


def locks(connection: Connection, system_id: str, view: int) -> dict[str, frozenset[str]]:
    """Component -> names of the agents whose publication at the view uses it.

    Components of the sub-paths of a multipath individual are pinned, not locked (docs/spec/munet.md#components).
    """
    offered = visible(connection, system_id, view)
    users: dict[str, set[str]] = defaultdict(set)
    used = components_of(
        connection, [publication.path_id for publication in offered.values() if publication.path_id is not None]
    )
    for name, publication in offered.items():
        for component in used[publication.path_id or ""]:
            users[component.id].add(name)
    return {component: frozenset(names) for component, names in sorted(users.items())}


_PUBLICATIONS: Select[Any] = select(publication_table, agent_table.c.name).join(
    agent_table, agent_table.c.run_id == publication_table.c.agent_id
)


def _publication(row: Row[Any]) -> Publication:
    return Publication(row.seq, row.agent_id, row.name, row.cycle, row.individual_id)
