"""Comparison of a database's schema with ours, before anything of the file is used.

A trigger may rewrite rows behind our statements, a view may never end, a foreign key may delete. Compared are tables,
columns, keys, indexes and triggers as SQLite describes them, not the text of the statements that made them, which
differs between versions of SQLAlchemy.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text

from evodevo.errors import StoreDamagedError

OWN_OF_SQLITE = frozenset({"sqlite_sequence", "sqlite_stat1", "sqlite_stat4"})
Description = dict[tuple[str, str], Any]
"""(kind, name) -> what SQLite tells of it."""


def check_tables(connection: Connection, ours: Description, *, sealed: bool = True) -> None:
    """Refuse a schema that is not that of the newest version, or the one before seals.

    Args:
        connection: Connection with an open transaction.
        ours: What SQLite tells of a database of the newest version.
        sealed: Whether the database has seals.

    Raises:
        StoreDamagedError: Something is missing, is another, or was added; the message names it.
    """
    found, expected = describe(connection), dict(ours)
    if not sealed:
        expected = {key: value for key, value in expected.items() if "seal" not in key[1]}
    for key in sorted(found.keys() | expected.keys()):
        if found.get(key) != expected.get(key):
            kind, name = key
            fault = "is missing" if key not in found else "is not evodevo's" if key not in expected else "was changed"
            raise StoreDamagedError(
                f"the {kind} {name!r} of the database {fault}: this file is not as evodevo made it, and is not used. "
                "Next: put it back from backups/, or from your own copy."
            )


def check_programs(connection: Connection, expected: Description) -> None:
    """Refuse views, and triggers that are not ours, of a database of any version.

    Raises:
        StoreDamagedError: There is one.
    """
    ours = {key: value for key, value in expected.items() if key[0] == "trigger"}
    for kind, name, sql in _objects(connection):
        if kind == "view" or (kind == "trigger" and ours.get((kind, name)) != _words(sql)):
            raise StoreDamagedError(
                f"the database holds the {kind} {name!r}, which is not evodevo's; it is not used. Next: put it back "
                "from backups/, or from your own copy."
            )


def _objects(connection: Connection) -> list[tuple[str, str, str]]:
    rows = connection.execute(text("SELECT type, name, sql FROM sqlite_master")).all()
    return [(str(kind), str(name), str(sql)) for kind, name, sql in rows]


def describe(connection: Connection) -> Description:
    """Everything in the schema that decides what statements do, without SQLite's own tables."""
    found: Description = {}
    for kind, name, sql in _objects(connection):
        if kind == "trigger" or kind == "view":
            found[kind, name] = _words(sql)
        elif kind == "table" and name not in OWN_OF_SQLITE:
            keys = _pragma(connection, "foreign_key_list", name)
            found[kind, name] = (
                # Position, name, type, not null, default, place in the primary key, hidden (generated).
                [row[1:] for row in _pragma(connection, "table_xinfo", name)],
                sorted(tuple(map(str, row[2:])) for row in keys),
                "COLLATE" in sql.upper() or "GENERATED" in sql.upper(),
            )
            for _, index, unique, origin, partial in _pragma(connection, "index_list", name):
                columns = [row[2:] for row in _pragma(connection, "index_xinfo", str(index))]
                found["index", str(index)] = (name, unique, origin, partial, columns)
    return found


def _pragma(connection: Connection, pragma: str, name: str) -> list[tuple[Any, ...]]:
    # The pragmas' table-valued functions would be virtual tables, which a connection for reading may not make.
    quoted = '"' + name.replace('"', '""') + '"'
    return [tuple(row) for row in connection.exec_driver_sql(f"PRAGMA {pragma}({quoted})")]


def _words(sql: str) -> str:
    return " ".join(sql.split())
