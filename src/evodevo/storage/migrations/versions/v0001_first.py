"""Schema version 1: runs, leases, individuals, ancestry, evaluations, scores, curves, blobs, events."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

EVODEVO = "0.1.0"

Long = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _seed() -> sa.Column[int]:
    return sa.Column("seed", Long, sa.CheckConstraint("seed >= 0"), nullable=False)


def _one_of(column: str, *names: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} IN ({', '.join(repr(name) for name in names)})")


def upgrade() -> None:
    op.create_table(
        "property",
        sa.Column("key", sa.Text, primary_key=True, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "event",
        sa.Column("seq", Long, primary_key=True),
        sa.Column("run_id", sa.Text),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Text, primary_key=True, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("recipe", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        _seed(),
        sa.Column("space", sa.Text, nullable=False),
        sa.Column("versions", sa.Text, nullable=False),
        sa.Column("state", sa.Text, _one_of("state", "running", "finished", "interrupted", "failed"), nullable=False),
        sa.Column("created_seq", Long, sa.ForeignKey("event.seq"), nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text),
    )
    op.create_table(
        "lease",
        sa.Column("run_id", sa.Text, sa.ForeignKey("run.id"), primary_key=True, nullable=False),
        sa.Column("token", Long, nullable=False),
        sa.Column("held", sa.Integer, sa.CheckConstraint("held IN (0, 1)"), nullable=False),
        sa.Column("heartbeat", Long, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("boot", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("pid", Long, nullable=False),
        sa.Column("start", Long, nullable=False),
    )
    op.create_table(
        "individual",
        sa.Column("id", sa.Text, primary_key=True, nullable=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("run.id"), nullable=False),
        sa.Column("birth", sa.Text, nullable=False),
        sa.Column("generation", Long, nullable=False),
        sa.Column("slot", Long, nullable=False),
        sa.Column("genome_envelope", sa.Text, nullable=False),
        sa.Column("genome_hash", sa.Text, nullable=False),
        sa.Column("operation", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        _seed(),
        sa.Column("created_seq", Long, sa.ForeignKey("event.seq"), nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.UniqueConstraint("run_id", "birth"),
    )
    op.create_table(
        "parentage",
        sa.Column("child_id", sa.Text, sa.ForeignKey("individual.id"), primary_key=True, nullable=False),
        sa.Column("role", sa.Text, primary_key=True, nullable=False),
        sa.Column("parent_id", sa.Text, sa.ForeignKey("individual.id"), nullable=False),
        sa.CheckConstraint("child_id <> parent_id"),
    )
    op.create_table(
        "evaluation",
        sa.Column("id", sa.Text, primary_key=True, nullable=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("run.id"), nullable=False),
        sa.Column("individual_id", sa.Text, sa.ForeignKey("individual.id"), nullable=False),
        sa.Column("fidelity", sa.Text, nullable=False),
        _seed(),
        sa.Column("attempt", sa.Integer, sa.CheckConstraint("attempt >= 1"), nullable=False),
        sa.Column("state", sa.Text, _one_of("state", "running", "done", "failed", "stale"), nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("cost", sa.Text, nullable=False),
        sa.Column("extra", sa.Text, nullable=False),
        sa.Column("seconds", sa.REAL, nullable=False),
        sa.Column("finished_seq", Long, sa.ForeignKey("event.seq")),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text),
        sa.UniqueConstraint("individual_id", "fidelity", "seed", "attempt"),
        sa.CheckConstraint("(state = 'failed') = (reason IS NOT NULL)"),
        sa.CheckConstraint("(state IN ('done', 'failed')) = (finished_seq IS NOT NULL)"),
    )
    op.create_table(
        "score",
        sa.Column("evaluation_id", sa.Text, sa.ForeignKey("evaluation.id"), primary_key=True, nullable=False),
        sa.Column("objective", sa.Text, primary_key=True, nullable=False),
        sa.Column("value", sa.REAL),
        sa.Column(
            "status", sa.Text, _one_of("status", "ok", "nan", "inf", "neginf", "diverged", "missing"), nullable=False
        ),
        sa.CheckConstraint("(status = 'ok') = (value IS NOT NULL)"),
        sa.CheckConstraint("value IS NULL OR (typeof(value) = 'real' AND abs(value) <= 1.7976931348623157e308)"),
    )
    op.create_table(
        "series",
        sa.Column("evaluation_id", sa.Text, sa.ForeignKey("evaluation.id"), primary_key=True, nullable=False),
        sa.Column("name", sa.Text, primary_key=True, nullable=False),
        sa.Column("points", sa.LargeBinary, sa.CheckConstraint("length(points) % 16 = 0"), nullable=False),
    )
    op.create_table(
        "blob",
        sa.Column("digest", sa.Text, sa.CheckConstraint("length(digest) = 64"), primary_key=True, nullable=False),
        sa.Column("bytes", Long, nullable=False),
        sa.Column("state", sa.Text, _one_of("state", "present", "collected", "lost"), nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
    )
    op.create_table(
        "blob_reference",
        sa.Column("owner_kind", sa.Text, _one_of("owner_kind", "run", "evaluation"), primary_key=True, nullable=False),
        sa.Column("owner_id", sa.Text, primary_key=True, nullable=False),
        sa.Column("role", sa.Text, primary_key=True, nullable=False),
        sa.Column("digest", sa.Text, sa.ForeignKey("blob.digest"), nullable=False),
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
        op.execute(
            f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are kept for ever'); END"
        )
    op.execute(f"INSERT INTO property (key, value) VALUES ('evodevo', '{EVODEVO}')")
