"""Schema version 3: seals, the digests of rows. Those of the rows that are there hold from now on."""

from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from alembic import op

from evodevo.storage import seals
from evodevo.storage.migrations.columns import Text
from evodevo.storage.schema import (
    blob_reference_table,
    evaluation_table,
    event_table,
    individual_table,
    run_table,
    series_table,
)

revision = "0003"
down_revision = "0002"

EVODEVO = "0.1.0"


def upgrade() -> None:
    op.create_table(
        "seal",
        sa.Column("run_id", Text, primary_key=True, nullable=False),
        sa.Column("kind", Text, primary_key=True, nullable=False),
        sa.Column("key", Text, primary_key=True, nullable=False),
        sa.Column("digest", Text, nullable=False),
        sqlite_with_rowid=False,
    )
    seal(op.get_bind())
    op.execute(f"UPDATE property SET value = '{EVODEVO}' WHERE key = 'evodevo'")


def seal(connection: sa.Connection) -> None:
    """Seal the rows that are there."""

    def put(kind: str, table: sa.Table, key: Any, whose: Any, belonging: dict[str, list[Any]] | None = None) -> None:
        """Seal all rows of a table; ``key`` and ``whose`` give the key and the run of a row."""
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for row in connection.execute(sa.select(table)).mappings():
            name = key(row)
            found[whose(row)][name] = seals.digest(table, row, (belonging or {}).get(name, ()))
        for run_id, digests in found.items():
            seals.put(connection, run_id, kind, digests)

    def grouped(statement: str) -> dict[str, list[Any]]:
        rows: dict[str, list[Any]] = defaultdict(list)
        for owner, *values in connection.execute(sa.text(statement)):
            rows[owner].append(tuple(values))
        return rows

    put(seals.RUN, run_table, lambda row: row["id"], lambda row: seals.STORE)
    put(seals.EVENT, event_table, lambda row: str(row["seq"]), lambda row: row["run_id"] or seals.STORE)
    parents = grouped("SELECT child_id, role, parent_id FROM parentage")
    put(seals.INDIVIDUAL, individual_table, lambda row: row["id"], lambda row: row["run_id"], parents)
    scores = grouped("SELECT evaluation_id, objective, value, status FROM score")
    put(seals.EVALUATION, evaluation_table, lambda row: row["id"], lambda row: row["run_id"], scores)
    runs = {
        row.id: row.run_id for row in connection.execute(sa.select(evaluation_table.c.id, evaluation_table.c.run_id))
    }

    def curve(row: Any) -> str:
        return f"{row['evaluation_id']}/{row['name']}"

    put(seals.SERIES, series_table, curve, lambda row: runs[row["evaluation_id"]])
    held: dict[str, dict[str, str]] = defaultdict(dict)
    for row in connection.execute(sa.select(blob_reference_table)).mappings():
        if row["owner_kind"] != "component":
            run_id = row["owner_id"] if row["owner_kind"] == "run" else runs[row["owner_id"]]
            key = f"{row['owner_kind']}/{row['owner_id']}/{row['role']}"
            held[run_id][key] = seals.digest(blob_reference_table, row)
    for run_id, digests in held.items():
        seals.put(connection, run_id, seals.BLOB, digests)
