"""Seals of the rows of multitask systems; see ``storage/seals.py``.

A system's seal belongs to the store, those of agents and publications to their system, all others to their agent. What
a path consists of has one seal for all rows of the path, so that a lost row is noticed, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, and_, select

from evodevo.storage import seals
from evodevo.storage.schema import blob_reference_table, seal_table
from evodevo.storage.systems.schema import (
    agent_table,
    component_table,
    component_use_table,
    cycle_table,
    path_table,
    publication_table,
    subpath_table,
    system_table,
)

_IN_ORDER: Mapping[str, Table] = {seals.USES: component_use_table, seals.SUBPATHS: subpath_table}
"""Kinds of rows of which a path has several -> their table."""
_COLUMNS = {seals.USES: ("role", "place", "component_id"), seals.SUBPATHS: ("subpath_id", "place")}
"""Columns that count, that by which the rows are ordered in a digest first."""


def system(row: Mapping[Any, Any]) -> dict[str, str]:
    """Key of the seal -> digest, of one row; so do the next ones."""
    return {row["run_id"]: seals.digest(system_table, row)}


def agent(row: Mapping[Any, Any]) -> dict[str, str]:
    return {row["run_id"]: seals.digest(agent_table, row)}


def cycle(row: Mapping[Any, Any]) -> dict[str, str]:
    return {f"{row['agent_id']}/{row['number']}": seals.digest(cycle_table, row)}


def path(row: Mapping[Any, Any]) -> dict[str, str]:
    return {row["individual_id"]: seals.digest(path_table, row)}


def component(row: Mapping[Any, Any]) -> dict[str, str]:
    return {row["id"]: seals.digest(component_table, row)}


def publication(row: Mapping[Any, Any]) -> dict[str, str]:
    return {f"{row['system_id']}/{row['seq']}": seals.digest(publication_table, row)}


def in_order(kind: str, rows: Iterable[Mapping[Any, Any]]) -> dict[str, str]:
    """Path -> digest of all its rows of a kind, ``USES`` or ``SUBPATHS``."""
    table = _IN_ORDER[kind]
    of_path: dict[str, list[list[Any]]] = defaultdict(list)
    for row in rows:
        of_path[row["individual_id"]].append([row[column] for column in _COLUMNS[kind]])
    return {name: seals.digest(table, {"individual_id": name}, own) for name, own in of_path.items()}


def agents_of(system_id: str) -> Select[Any]:
    """A query for the ids of the agents of a system."""
    return select(agent_table.c.run_id).where(agent_table.c.system_id == system_id)


def confirm_all(connection: Connection, kind: str, runs: Select[Any], digests: Mapping[str, str]) -> None:
    """Refuse rows that are not exactly those that were written for some runs; ``runs`` is a query for their ids.

    Raises:
        StoreDamagedError: A row has another digest, is missing, or was never written.
    """
    table = seal_table
    query = select(table.c.key, table.c.digest).where(table.c.run_id.in_(runs), table.c.kind == kind)
    seals.confirm_written(connection, query, kind, digests)


def confirm_of_paths(connection: Connection, kind: str, paths: Collection[str], digests: Mapping[str, str]) -> None:
    """The same for what these paths, a few hundred at most, consist of."""
    table = seal_table
    own = and_(table.c.run_id == path_table.c.agent_id, table.c.kind == kind, table.c.key == path_table.c.individual_id)
    query = select(table.c.key, table.c.digest).join(path_table, own).where(path_table.c.individual_id.in_(list(paths)))
    seals.confirm_written(connection, query, kind, digests)


def confirm_components(connection: Connection, rows: Iterable[Row[Any]], whole: Select[Any] | None = None) -> None:
    """Compare the seals of components and of their references, read together with ``WITH_WEIGHTS``.

    Args:
        connection: Connection with an open transaction.
        rows: Rows of that query, a component perhaps twice.
        whole: Query for the agents of which these are all components; None where they are some.
    """
    made: dict[tuple[str, str], str] = {}
    held: dict[tuple[str, str], str] = {}
    for row in rows:
        fields = row._mapping
        made |= {(row.agent_id, key): digest for key, digest in component(fields).items()}
        columns = {column.name: fields[f"weights_{column.name}"] for column in blob_reference_table.columns}
        # Where the reference was lost, the digest is that of a row without contents, which no seal has.
        key = f"component/{row.id}/{WEIGHTS}"
        held[row.agent_id, key] = seals.digest(blob_reference_table, columns)
    for kind, digests in ((seals.COMPONENT, made), (seals.WEIGHTS, held)):
        if whole is None:
            seals.confirm(connection, kind, digests)
        else:
            confirm_all(connection, kind, whole, {key: digest for (_, key), digest in digests.items()})


WEIGHTS = "weights"
"""Role of a component's blob."""
_OWN = and_(
    blob_reference_table.c.owner_kind == "component",
    blob_reference_table.c.owner_id == component_table.c.id,
    blob_reference_table.c.role == WEIGHTS,
)
WITH_WEIGHTS: Select[Any] = select(
    component_table,
    agent_table.c.name.label("agent_name"),
    *(column.label(f"weights_{column.name}") for column in blob_reference_table.columns),
).select_from(
    component_table.join(agent_table, agent_table.c.run_id == component_table.c.agent_id).outerjoin(
        blob_reference_table, _OWN
    )
)
"""Components, with the names of their agents and with their references to blobs."""
