"""Schema version 2 adds multitask systems: agents, cycles, paths, components that hold blobs, publications."""

import sqlalchemy as sa
from alembic import op

from evodevo.storage.migrations.columns import Long, Text, keep

revision = "0002"
down_revision = "0001"

EVODEVO = "0.1.0"
OPEN = sa.text("state = 'open'")


def upgrade() -> None:
    _components_hold_blobs()
    op.create_table(
        "system",
        sa.Column("run_id", Text, sa.ForeignKey("run.id"), primary_key=True, nullable=False),
        sa.Column("name", Text, nullable=False, unique=True),
    )
    op.create_table(
        "agent",
        sa.Column("run_id", Text, sa.ForeignKey("run.id"), primary_key=True, nullable=False),
        sa.Column("system_id", Text, sa.ForeignKey("system.run_id"), nullable=False),
        sa.Column("name", Text, nullable=False),
        sa.Column("class", Text, nullable=False),
        sa.Column("task", Text, nullable=False),
        sa.UniqueConstraint("system_id", "name"),
    )
    op.create_table(
        "cycle",
        sa.Column("agent_id", Text, sa.ForeignKey("agent.run_id"), primary_key=True, nullable=False),
        sa.Column("number", Long, sa.CheckConstraint("number >= 0"), primary_key=True, nullable=False),
        sa.Column("round", Long, sa.CheckConstraint("round >= 0")),
        sa.Column("view_seq", Long, sa.CheckConstraint("view_seq >= 0"), nullable=False),
        sa.Column("state", Text, sa.CheckConstraint("state IN ('open', 'closed')"), nullable=False),
        sa.Column("retained", Text, nullable=False),
        sa.Column("opened_seq", Long, sa.ForeignKey("event.seq"), nullable=False),
        sa.Column("closed_seq", Long, sa.ForeignKey("event.seq")),
        sa.CheckConstraint("(state = 'closed') = (closed_seq IS NOT NULL)"),
    )
    op.create_table(
        "path",
        sa.Column("individual_id", Text, sa.ForeignKey("individual.id"), primary_key=True, nullable=False),
        sa.Column("agent_id", Text, sa.ForeignKey("agent.run_id"), nullable=False),
        sa.Column("number", Long, sa.CheckConstraint("number >= 0"), nullable=False),
        sa.Column("cycle", Long, nullable=False),
        sa.Column("first_component", Long, sa.CheckConstraint("first_component >= 0"), nullable=False),
        sa.Column("end_component", Long, nullable=False),
        sa.UniqueConstraint("agent_id", "number"),
        sa.ForeignKeyConstraint(["agent_id", "cycle"], ["cycle.agent_id", "cycle.number"]),
        sa.CheckConstraint("end_component >= first_component"),
    )
    op.create_table(
        "component",
        sa.Column("id", Text, primary_key=True, nullable=False),
        sa.Column("agent_id", Text, sa.ForeignKey("agent.run_id"), nullable=False),
        sa.Column("number", Long, sa.CheckConstraint("number >= 0"), nullable=False),
        sa.Column("role", Text, nullable=False),
        sa.Column("parameters", Long, sa.CheckConstraint("parameters >= 0"), nullable=False),
        sa.Column("digest", Text, sa.ForeignKey("blob.digest"), nullable=False),
        sa.Column("individual_id", Text, sa.ForeignKey("path.individual_id"), nullable=False),
        sa.UniqueConstraint("agent_id", "number"),
    )
    op.create_table(
        "component_use",
        sa.Column("individual_id", Text, sa.ForeignKey("path.individual_id"), primary_key=True, nullable=False),
        sa.Column("place", Long, sa.CheckConstraint("place >= 0"), primary_key=True, nullable=False),
        sa.Column("role", Text, nullable=False),
        sa.Column("component_id", Text, sa.ForeignKey("component.id"), nullable=False),
        sa.UniqueConstraint("individual_id", "role"),
    )
    op.create_table(
        "subpath",
        sa.Column("individual_id", Text, sa.ForeignKey("path.individual_id"), primary_key=True, nullable=False),
        sa.Column("place", Long, sa.CheckConstraint("place >= 0"), primary_key=True, nullable=False),
        sa.Column("subpath_id", Text, sa.ForeignKey("path.individual_id"), nullable=False),
        sa.CheckConstraint("individual_id <> subpath_id"),
    )
    op.create_table(
        "publication",
        sa.Column("system_id", Text, sa.ForeignKey("system.run_id"), primary_key=True, nullable=False),
        sa.Column("seq", Long, sa.CheckConstraint("seq >= 1"), primary_key=True, nullable=False),
        sa.Column("agent_id", Text, sa.ForeignKey("agent.run_id"), nullable=False),
        sa.Column("cycle", Long),
        sa.Column("individual_id", Text, sa.ForeignKey("path.individual_id")),
        sa.Column("created_seq", Long, sa.ForeignKey("event.seq"), nullable=False),
        sa.ForeignKeyConstraint(["agent_id", "cycle"], ["cycle.agent_id", "cycle.number"]),
    )
    op.create_index("cycle_open", "cycle", ["agent_id"], unique=True, sqlite_where=OPEN, postgresql_where=OPEN)
    op.create_index("path_by_cycle", "path", ["agent_id", "cycle"])
    op.create_index("component_by_individual", "component", ["individual_id"])
    op.create_index("component_use_by_component", "component_use", ["component_id"])
    op.create_index("subpath_by_subpath", "subpath", ["subpath_id"])
    op.create_index("publication_by_agent", "publication", ["agent_id", "seq"])
    for table in ("system", "agent", "path", "component", "component_use", "subpath", "publication"):
        keep(table, "DELETE")
        keep(table, "UPDATE")
    keep("cycle", "DELETE")
    op.execute(f"UPDATE property SET value = '{EVODEVO}' WHERE key = 'evodevo'")


def _components_hold_blobs() -> None:
    # SQLite cannot change a CHECK constraint; no foreign key refers to this table, so it can be recreated.
    op.rename_table("blob_reference", "blob_reference_before")
    op.create_table(
        "blob_reference",
        sa.Column(
            "owner_kind",
            Text,
            sa.CheckConstraint("owner_kind IN ('run', 'evaluation', 'component')"),
            primary_key=True,
            nullable=False,
        ),
        sa.Column("owner_id", Text, primary_key=True, nullable=False),
        sa.Column("role", Text, primary_key=True, nullable=False),
        sa.Column("digest", Text, sa.ForeignKey("blob.digest"), nullable=False),
        sa.Column("released", sa.Integer, sa.CheckConstraint("released IN (0, 1)"), nullable=False),
    )
    columns = "owner_kind, owner_id, role, digest, released"
    op.execute(f"INSERT INTO blob_reference ({columns}) SELECT {columns} FROM blob_reference_before")
    op.drop_table("blob_reference_before")
    op.create_index("blob_reference_by_digest", "blob_reference", ["digest"])
