"""Schema version 4: seals of the rows of multitask systems. Those of the rows that are there hold from now on."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

from evodevo.storage import seals
from evodevo.storage.queries import sealed_references
from evodevo.storage.schema import blob_reference_table
from evodevo.storage.systems import schema, sealing

revision = "0004"
down_revision = "0003"

EVODEVO = "0.1.0"


def upgrade() -> None:
    seal(op.get_bind())
    op.execute(f"UPDATE property SET value = '{EVODEVO}' WHERE key = 'evodevo'")


def seal(connection: sa.Connection) -> None:
    """Seal the rows that are there."""

    def rows(table: sa.Table) -> list[Mapping[Any, Any]]:
        return list(connection.execute(sa.select(table)).mappings())

    def put(kind: str, table: sa.Table, digest: Callable[[Mapping[Any, Any]], dict[str, str]], owner: str) -> None:
        """Seal all rows of a table; ``owner`` is the column with the run to which they belong, or no column."""
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for row in rows(table):
            found[row[owner] if owner else seals.STORE].update(digest(row))
        for run_id, digests in found.items():
            seals.put(connection, run_id, kind, digests)

    put(seals.SYSTEM, schema.system_table, sealing.system, "")
    put(seals.AGENT, schema.agent_table, sealing.agent, "system_id")
    put(seals.CYCLE, schema.cycle_table, sealing.cycle, "agent_id")
    put(seals.PATH, schema.path_table, sealing.path, "agent_id")
    put(seals.COMPONENT, schema.component_table, sealing.component, "agent_id")
    put(seals.PUBLICATION, schema.publication_table, sealing.publication, "system_id")
    # Where a row of a damaged store belongs to nothing, nobody looks for its seal there, and readers say so.
    agents = {row["individual_id"]: row["agent_id"] for row in rows(schema.path_table)}
    for kind, table in ((seals.USES, schema.component_use_table), (seals.SUBPATHS, schema.subpath_table)):
        for path, digest in sealing.in_order(kind, rows(table)).items():
            seals.put(connection, agents.get(path, seals.STORE), kind, {path: digest})
    makers = {row["id"]: row["agent_id"] for row in rows(schema.component_table)}
    for key, digest in sealed_references(rows(blob_reference_table), seals.WEIGHTS).items():
        seals.put(connection, makers.get(key.split("/")[1], seals.STORE), seals.WEIGHTS, {key: digest})
