"""Opening of a store in a PostgreSQL database: create, recognise and migrate it, and find its blobs.

Rows lie in the database; blobs lie in a folder that all its clients see, whose path is a row of the table ``property``.
A file in that folder names the store, so that no other store's blobs are taken for its own (and collected).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from sqlalchemy import Connection, insert, select

from evodevo.errors import NotFoundError, RunOwnedError, StoreDamagedError, UsageError
from evodevo.storage import leases, migrations
from evodevo.storage.addresses import BLOBS_VARIABLE, ServerAddress
from evodevo.storage.dialects.postgres import schema as postgres_schema
from evodevo.storage.dialects.postgres.database import PostgresDatabase
from evodevo.storage.failpoints import failpoint
from evodevo.storage.liveness import is_alive
from evodevo.storage.opening import Mode
from evodevo.storage.schema import property_table

MARK = "evodevo-store"
_LOCK = 0x45564F44564F4552
"""Key of the advisory lock under which a store is made or migrated."""


def open_server(
    address: ServerAddress, mode: Mode, *, create: bool, blobs: str | Path | None
) -> tuple[PostgresDatabase, Path]:
    """Open a store's database; with ``rw``, create or migrate it where needed.

    Args:
        address: Address of the database.
        mode: ``rw`` or ``ro``.
        create: Whether to make a store where there is none (``rw`` only).
        blobs: Folder of the blobs; None = ``EVODEVO_BLOBS``, or what the store says.

    Returns:
        The database, and the folder of the blobs.
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
        properties = database.read(_properties, database)
        return database, _folder(properties, given, address)
    except BaseException:
        database.close()
        raise


def _properties(connection: Connection, database: PostgresDatabase) -> dict[str, str]:
    """What the store says of itself, after its schema was compared."""
    version = migrations.current(connection)
    if version is None:
        raise _missing(database.address)
    if version != migrations.HEAD:
        raise UsageError(
            f"{database.place} is of schema {version}; open it once for writing (evodevo repair) to bring it to ours."
        )
    database.check_tables(connection)
    return {row.key: row.value for row in connection.execute(select(property_table))}


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
            raise UsageError(
                f"a store in PostgreSQL keeps its blobs in a folder that all its clients see; name it with --blobs or "
                f"{BLOBS_VARIABLE} when you make the store."
            )
        folder, mark = Path(blobs).absolute(), secrets.token_hex(16)
        _claim(folder, mark)
    else:
        for run_id, owner in leases.owners(connection).items():
            if is_alive(owner, one_kernel=False) is not False:
                raise RunOwnedError(f"run {run_id} is open in {owner} of an older evodevo; end it, then try again.")
    migrations.upgrade(connection)
    if version is None:
        rows = [{"key": "blobs", "value": str(folder)}, {"key": "store", "value": mark}]
        connection.execute(insert(property_table), rows)
    failpoint("before_migration_commit")


def _missing(address: ServerAddress) -> NotFoundError:
    return NotFoundError(f"no store at {address}. Make one with: evodevo evolve, or evodevo extend create.")


def _claim(folder: Path, mark: str) -> None:
    """Take an empty folder, or one whose store was never committed, for the blobs of a new store."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(path.name != MARK for path in folder.iterdir()):
        raise UsageError(f"{folder} is not empty: the blobs of a store need a folder of their own.")
    draft = folder / f".{mark}"
    draft.write_text(mark + "\n", encoding="ascii")
    draft.replace(folder / MARK)


def _folder(properties: dict[str, str], given: str | Path | None, place: str) -> Path:
    if "blobs" not in properties or "store" not in properties:
        raise StoreDamagedError(f"{place} does not say where its blobs are. Next: restore it from your backup.")
    folder = Path(given or properties["blobs"]).absolute()
    try:
        mark = (folder / MARK).read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        mark = ""
    if mark != properties["store"]:
        raise NotFoundError(
            f"{folder} does not hold the blobs of {place}. Mount it, or name the folder with --blobs or "
            f"{BLOBS_VARIABLE}."
        )
    return folder
