"""The tables of the database. Data that only one driver needs is the payload of a typed event, not a column.

``systems/schema.py`` adds the tables of multitask systems.

``migrations/versions`` holds the same tables again, as of each version of the schema; a test compares them. JSON
columns are text in canonical form: SQLAlchemy's JSON type would accept NaN.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    DDL,
    REAL,
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    event,
)

APPLICATION_ID = 0x45564F44  # "EVOD", in the header of the database file
LARGEST = "1.7976931348623157e308"
VERSION_TABLE = "schema_revision"

metadata = MetaData()
# SQLite's INTEGER has 64 bits, and only a column of exactly that type is an alias of the row id.
Long = BigInteger().with_variant(Integer, "sqlite")
# Order and ranges by code point, as SQLite's; a database of PostgreSQL may have the order of some language.
Words = Text().with_variant(Text(collation="C"), "postgresql")
# PostgreSQL's REAL has 32 bits.
Real: REAL[Any] = REAL().with_variant(Double(), "postgresql")


def _seed() -> Column[int]:
    return Column("seed", Long, CheckConstraint("seed >= 0"), nullable=False)


def one_of(column: str, *names: str) -> CheckConstraint:
    """A constraint that allows only these values in a column."""
    return CheckConstraint(f"{column} IN ({', '.join(repr(name) for name in names)})")


property_table = Table(
    "property",
    metadata,
    Column("key", Words, primary_key=True, nullable=False),
    Column("value", Words, nullable=False),
)

event_table = Table(
    "event",
    metadata,
    Column("seq", Long, primary_key=True),
    # No foreign key: a run's first event is written before its row, which holds the event's number.
    Column("run_id", Words),
    Column("at", Words, nullable=False),
    Column("type", Words, nullable=False),
    Column("subject", Words, nullable=False),
    Column("payload", Words, nullable=False),
    Index("event_by_run", "run_id", "seq"),
    sqlite_autoincrement=True,
)

run_table = Table(
    "run",
    metadata,
    Column("id", Words, primary_key=True, nullable=False),
    Column("kind", Words, nullable=False),
    Column("recipe", Words, nullable=False),
    Column("settings", Words, nullable=False),
    _seed(),
    Column("space", Words, nullable=False),
    Column("versions", Words, nullable=False),
    Column("state", Words, one_of("state", "running", "finished", "interrupted", "failed"), nullable=False),
    Column("created_seq", Long, ForeignKey("event.seq"), nullable=False),
    Column("created_at", Words, nullable=False),
    Column("finished_at", Words),
)

lease_table = Table(
    "lease",
    metadata,
    Column("run_id", Words, ForeignKey("run.id"), primary_key=True, nullable=False),
    Column("token", Long, nullable=False),
    Column("held", Integer, CheckConstraint("held IN (0, 1)"), nullable=False),
    Column("heartbeat", Long, nullable=False),
    Column("host", Words, nullable=False),
    Column("boot", Words, nullable=False),
    Column("namespace", Words, nullable=False),
    Column("pid", Long, nullable=False),
    Column("start", Long, nullable=False),
)

individual_table = Table(
    "individual",
    metadata,
    Column("id", Words, primary_key=True, nullable=False),
    Column("run_id", Words, ForeignKey("run.id"), nullable=False),
    Column("birth", Words, nullable=False),
    Column("generation", Long, nullable=False),
    Column("slot", Long, nullable=False),
    Column("genome_envelope", Words, nullable=False),
    Column("genome_hash", Words, nullable=False),
    Column("operation", Words, nullable=False),
    Column("details", Words, nullable=False),
    _seed(),
    Column("created_seq", Long, ForeignKey("event.seq"), nullable=False),
    Column("created_at", Words, nullable=False),
    UniqueConstraint("run_id", "birth"),
    Index("individual_by_order", "run_id", "created_seq", "generation", "slot"),
    Index("individual_by_genome", "run_id", "genome_hash"),
)

parentage_table = Table(
    "parentage",
    metadata,
    Column("child_id", Words, ForeignKey("individual.id"), primary_key=True, nullable=False),
    Column("role", Words, primary_key=True, nullable=False),
    Column("parent_id", Words, ForeignKey("individual.id"), nullable=False),
    CheckConstraint("child_id <> parent_id"),
    Index("parentage_by_parent", "parent_id"),
)

evaluation_table = Table(
    "evaluation",
    metadata,
    Column("id", Words, primary_key=True, nullable=False),
    Column("run_id", Words, ForeignKey("run.id"), nullable=False),
    Column("individual_id", Words, ForeignKey("individual.id"), nullable=False),
    Column("fidelity", Words, nullable=False),
    _seed(),
    Column("attempt", Integer, CheckConstraint("attempt >= 1"), nullable=False),
    Column("state", Words, one_of("state", "running", "done", "failed", "stale"), nullable=False),
    Column("reason", Words),
    Column("detail", Words, nullable=False),
    Column("cost", Words, nullable=False),
    Column("extra", Words, nullable=False),
    Column("seconds", Real, nullable=False),
    Column("finished_seq", Long, ForeignKey("event.seq")),
    Column("started_at", Words, nullable=False),
    Column("finished_at", Words),
    UniqueConstraint("individual_id", "fidelity", "seed", "attempt"),
    CheckConstraint("(state = 'failed') = (reason IS NOT NULL)"),
    CheckConstraint("(state IN ('done', 'failed')) = (finished_seq IS NOT NULL)"),
    Index("evaluation_by_order", "run_id", "finished_seq"),
)

score_table = Table(
    "score",
    metadata,
    Column("evaluation_id", Words, ForeignKey("evaluation.id"), primary_key=True, nullable=False),
    Column("objective", Words, primary_key=True, nullable=False),
    Column("value", Real),
    Column("status", Words, one_of("status", "ok", "nan", "inf", "neginf", "diverged", "missing"), nullable=False),
    CheckConstraint("(status = 'ok') = (value IS NOT NULL)"),
    # SQLite itself turns NaN into NULL, but it stores infinities, and a REAL column also accepts text.
    CheckConstraint("value IS NULL OR (typeof(value) = 'real' AND abs(value) <= 1.7976931348623157e308)").ddl_if(
        "sqlite"
    ),
    CheckConstraint("value IS NULL OR abs(value) <= 1.7976931348623157e308").ddl_if("postgresql"),
)

series_table = Table(
    "series",
    metadata,
    Column("evaluation_id", Words, ForeignKey("evaluation.id"), primary_key=True, nullable=False),
    Column("name", Words, primary_key=True, nullable=False),
    # Pairs (x, y) of little-endian float64; y may be non-finite, as the curves of diverged trainings are.
    Column("points", LargeBinary, CheckConstraint("length(points) % 16 = 0"), nullable=False),
)

blob_table = Table(
    "blob",
    metadata,
    Column("digest", Words, CheckConstraint("length(digest) = 64"), primary_key=True, nullable=False),
    Column("bytes", Long, nullable=False),
    Column("state", Words, one_of("state", "present", "collected", "lost"), nullable=False),
    Column("created_at", Words, nullable=False),
)

blob_reference_table = Table(
    "blob_reference",
    metadata,
    Column(
        "owner_kind", Words, one_of("owner_kind", "run", "evaluation", "component"), primary_key=True, nullable=False
    ),
    Column("owner_id", Words, primary_key=True, nullable=False),
    Column("role", Words, primary_key=True, nullable=False),
    Column("digest", Words, ForeignKey("blob.digest"), nullable=False),
    # A released reference is history; it does not keep the blob.
    Column("released", Integer, CheckConstraint("released IN (0, 1)"), nullable=False),
    Index("blob_reference_by_digest", "digest"),
)

# Digests of rows; see ``seals``. A table of its own: SQLite puts the columns that are added to a table last, behind its
# constraints, so that a migrated store would have another schema than a new one.
seal_table = Table(
    "seal",
    metadata,
    Column("run_id", Words, primary_key=True, nullable=False),
    Column("kind", Words, primary_key=True, nullable=False),
    Column("key", Words, primary_key=True, nullable=False),
    Column("digest", Words, nullable=False),
    sqlite_with_rowid=False,
)

# The record is never rewritten. The triggers refuse it even to a mistake in this package or to a SQL shell.
KEPT_FOR_EVER = (
    ("individual", "DELETE"),
    ("individual", "UPDATE"),
    ("parentage", "DELETE"),
    ("parentage", "UPDATE"),
    ("event", "DELETE"),
    ("event", "UPDATE"),
    ("run", "DELETE"),
    ("evaluation", "DELETE"),
)


def keep_for_ever(table: str, change: str) -> None:
    """Create the table together with a trigger that refuses a change (UPDATE or DELETE) of its rows."""
    trigger = (
        f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are kept for ever'); END"
    )
    statement = DDL(trigger)  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", statement.execute_if(dialect="sqlite"))


for _table, _change in KEPT_FOR_EVER:
    keep_for_ever(_table, _change)
