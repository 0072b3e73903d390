"""INSERT that changes the row with the same primary key where there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from sqlalchemy import Connection, Insert, Table

# Imported when they are used: the dialect of PostgreSQL takes a tenth of the start of a command on a local store.
_DIALECTS = {"sqlite": "sqlalchemy.dialects.sqlite", "postgresql": "sqlalchemy.dialects.postgresql"}


def upsert(connection: Connection, table: Table, changed: Sequence[str]) -> Insert:
    """The statement for a database; its parameters are the columns of the new rows.

    Args:
        connection: Connection to the database.
        table: Table of the rows.
        changed: Columns that an existing row takes from the new one.
    """
    return _statement(connection.dialect.name, table, tuple(changed))


@cache  # SQLAlchemy takes longer to construct a statement than a database to run it
def _statement(dialect: str, table: Table, changed: tuple[str, ...]) -> Insert:
    insert: Callable[[Table], Any] = import_module(_DIALECTS[dialect]).insert
    statement = insert(table)
    key = [column.name for column in table.primary_key.columns]
    result: Insert = statement.on_conflict_do_update(
        index_elements=key, set_={name: statement.excluded[name] for name in changed}
    )
    return result
