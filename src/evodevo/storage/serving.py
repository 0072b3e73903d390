"""Opening of a store in a PostgreSQL database: create, recognise and migrate it. ``pools`` finds its blobs."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Connection

from evodevo.errors import NotFoundError, RunOwnedError, UsageError
from evodevo.storage import leases, migrations, pools
from evodevo.storage.addresses import BLOBS_VARIABLE, ServerAddress
from evodevo.storage.dialects.postgres import schema as postgres_schema
from evodevo.storage.dialects.postgres.database import PostgresDatabase
from evodevo.storage.failpoints import failpoint
from evodevo.storage.liveness import is_alive
from evodevo.storage.opening import Mode

_LOCK = 0x45564F44564F4552
"""Key of the advisory lock under which a store is made or migrated."""


def open_server(address: ServerAddress, mode: Mode, *, create: bool, blobs: str | Path | None) -> PostgresDatabase:
    """Open a store's database; with ``rw``, create or migrate it where needed.

    Args:
        address: Address of the database.
        mode: ``rw`` or ``ro``.
        create: Whether to make a store where there is none (``rw`` only).
        blobs: Where a new store keeps its blobs; None = ``EVODEVO_BLOBS``.
    """
    if mode not in ("rw", "ro"):
        raise UsageError(f"a store is opened rw or ro, not {mode!r}.")
    given = blobs or os.environ.get(BLOBS_VARIABLE) or None
    database = PostgresDatabase(address, writable=mode == "rw")
    try:
        database.reach()
        if mode == "rw":
            alone = f"BEGIN; SELECT pg_advisory_xact_lock({_LOCK})"
            database.repeated(alone, _make_or_migrate, database, create=create, blobs=given)
        database.read(_check, database)
        return database
    except BaseException:
        database.close()
        raise


def _check(connection: Connection, database: PostgresDatabase) -> None:
    """Refuse a database without a store, or with another schema."""
    version = migrations.current(connection)
    if version is None:
        raise _missing(database.address)
    if version != migrations.HEAD:
        raise UsageError(
            f"{database.place} is of schema {version}; open it once for writing (evodevo repair) to bring it to ours."
        )
    database.check_tables(connection)


def _make_or_migrate(
    connection: Connection, database: PostgresDatabase, *, create: bool, blobs: str | Path | None
) -> None:
    there = postgres_schema.check_empty(connection)
    version = None if there is None else migrations.current(connection)
    if version == migrations.HEAD:
        return
    if version is None:
        if not create:
            raise _missing(database.address)
        if there is not None:
            raise UsageError(
                f"{database.place} holds the {there[:80]} already; a store needs a database, or a schema, of its own."
            )
        if blobs is None:
            raise UsageError(f"{pools.NEEDS_ADDRESS} name it with --blobs or {BLOBS_VARIABLE} when you make the store.")
        pools.require_place(None, blobs)
    else:
        for run_id, owner in leases.owners(connection).items():
            if is_alive(owner, one_kernel=False) is not False:
                raise RunOwnedError(f"run {run_id} is open in {owner} of an older evodevo; end it, then try again.")
    migrations.upgrade(connection)
    failpoint("before_migration_commit")


def _missing(address: ServerAddress) -> NotFoundError:
    return NotFoundError(f"no store at {address}. Make one with: evodevo evolve, or evodevo extend create.")
