"""Columns, constraints and triggers of migrations, as each database writes them.

What a version of the schema was for SQLite never changes; PostgreSQL has been there since version 4.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

Long = sa.BigInteger().with_variant(sa.Integer, "sqlite")
# Order and ranges by code point, as SQLite's; a database may have the order of some language.
Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
# PostgreSQL's REAL has 32 bits.
Real: sa.REAL[Any] = sa.REAL().with_variant(sa.Double(), "postgresql")
KEEP = "evodevo_keep"


def seed() -> sa.Column[int]:
    """The column of a seed."""
    return sa.Column("seed", Long, sa.CheckConstraint("seed >= 0"), nullable=False)


def one_of(column: str, *names: str) -> sa.CheckConstraint:
    """A constraint that allows only these values in a column."""
    return sa.CheckConstraint(f"{column} IN ({', '.join(repr(name) for name in names)})")


def on_postgres() -> bool:
    """Whether the migration runs in PostgreSQL."""
    return bool(op.get_bind().dialect.name == "postgresql")


def finite(column: str) -> sa.CheckConstraint:
    """A constraint that allows finite numbers alone, and NULL."""
    # A REAL column of SQLite accepts text, too. NaN is greater than all numbers in PostgreSQL.
    typed = "" if on_postgres() else f"typeof({column}) = 'real' AND "
    limit = f"abs({column}) <= 1.7976931348623157e308"
    return sa.CheckConstraint(f"{column} IS NULL OR ({typed}{limit})" if typed else f"{column} IS NULL OR {limit}")


def keep(table: str, change: str) -> None:
    """Refuse a change (UPDATE or DELETE) of the rows of a table, by a trigger."""
    name = f"{table}_no_{change.lower()}"
    if not on_postgres():
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {change} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are kept for ever'); END"
        )
        return
    op.execute(f"CREATE TRIGGER {name} BEFORE {change} ON {table} FOR EACH ROW EXECUTE FUNCTION {KEEP}()")
    if change == "DELETE":
        op.execute(f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} EXECUTE FUNCTION {KEEP}()")


def begin_on_postgres() -> None:
    """The function of the triggers."""
    body = (
        "BEGIN RAISE EXCEPTION 'rows of % are kept for ever', TG_TABLE_NAME USING ERRCODE = 'restrict_violation'; END"
    )
    op.execute(f"CREATE FUNCTION {KEEP}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")


def clients_on_postgres() -> None:
    """What only a server needs: clients with their last transaction, and when leases were confirmed, by its clock."""
    op.execute(
        'CREATE TABLE client (id text COLLATE "C" PRIMARY KEY, number bigint NOT NULL DEFAULT 0, '
        "seen timestamptz NOT NULL DEFAULT clock_timestamp())"
    )
    op.execute("ALTER TABLE lease ADD COLUMN renewed timestamptz NOT NULL DEFAULT clock_timestamp()")
    op.execute(
        "CREATE FUNCTION evodevo_renew() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN NEW.renewed = clock_timestamp(); RETURN NEW; END$$"
    )
    op.execute("CREATE TRIGGER lease_renewed BEFORE UPDATE ON lease FOR EACH ROW EXECUTE FUNCTION evodevo_renew()")
