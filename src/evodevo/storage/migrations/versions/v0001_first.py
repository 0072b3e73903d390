"""Schema version 1: runs, leases, individuals, ancestry, evaluations, scores, curves, blobs, events."""

import sqlalchemy as sa
from alembic import op

from evodevo.storage.migrations.columns import (
    Long,
    Real,
    Text,
    begin_on_postgres,
    clients_on_postgres,
    finite,
    keep,
    on_postgres,
    one_of,
    seed,
)

revision = "0001"
down_revision = None

EVODEVO = "0.1.0"


def upgrade() -> None:
    if on_postgres():
        begin_on_postgres()
    op.create_table(
        "property",
        sa.Column("key", Text, primary_key=True, nullable=False),
        sa.Column("value", Text, nullable=False),
    )
    op.create_table(
        "event",
        sa.Column("seq", Long, primary_key=True),
        sa.Column("run_id", Text),
        sa.Column("at", Text, nullable=False),
        sa.Column("type", Text, nullable=False),
        sa.Column("subject", Text, nullable=False),
        sa.Column("payload", Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "run",
        sa.Column("id", Text, primary_key=True, nullable=False),
        sa.Column("kind", Text, nullable=False),
        sa.Column("recipe", Text, nullable=False),
        sa.Column("settings", Text, nullable=False),
        seed(),
        sa.Column("space", Text, nullable=False),
        sa.Column("versions", Text, nullable=False),
        sa.Column("state", Text, one_of("state", "running", "finished", "interrupted", "failed"), nullable=False),
        sa.Column("created_seq", Long, sa.ForeignKey("event.seq"), nullable=False),
        sa.Column("created_at", Text, nullable=False),
        sa.Column("finished_at", Text),
    )
    op.create_table(
        "lease",
        sa.Column("run_id", Text, sa.ForeignKey("run.id"), primary_key=True, nullable=False),
        sa.Column("token", Long, nullable=False),
        sa.Column("held", sa.Integer, sa.CheckConstraint("held IN (0, 1)"), nullable=False),
        sa.Column("heartbeat", Long, nullable=False),
        sa.Column("host", Text, nullable=False),
        sa.Column("boot", Text, nullable=False),
        sa.Column("namespace", Text, nullable=False),
        sa.Column("pid", Long, nullable=False),
        sa.Column("start", Long, nullable=False),
    )
    op.create_table(
        "individual",
        sa.Column("id", Text, primary_key=True, nullable=False),
        sa.Column("run_id", Text, sa.ForeignKey("run.id"), nullable=False),
        sa.Column("birth", Text, nullable=False),
        sa.Column("generation", Long, nullable=False),
        sa.Column("slot", Long, nullable=False),
        sa.Column("genome_envelope", Text, nullable=False),
        sa.Column("genome_hash", Text, nullable=False),
        sa.Column("operation", Text, nullable=False),
        sa.Column("details", Text, nullable=False),
        seed(),
        sa.Column("created_seq", Long, sa.ForeignKey("event.seq"), nullable=False),
        sa.Column("created_at", Text, nullable=False),
        sa.UniqueConstraint("run_id", "birth"),
    )
    op.create_table(
        "parentage",
        sa.Column("child_id", Text, sa.ForeignKey("individual.id"), primary_key=True, nullable=False),
        sa.Column("role", Text, primary_key=True, nullable=False),
        sa.Column("parent_id", Text, sa.ForeignKey("individual.id"), nullable=False),
        sa.CheckConstraint("child_id <> parent_id"),
    )
    op.create_table(
        "evaluation",
        sa.Column("id", Text, primary_key=True, nullable=False),
        sa.Column("run_id", Text, sa.ForeignKey("run.id"), nullable=False),
        sa.Column("individual_id", Text, sa.ForeignKey("individual.id"), nullable=False),
        sa.Column("fidelity", Text, nullable=False),
        seed(),
        sa.Column("attempt", sa.Integer, sa.CheckConstraint("attempt >= 1"), nullable=False),
        sa.Column("state", Text, one_of("state", "running", "done", "failed", "stale"), nullable=False),
        sa.Column("reason", Text),
        sa.Column("detail", Text, nullable=False),
        sa.Column("cost", Text, nullable=False),
        sa.Column("extra", Text, nullable=False),
        sa.Column("seconds", Real, nullable=False),
        sa.Column("finished_seq", Long, sa.ForeignKey("event.seq")),
        sa.Column("started_at", Text, nullable=False),
        sa.Column("finished_at", Text),
        sa.UniqueConstraint("individual_id", "fidelity", "seed", "attempt"),
        sa.CheckConstraint("(state = 'failed') = (reason IS NOT NULL)"),
        sa.CheckConstraint("(state IN ('done', 'failed')) = (finished_seq IS NOT NULL)"),
    )
    op.create_table(
        "score",
        sa.Column("evaluation_id", Text, sa.ForeignKey("evaluation.id"), primary_key=True, nullable=False),
        sa.Column("objective", Text, primary_key=True, nullable=False),
        sa.Column("value", Real),
        sa.Column(
            "status", Text, one_of("status", "ok", "nan", "inf", "neginf", "diverged", "missing"), nullable=False
        ),
        sa.CheckConstraint("(status = 'ok') = (value IS NOT NULL)"),
        finite("value"),
    )
    op.create_table(
        "series",
        sa.Column("evaluation_id", Text, sa.ForeignKey("evaluation.id"), primary_key=True, nullable=False),
        sa.Column("name", Text, primary_key=True, nullable=False),
        sa.Column("points", sa.LargeBinary, sa.CheckConstraint("length(points) % 16 = 0"), nullable=False),
    )
    op.create_table(
        "blob",
        sa.Column("digest", Text, sa.CheckConstraint("length(digest) = 64"), primary_key=True, nullable=False),
        sa.Column("bytes", Long, nullable=False),
        sa.Column("state", Text, one_of("state", "present", "collected", "lost"), nullable=False),
        sa.Column("created_at", Text, nullable=False),
    )
    op.create_table(
        "blob_reference",
        sa.Column("owner_kind", Text, one_of("owner_kind", "run", "evaluation"), primary_key=True, nullable=False),
        sa.Column("owner_id", Text, primary_key=True, nullable=False),
        sa.Column("role", Text, primary_key=True, nullable=False),
        sa.Column("digest", Text, sa.ForeignKey("blob.digest"), nullable=False),
        sa.Column("released", sa.Integer, sa.CheckConstraint("released IN (0, 1)"), nullable=False),
    )
    op.create_index("event_by_run", "event", ["run_id", "seq"])
    op.create_index("individual_by_order", "individual", ["run_id", "created_seq", "generation", "slot"])
    op.create_index("individual_by_genome", "individual", ["run_id", "genome_hash"])
    op.create_index("parentage_by_parent", "parentage", ["parent_id"])
    op.create_index("evaluation_by_order", "evaluation", ["run_id", "finished_seq"])
    op.create_index("blob_reference_by_digest", "blob_reference", ["digest"])
    for table, change in (
        ("individual", "DELETE"),
        ("individual", "UPDATE"),
        ("parentage", "DELETE"),
        ("parentage", "UPDATE"),
        ("event", "DELETE"),
        ("event", "UPDATE"),
        ("run", "DELETE"),
        ("evaluation", "DELETE"),
    ):
        keep(table, change)
    if on_postgres():
        clients_on_postgres()
    op.execute(f"INSERT INTO property (key, value) VALUES ('evodevo', '{EVODEVO}')")
