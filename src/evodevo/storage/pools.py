"""Where a store keeps its blobs: a folder, or an object store; chosen when the store is made, and recorded in it.

An address is a path, or has a scheme that fsspec knows: ``s3://bucket/prefix``. Credentials are no part of it; each
process takes them from its environment, as the package of the scheme reads them.
"""

from __future__ import annotations

import math
import os
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sqlalchemy import Connection, delete, insert, select

from evodevo.errors import NotFoundError, StoreDamagedError, UsageError
from evodevo.storage.addresses import BLOBS_VARIABLE
from evodevo.storage.blobs import MARK, BlobPool, FolderPool
from evodevo.storage.schema import blob_table, property_table, run_table

if TYPE_CHECKING:
    from evodevo.storage.engine import Database

ADDRESS, OWNER = "blobs", "store"
"""Keys of the database's properties: the address, and the name that the store left there."""
NEEDS_ADDRESS = "a store in PostgreSQL keeps its blobs in a folder that all its clients see, or in an object store;"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.ASCII)


def pool_at(address: str | Path) -> BlobPool:
    """The pool at an address, in any process: a coordinator's, or a worker's, which is told the address.

    Raises:
        UsageError: The address is none of a pool.
        MissingExtraError: A package is not installed; the message has the command that installs it.
    """
    text = normal(str(address))
    if not _SCHEME.match(text):
        return FolderPool(Path(text))
    from evodevo.storage.objects import ObjectPool

    return ObjectPool(text)


def normal(address: str) -> str:
    """An address as it is recorded; a path, also as ``file://``, is a path.

    Raises:
        UsageError: It holds a secret, or names no place that all processes of a run share.
    """
    text = address.strip()
    scheme = _SCHEME.match(text.lower())
    if scheme is None:
        if not text or "\0" in text or "::" in text or re.match(r"[a-z][a-z0-9+.-]+:/", text, re.ASCII):
            raise UsageError(
                f"{_shown(text)!r} is no address of a pool of blobs: a folder, or for example s3://bucket/prefix."
            )
        return text
    place = text[scheme.end() :].rstrip("/")
    text = scheme[0] + place
    if scheme[0] in ("file://", "local://"):
        if not place.startswith("/"):
            raise UsageError(f"{_shown(text)!r} is no address of a folder: give its whole path, file:///path.")
        return unquote(place) or "/"
    if "@" in place and ":" in place.rpartition("@")[0]:
        raise UsageError(
            f"{_shown(text)!r} holds a password, and the address of a pool is recorded in the store: give it without, "
            "and the credentials in the environment."
        )
    if not text.isprintable() or "::" in text or any(mark in place for mark in "?#\\ "):
        raise UsageError(f"{_shown(text)!r} is no address of a pool of blobs; give for example s3://bucket/prefix.")
    if scheme[0] == "memory://" or not place:
        raise UsageError(
            f"{text} is no place for blobs that other processes reach; give for example s3://bucket/prefix."
        )
    return text


def _shown(text: str) -> str:
    """An address without what may be a secret in it."""
    return re.sub(r"^([^/]*/+)[^/]*@", r"\1***@", re.split(r"[?#]", text, maxsplit=1)[0][:200])


def of_store(database: Database, folder: Path | None, given: str | Path | None) -> BlobPool:
    """The pool of a store.

    Args:
        database: Database of the store.
        folder: Folder of the store, whose ``blobs`` it is where nothing is recorded; None = it has none.
        given: Address that the user gave; None = for a store without a folder, ``EVODEVO_BLOBS``: its clients may see
            its blobs under different paths. For a store that is there already, where its blobs lie.

    Raises:
        UsageError: There is no address, something else lies there, or the store keeps its blobs in its folder.
        NotFoundError: The blobs of this store do not lie there.
        BlobsUnreachableError: A new store's object store does not answer.
    """
    with database.reading() as connection:
        known, fresh = recorded(connection), _is_fresh(connection)
    if given is None and folder is None:
        given = os.environ.get(BLOBS_VARIABLE) or None
    wanted = None if given is None else _relative(str(given), folder)
    if known is not None:
        return _known(database, folder, known, wanted, fresh=fresh)
    if folder is not None and (wanted is None or _resolved(wanted, folder) == str(folder / "blobs")):
        return FolderPool(folder / "blobs")
    if not (fresh and database.writable):
        if folder is None:
            raise StoreDamagedError(
                f"{database.place} does not say where its blobs are. Next: restore it from your backup."
            )
        raise UsageError(
            "where a store keeps its blobs is chosen when it is made, and this one keeps them in its folder. Move it "
            "with: evodevo store copy OLD NEW --blobs ADDRESS."
        )
    if wanted is None:
        raise UsageError(f"{NEEDS_ADDRESS} name it with --blobs or {BLOBS_VARIABLE} when you make the store.")
    _choose(database, folder, wanted)
    return of_store(database, folder, given)


def require_place(folder: Path | None, given: str | Path) -> None:
    """Refuse a place at which no new store can keep its blobs, so that nothing is made in vain.

    Args:
        folder: Folder of the store; None = it has none.
        given: Address that the user gave.

    Raises:
        UsageError: It is none, or something lies there.
        MissingExtraError: A package is not installed.
        BlobsUnreachableError: The object store does not answer.
    """
    place = _resolved(_relative(str(given), folder), folder)
    if folder is None or place != str(folder / "blobs"):
        _require_vacant(pool_at(place))


def _require_vacant(pool: BlobPool) -> None:
    if not pool.vacant():
        raise UsageError(f"{pool.address} is not empty: the blobs of a store need a place of their own.")


def _known(
    database: Database, folder: Path | None, known: tuple[str, str], wanted: str | None, *, fresh: bool
) -> BlobPool:
    address, owner = known
    same = wanted is None or _resolved(wanted, folder) == _resolved(address, folder)
    pool = pool_at(_resolved(address if same or wanted is None else wanted, folder))
    if same and not fresh and pool.folder is None:
        return pool  # what needs no blob needs no network
    found = pool.owner()
    if found is None and same and fresh and database.writable and pool.vacant():
        # The process that chose this place ended before it said so here.
        pool.claim(owner)
        found = pool.owner()
    if found != owner:
        here = f" or {BLOBS_VARIABLE}" if folder is None else ""
        raise NotFoundError(
            f"{pool.address} does not hold the blobs of {database.place}: {MARK} there names another store, or is "
            f"missing. Mount it, or name where they lie with --blobs{here}."
        )
    # Clients of a server may see a folder under different paths; all else is the same for all.
    if not same and wanted is not None and database.writable and (folder is not None or pool.folder is None):
        with database.writing() as connection:
            _record(connection, wanted, owner)
    return pool


def recorded(connection: Connection) -> tuple[str, str] | None:
    """Address and name of the store's pool; None where that is the folder ``blobs`` of the store."""
    table = property_table
    query = select(table.c.key, table.c.value).where(table.c.key.in_((ADDRESS, OWNER)))
    rows = {row.key: row.value for row in connection.execute(query)}
    if not rows:
        return None
    if not all(isinstance(rows.get(key), str) for key in (ADDRESS, OWNER)):
        raise StoreDamagedError(
            "the record of where the blobs of this store are is damaged. Next: evodevo store check."
        )
    return rows[ADDRESS], rows[OWNER]


def forget(connection: Connection) -> None:
    """Let a copied database keep its blobs in a folder of its own: nothing of a copy may touch another store's."""
    connection.execute(delete(property_table).where(property_table.c.key.in_((ADDRESS, OWNER))))


def confirm(connection: Connection, pool: BlobPool) -> None:
    """Refuse to delete blobs of a pool that belongs to another store.

    Raises:
        UsageError: It does, or nobody knows.
    """
    known = recorded(connection)
    if known is not None and pool.owner() != known[1]:
        raise UsageError(
            f"the blobs at {pool.address} are not this store's ({MARK} there names another store, or is missing); "
            "nothing is deleted."
        )


def of_copy(database: Database, folder: Path, given: str) -> BlobPool:
    """The new pool of a copied store, which is recorded in it.

    Args:
        database: Its database, which has forgotten where the blobs of its source are.
        folder: Where the folder of the store will be.
        given: Address of the pool; nothing is there yet.

    Raises:
        UsageError: There is something.
    """
    wanted = _relative(given, folder)
    pool = pool_at(_resolved(wanted, folder))
    if pool.folder is not None and pool.folder.is_relative_to(folder):
        raise UsageError(f"{given} lies in the folder of the store; leave --blobs out, or name another place.")
    owner = _choose(database, folder, wanted)
    pool.claim(owner)
    return pool


def clear(pool: BlobPool) -> None:
    """Delete all blobs of a pool in which a copy was begun that came to nothing."""
    for entry in list(pool.stored()):
        pool.remove(entry.digest)
    pool.remove_temporary(-math.inf, dry_run=False)
    pool.disown()


def clear_of(database: Database, folder: Path) -> None:
    """As ``clear``, for the pool that a copied store recorded, and has claimed: nobody else's is touched."""
    with database.reading() as connection:
        known = recorded(connection)
    if known is None:
        return
    pool = pool_at(_resolved(known[0], folder))
    if pool.owner() == known[1]:
        clear(pool)


def _choose(database: Database, folder: Path | None, wanted: str) -> str:
    """Record where a new store keeps its blobs, which is claimed after that; returns the name that is left there."""
    pool = pool_at(_resolved(wanted, folder))
    with database.writing() as connection:
        known = recorded(connection)
        if known is not None:
            return known[1]  # another process has just made the same store
        _require_vacant(pool)
        owner = secrets.token_hex(16)
        _record(connection, wanted, owner)
    return owner


def _is_fresh(connection: Connection) -> bool:
    return not any(connection.execute(select(table).limit(1)).first() for table in (run_table, blob_table))


def _record(connection: Connection, address: str, owner: str) -> None:
    forget(connection)
    rows = [{"key": ADDRESS, "value": address}, {"key": OWNER, "value": owner}]
    connection.execute(insert(property_table), rows)


def _relative(given: str, folder: Path | None) -> str:
    """An address as it is recorded: a path that is relative to the working folder becomes relative to the store's."""
    text = normal(given)
    if _SCHEME.match(text) or os.path.isabs(text):
        return text
    return os.path.abspath(text) if folder is None else os.path.relpath(os.path.abspath(text), folder)


def _resolved(address: str, folder: Path | None) -> str:
    if _SCHEME.match(address) or folder is None:
        return address
    return os.path.normpath(folder / address)
