"""Publications and locks at a view, the publications that a cycle may see: functions over an open transaction."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from evodevo.storage import seals
from evodevo.storage.systems import sealing
from evodevo.storage.systems.base import Publication
from evodevo.storage.systems.parts import components_of
from evodevo.storage.systems.schema import agent_table, publication_table


def publications(connection: Connection, system_id: str, *, until: int | None = None) -> list[Publication]:
    """All publications up to a view, in order."""
    table = publication_table
    # All of them, also where a view needs some: the last ones of a system, too, may have been lost.
    rows = connection.execute(_PUBLICATIONS.where(table.c.system_id == system_id).order_by(table.c.seq)).all()
    digests = {}
    for row in rows:
        digests.update(sealing.publication(row._mapping))
    seals.confirm_all(connection, system_id, seals.PUBLICATION, digests)
    return [_publication(row) for row in rows if until is None or row.seq <= until]


def view_now(connection: Connection, system_id: str) -> int:
    """The largest seq of a publication; 0 where there is none."""
    return max((publication.seq for publication in publications(connection, system_id)), default=0)


def visible(connection: Connection, system_id: str, view: int) -> dict[str, Publication]:
    """Agent's name -> its publication valid at a view, in order of publication; withdrawn agents are left out."""
    latest: dict[str, Publication] = {}
    for publication in publications(connection, system_id, until=view):
        latest.pop(publication.agent, None)  # a replaced key would keep its place
        latest[publication.agent] = publication
    return {name: publication for name, publication in latest.items() if publication.path_id is not None}


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
