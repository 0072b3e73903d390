"""All rows of one database into another, empty one, of whatever kind."""

from __future__ import annotations

from sqlalchemy import Connection, Table, func, insert, select, text

from evodevo.errors import StoreDamagedError, UsageError
from evodevo.storage.schema import event_table, lease_table, metadata, property_table

BATCH = 500


def transfer(source: Connection, target: Connection) -> None:
    """Copy the rows of every table but ``property``, which says where a store is; leases arrive without a holder.

    Args:
        source: Connection with an open transaction.
        target: Connection with an open write transaction, to a database of the same version without runs.

    Raises:
        UsageError: There are events in the target.
        StoreDamagedError: Not as many rows arrived as left.
    """
    if target.execute(select(event_table.c.seq).limit(1)).first() is not None:
        raise UsageError("the target holds runs already; a store is copied to an empty place.")
    for table in metadata.sorted_tables:
        if table is property_table:
            continue
        for batch in source.execute(select(table)).mappings().partitions(BATCH):
            rows = [dict(row) for row in batch]
            if table is lease_table:
                rows = [{**row, "held": 0} for row in rows]
            target.execute(insert(table), rows)
        if _count(source, table) != _count(target, table):
            raise StoreDamagedError(f"not all rows of {table.name} could be copied. Next: evodevo store check.")
    if target.dialect.name == "postgresql":
        # Numbers go on after the last one.
        last = "setval(pg_get_serial_sequence('event', 'seq'), (SELECT max(seq) FROM event))"
        target.execute(text(f"SELECT {last} WHERE EXISTS (SELECT FROM event)"))


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())
