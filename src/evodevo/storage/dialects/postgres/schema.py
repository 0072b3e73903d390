"""Comparison of a PostgreSQL schema with ours, before anything of it is used; as ``sqlite_schema``.

``schema.json`` beside this file is what a server tells of a new store. A test compares it with that of a real server;
``python -m evodevo.testing.stores.postgres`` writes it anew for a new version of the schema. Names of constraints, and
of indexes that belong to them, are the server's choice and do not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, MetaData, Select, and_, func, select

from evodevo.errors import StoreDamagedError
from evodevo.storage.schema import metadata
from evodevo.storage.systems.schema import cycle_table

for _index in cycle_table.indexes:  # a partial index of SQLite is one of PostgreSQL, too
    _index.dialect_options["postgresql"]["where"] = _index.dialect_options["sqlite"]["where"]

EXPECTED = Path(__file__).with_name("schema.json")
Description = dict[str, Any]
"""``kind name`` -> what the server tells of it."""

_MINE = "(SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
# Each query gives a kind, a name, and facts. What a newer server adds to a catalog does not show in them.
_QUERIES = (
    # Tables, views, foreign tables, sequences: nothing else may be in the schema.
    f"""SELECT CASE relkind WHEN 'r' THEN 'table' WHEN 'S' THEN 'sequence' WHEN 'v' THEN 'view' WHEN 'm' THEN 'view'
            ELSE 'relation' END, relname,
            json_build_array(relkind::text, relpersistence::text, relrowsecurity, relforcerowsecurity, relhasrules,
            EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid OR inhparent = c.oid))
        FROM pg_class c WHERE relnamespace = {_MINE} AND relkind NOT IN ('i', 'I', 't', 'c')""",
    f"""SELECT 'column', relname || '.' || attname,
            json_build_array(format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid), collname,
            attidentity::text, attgenerated::text)
        FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped
        LEFT JOIN pg_attrdef d ON adrelid = c.oid AND adnum = attnum LEFT JOIN pg_collation l ON l.oid = attcollation
        WHERE relnamespace = {_MINE} AND relkind = 'r'""",
    f"""SELECT 'constraint', relname || ' ' || pg_get_constraintdef(k.oid), json_build_array(convalidated)
        FROM pg_constraint k JOIN pg_class c ON c.oid = conrelid
        WHERE relnamespace = {_MINE} AND contype IN ('c', 'f', 'p', 'u', 'x', 't')""",
    f"""SELECT 'index', i.relname,
            json_build_array(c.relname, regexp_replace(pg_get_indexdef(i.oid), ' ON \\S+ ', ' ON '), indisvalid)
        FROM pg_index x JOIN pg_class i ON i.oid = indexrelid JOIN pg_class c ON c.oid = indrelid
        WHERE c.relnamespace = {_MINE} AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.oid)""",
    f"""SELECT 'trigger', c.relname || '.' || tgname,
            json_build_array(regexp_replace(pg_get_triggerdef(t.oid), ' ON \\S+ ', ' ON '), tgenabled::text)
        FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid WHERE c.relnamespace = {_MINE} AND NOT tgisinternal""",
    # Those of foreign keys can be switched off.
    f"""SELECT 'switched off foreign key', c.relname, json_build_array(count(*))
        FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
        WHERE c.relnamespace = {_MINE} AND tgisinternal AND tgenabled <> 'O' GROUP BY c.relname""",
    f"""SELECT 'rule', c.relname || '.' || rulename, json_build_array(ev_type::text)
        FROM pg_rewrite r JOIN pg_class c ON c.oid = ev_class
        WHERE c.relnamespace = {_MINE} AND rulename <> '_RETURN'""",
    # A function or an operator of the same name may fit its arguments better than the server's own.
    f"""SELECT 'function', proname || '(' || pg_get_function_identity_arguments(p.oid) || ')',
            json_build_array(prosrc, lanname, prosecdef, provolatile::text, proconfig)
        FROM pg_proc p JOIN pg_language l ON l.oid = prolang WHERE pronamespace = {_MINE}""",
    f"SELECT 'operator', oprname, json_build_array(oprcode::text) FROM pg_operator WHERE oprnamespace = {_MINE}",
)


def describe(connection: Connection) -> Description:
    """Everything in the schema that decides what statements do."""
    found: Description = {}
    for query in _QUERIES:
        for kind, name, facts in connection.exec_driver_sql(query.replace("%", "%%")):
            key = f"{kind} {name}"
            while key in found:  # a second constraint of the same words
                key += " again"
            found[key] = facts
    return found


@cache
def _expected() -> Description:
    read: Description = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return read


def check_tables(connection: Connection) -> None:
    """Refuse a schema that is not that of the newest version.

    Raises:
        StoreDamagedError: Something is missing, is another, or was added; the message names it.
    """
    found, expected = describe(connection), _expected()
    for key in sorted(found.keys() | expected.keys()):
        if found.get(key) != expected.get(key):
            fault = "is missing" if key not in found else "is not evodevo's" if key not in expected else "was changed"
            raise StoreDamagedError(
                f"the {key[:200]} of the database {fault}: this store is not as evodevo made it, and is not used. "
                "Next: restore it from your backup, or remove what was added."
            )


def check_empty(connection: Connection) -> str | None:
    """What is in a schema that should be empty, or None."""
    return next(iter(sorted(describe(connection))), None)


@dataclass(frozen=True, order=True)
class ForeignKey:
    """A foreign key: its tables, and the query of how many rows refer to none."""

    table: str
    other: str
    columns: tuple[str, ...]
    orphans: Select[Any]


def foreign_keys(tables: MetaData = metadata) -> Iterator[ForeignKey]:
    """All foreign keys, as declared."""
    for table in tables.sorted_tables:
        for key in table.foreign_key_constraints:
            other = key.referred_table.alias("other")
            columns = [table.c[name] for name in key.column_keys]
            pairs = [
                column == other.c[element.column.name] for column, element in zip(columns, key.elements, strict=True)
            ]
            first = other.c[key.elements[0].column.name]
            query = select(func.count()).select_from(table.outerjoin(other, and_(*pairs)))
            orphans = query.where(first.is_(None), *(column.is_not(None) for column in columns))
            yield ForeignKey(table.name, key.referred_table.name, tuple(key.column_keys), orphans)
