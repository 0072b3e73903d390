"""Leases: at most one living process may write to a run, and holds a token that only grows.

Functions over an open write transaction, except ``acquire``, which may have to watch a heartbeat for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update
from sqlalchemy.exc import DBAPIError

from evodevo.errors import NotFoundError, RunOwnedError
from evodevo.storage.base import Lease
from evodevo.storage.engine import Database
from evodevo.storage.liveness import Owner, is_alive, this_process
from evodevo.storage.schema import lease_table, run_table

PATIENCE_SECONDS = 60.0
GLANCE_SECONDS = 1.0


def owner(connection: Connection, run_id: str) -> Owner | None:
    """The process that last acquired the run and has not released it, dead or alive."""
    row = _row(connection, run_id)
    return _owner(row) if row is not None and row.held else None


def owners(connection: Connection) -> dict[str, Owner]:
    """Run -> the process that last acquired it and has not released it, dead or alive, for all runs."""
    rows = connection.execute(select(lease_table).where(lease_table.c.held == 1))
    return {row.run_id: _owner(row) for row in rows}


def unreadable(connection: Connection, run_ids: Iterable[str]) -> dict[str, str]:
    """Run -> what is wrong with its lease, for leases that no process of evodevo wrote so.

    Leases have no seals, since each heartbeat changes them: a value that could be right is not told from one that is.
    """
    wrong = {}
    for run_id in run_ids:
        try:
            row = _row(connection, run_id)
        except (DBAPIError, UnicodeDecodeError) as error:
            wrong[run_id] = f"it cannot be read ({str(getattr(error, 'orig', error))[:200]})"
            continue
        if row is not None and (odd := [name for name, fits in _FITS.items() if not fits(getattr(row, name))]):
            wrong[run_id] = f"its {odd[0]} is {getattr(row, odd[0])!r}"
    return wrong


def reset(connection: Connection, run_ids: Iterable[str]) -> None:
    """Give up leases that cannot be read; whoever held one and lives can write no more under it."""
    table = lease_table
    for run_id in run_ids:
        tokens = connection.execute(select(table.c.token).where(table.c.run_id == run_id)).scalars().all()
        token = 1 + max((token for token in tokens if _is_count(token)), default=0)
        values = {"token": token, "held": 0, "heartbeat": 0, "pid": 1, "start": 0}
        named = dict.fromkeys(("host", "boot", "namespace"), "")
        connection.execute(update(table).where(table.c.run_id == run_id).values(**values, **named))


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_FITS: Mapping[str, Callable[[object], bool]] = {
    "held": lambda value: type(value) is int and value in (0, 1),
    **dict.fromkeys(("token", "heartbeat", "pid", "start"), _is_count),
    **dict.fromkeys(("host", "boot", "namespace"), _is_text),
}
"""Column of a lease -> whether it may hold a value."""


def acquire(database: Database, run_id: str, *, one_kernel: bool, patience: float = PATIENCE_SECONDS) -> Lease:
    """Acquire the run for this process.

    The owner's pid, start time and boot id show at once whether it is dead. Where they do not (another machine,
    another container), its heartbeat counter is watched until it has stood still for ``patience`` seconds, by the
    database's clock where it has one, else by this process' own; wall clocks of two machines are never compared.

    Raises:
        NotFoundError: The run does not exist.
        RunOwnedError: A living process holds the run.
    """
    while True:
        judged = database.read(_judged, run_id, database.place)
        if judged is not None and judged.held:
            holder = _owner(judged)
            alive = is_alive(holder, one_kernel=one_kernel)
            if alive or (alive is None and _beats(database, judged, patience)):
                raise RunOwnedError(
                    f"run {run_id} is open in {holder}. Wait for it, or stop it there (Ctrl-C, or kill {holder.pid}), "
                    f"then: evodevo resume {run_id}."
                )
        token = database.write(_take, run_id, judged)
        if token is not None:
            return Lease(run_id, token)
        # The lease has changed since it was judged; judge again.


def confirm(connection: Connection, lease: Lease) -> None:
    """Check the token, in the transaction that it guards; counts as a heartbeat.

    Raises:
        RunOwnedError: The lease was released or taken over.
    """
    changed = connection.execute(_CONFIRM, {"of_run": lease.run_id, "with_token": lease.token})
    if changed.rowcount != 1:
        holder = owner(connection, lease.run_id)
        now = f"now held by {holder}" if holder else "now held by nobody"
        raise RunOwnedError(
            f"this process no longer owns run {lease.run_id} (token {lease.token}; {now}). Nothing was written."
        )


def release(connection: Connection, lease: Lease) -> None:
    """Release the run; without effect where the lease was lost already."""
    connection.execute(
        update(lease_table)
        .where(lease_table.c.run_id == lease.run_id, lease_table.c.token == lease.token)
        .values(held=0)
    )


# One statement checks the token and advances the heartbeat; it changes no row where the lease was lost.
_CONFIRM = (
    update(lease_table)
    .where(
        lease_table.c.run_id == bindparam("of_run"),
        lease_table.c.token == bindparam("with_token"),
        lease_table.c.held == 1,
    )
    .values(heartbeat=lease_table.c.heartbeat + 1)
)


def _row(connection: Connection, run_id: str) -> Row[Any] | None:
    return connection.execute(select(lease_table).where(lease_table.c.run_id == run_id)).first()


def _judged(connection: Connection, run_id: str, place: str) -> Row[Any] | None:
    if connection.execute(select(run_table.c.id).where(run_table.c.id == run_id)).first() is None:
        raise NotFoundError(f"no run {run_id!r} in {place}.")
    return _row(connection, run_id)


def _take(connection: Connection, run_id: str, judged: Row[Any] | None) -> int | None:
    """Write this process into the lease, if it is still as it was judged; returns the token."""
    row = _row(connection, run_id)
    if not _same(row, judged):
        return None
    token = 1 if row is None else int(row.token) + 1
    values: dict[str, Any] = {**vars(this_process()), "token": token, "held": 1, "heartbeat": 0}
    if row is None:
        connection.execute(insert(lease_table).values(run_id=run_id, **values))
    else:
        connection.execute(update(lease_table).where(lease_table.c.run_id == run_id).values(**values))
    return token


def _owner(row: Row[Any]) -> Owner:
    return Owner(row.host, row.boot, row.namespace, row.pid, row.start)


def _same(now: Row[Any] | None, then: Row[Any] | None) -> bool:
    if now is None or then is None:
        return now is then
    return (now.token, now.held, now.heartbeat) == (then.token, then.held, then.heartbeat)


def _beats(database: Database, judged: Row[Any], patience: float) -> bool:
    end = time.monotonic() + patience - database.read(database.lease_seconds, judged.run_id)
    while time.monotonic() < end:
        time.sleep(min(GLANCE_SECONDS, patience))
        now = database.read(_row, judged.run_id)
        if not _same(now, judged):
            return now is not None and bool(now.held)
    return False
