"""What a cycle may see: functions from an open transaction and a view to publications and locks."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from evodevo.storage.systems.base import Publication
from evodevo.storage.systems.parts import components_of
from evodevo.storage.systems.schema import agent_table, publication_table


def publications(connection: Connection, system_id: str, *, until: int | None = None) -> list[Publication]:
    """What was published, in order, up to a view."""
    table = publication_table
    query = _PUBLICATIONS.where(table.c.system_id == system_id).order_by(table.c.seq)
    if until is not None:
        query = query.where(table.c.seq <= until)
    return [_publication(row) for row in connection.execute(query)]


def view_now(connection: Connection, system_id: str) -> int:
    """The largest seq that was published; 0 where nothing was."""
    query = select(func.max(publication_table.c.seq)).where(publication_table.c.system_id == system_id)
    return int(connection.execute(query).scalar() or 0)


def visible(connection: Connection, system_id: str, view: int) -> dict[str, Publication]:
    """Agent's name -> what it offers at a view, in the order of publication; whoever withdrew is not in it."""
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
    """Component -> names of the agents whose publication at the view uses it. What a multipath one merely runs
    through is pinned, not locked (docs/spec/munet.md#components)."""
    offered = visible(connection, system_id, view)
    users: dict[str, set[str]] = defaultdict(set)
    used = components_of(connection, [one.path_id for one in offered.values() if one.path_id is not None])
    for name, one in offered.items():
        for component in used[one.path_id or ""]:
            users[component.id].add(name)
    return {component: frozenset(names) for component, names in sorted(users.items())}


_PUBLICATIONS: Select[Any] = select(publication_table, agent_table.c.name).join(
    agent_table, agent_table.c.run_id == publication_table.c.agent_id
)


def _publication(row: Row[Any]) -> Publication:
    return Publication(row.seq, row.agent_id, row.name, row.cycle, row.individual_id)
