"""Whole stores as one file, and as copies: what is held, and nothing that nobody holds.

A pack is a zip file without compression: ``manifest.json`` first, with the size and the SHA-256 of every other member,
then ``store.db`` and the held blobs, ``blobs/<digest>``. A pack from a stranger is data: members are read only as far
as the manifest names them, and no name of a member becomes a path.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evodevo import canonical
from evodevo.errors import DiskFullError, EvodevoError, NotFoundError, StoreDamagedError, UnsafeFileError, UsageError
from evodevo.files import opened
from evodevo.scratch import Scratch, sweep
from evodevo.storage import integrity, pools
from evodevo.storage.addresses import Place, ServerAddress
from evodevo.storage.base import Progress, quiet
from evodevo.storage.blobs import CHUNK, BlobPool, FolderPool
from evodevo.storage.database import Store
from evodevo.storage.dialects.sqlite import SQLiteDatabase, expected_tables, open_file
from evodevo.storage.dialects.sqlite_schema import check_programs
from evodevo.storage.dialects.transferring import transfer

FORMAT = "evodevo.pack/1"
_DAMAGES = (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, ValueError, MemoryError, struct.error)
MANIFEST, DATABASE, BLOBS = "manifest.json", "store.db", "blobs/"
MOST_MEMBERS = 2_000_000
MOST_MANIFEST_BYTES = 512 * 2**20
COPY = ".copy"
"""Name of a file in a draft whose database names a pool of its own: no other database may have its pool cleared."""
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Moved:
    """A pack or a copy that was made.

    Attributes:
        path: Absolute path of the file or folder, or the address of a database without its password.
        blobs: Number of blobs in it.
        bytes: Bytes of the database and the blobs.
    """

    path: Path | str
    blobs: int
    bytes: int


def pack(source: Place, target: Path, progress: Progress = quiet) -> Moved:
    """Write a store into one file; it may be in use, and what it holds now is written.

    Raises:
        NotFoundError: There is no store.
        UsageError: The target exists, or cannot be written.
        StoreDamagedError: A held blob is missing or damaged; nothing is written.
    """
    _refuse_existing(target)
    with _drafts_beside(target) as drafts, _snapshot(source, drafts / "snapshot") as (database, held, pool):
        draft = drafts / "pack"
        members: list[dict[str, Any]] = [
            {"name": DATABASE, "bytes": database.stat().st_size, "sha256": _sha256(database)}
        ]
        members += [{"name": f"{BLOBS}{digest}", "bytes": size, "sha256": digest} for digest, size in held.items()]
        whole = sum(int(member["bytes"]) for member in members)
        manifest = {"format": FORMAT, "files": members}
        done = 0
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(zipfile.ZipInfo(MANIFEST, _DATE), canonical.dumps(manifest))
            for member in members:
                name, digest = str(member["name"]), str(member["sha256"])
                info = zipfile.ZipInfo(name, _DATE)
                info.file_size = int(member["bytes"])
                read = hashlib.sha256()
                with archive.open(info, "w") as out:
                    for chunk in _of_file(database) if name == DATABASE else _held(pool, digest):
                        out.write(chunk)
                        read.update(chunk)
                        done += len(chunk)
                        progress(done, whole)
                if read.hexdigest() != digest:
                    raise StoreDamagedError(f"blob {digest} is damaged, and nothing was packed. Next: evodevo repair.")
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.rename(target)
        return Moved(target.absolute(), len(held), whole)


def unpack(source: Path, folder: Path, progress: Progress = quiet) -> Moved:
    """Make a store of a pack, and check every byte and row of it before it appears.

    Raises:
        NotFoundError: There is no such file.
        UsageError: The folder exists and is not empty.
        UnsafeFileError: The file is no pack, or holds anything but what its manifest names; nothing is written.
        StoreDamagedError: A member is not the one that was packed, or a row is not as written; nothing is written.
        DiskFullError: It does not fit.
    """
    if not source.exists():
        raise NotFoundError(f"there is no file {source}.")
    _refuse_existing(folder, empty=True)
    try:
        with opened(source) as pack, zipfile.ZipFile(pack) as archive:
            files = _members(archive)
            whole = sum(size for size, _ in files.values())
            if whole > shutil.disk_usage(_existing(folder)).free:
                raise DiskFullError(f"{source} unpacks to {whole:,} bytes, and there is less space at {folder}.")
            with _draft_of(folder) as draft:
                pool, done = FolderPool(draft / "blobs"), 0
                for name, (size, digest) in files.items():
                    part = draft / f".{secrets.token_hex(8)}"
                    with archive.open(name) as file, part.open("xb") as out:
                        read = _copied(file, out, size)
                    if read != digest:
                        raise StoreDamagedError(f"{name} of {source} is not what was packed; nothing is unpacked.")
                    if name == DATABASE:
                        _of_its_own(part)
                        part.rename(draft / DATABASE)
                    else:
                        pool.put_file(part)
                        part.unlink()
                    done += size
                    progress(done, 2 * whole)
                _check(draft, progress)
            return Moved(folder.absolute(), len(files) - 1, whole)
    except _DAMAGES as error:
        if isinstance(error, UsageError):
            raise
        raise UnsafeFileError(f"{source} is not a pack of evodevo ({error}); nothing is unpacked.") from None


def copy(source: Place, target: Place, progress: Progress = quiet, *, blobs: str | Path | None = None) -> Moved:
    """Copy what a store holds into a new one, and check it before it appears; the source may be in use.

    Args:
        source: Folder or database of the store.
        target: Folder of the new store, or a database without runs.
        progress: Called while blobs are copied.
        blobs: Where the new store keeps its blobs: a folder, or an address such as ``s3://bucket/prefix``; None = its
            own folder, wherever those of the source are, or for a database, as for a new store there.

    Raises:
        NotFoundError: There is no store.
        UsageError: The target exists and is not empty, or something lies where the blobs are to go.
        StoreDamagedError: A held blob or a row is damaged; nothing is written.
    """
    if isinstance(target, ServerAddress):
        return _copy_to_server(source, target, blobs, progress)
    _refuse_existing(target, empty=True)
    with (
        _drafts_beside(target) as drafts,
        _snapshot(source, drafts / "snapshot") as (database, held, pool),
        _store_at(target, database, None if blobs is None else str(blobs), progress) as own,
    ):
        size = database.stat().st_size
        # The second half is the check of what was copied.
        whole = _copy_blobs(held, pool, own, size, lambda done, all: progress(done, 2 * all))
        return Moved(target.absolute(), len(held), whole)


def _copy_to_server(source: Place, target: ServerAddress, blobs: str | Path | None, progress: Progress) -> Moved:
    with Store.open(source, "ro", create=False) as origin, Store.open(target, blobs=blobs) as copied:
        if copied.place == origin.place:
            raise UsageError("a store cannot be copied onto itself; name another place.")
        with origin.giving() as here:
            held = integrity.held(here)
            # Before any row; it may take long.
            whole = _copy_blobs(held, origin.blobs, copied.blobs, 0, progress)
            with copied.receiving() as there:
                transfer(here, there)
    return Moved(str(target), len(held), whole)


def _copy_blobs(held: dict[str, int], pool: BlobPool, own: BlobPool, begun: int, progress: Progress) -> int:
    """Copy held blobs; returns the bytes of all, with those that are begun with."""
    done, whole = begun, begun + sum(held.values())
    for digest, size in held.items():
        if _put(own, _held(pool, digest)) != digest:
            raise StoreDamagedError(f"blob {digest} is damaged, and nothing was copied. Next: evodevo repair.")
        done += size
        progress(done, whole)
    return whole


def sweep_drafts(folder: Path, *, dry_run: bool = False) -> list[Path]:
    """Remove what killed packs, unpacks and copies left in the folder in which they were to make something.

    Args:
        folder: That folder.
        dry_run: Whether to only find them.

    Returns:
        Paths of the drafts.
    """
    if not dry_run:
        for draft in sweep(folder, dry_run=True):
            if (draft / COPY).is_file() and (draft / DATABASE).is_file():
                # Its blobs in another place; where that cannot be reached now, they stay.
                with suppress(EvodevoError, OSError):
                    _clear_pool_of(draft)
    return sweep(folder, dry_run=dry_run)


def _clear_pool_of(draft: Path) -> None:
    with _database_of(draft / DATABASE) as database:
        pools.clear_of(database, draft)


@contextmanager
def _database_of(path: Path) -> Iterator[SQLiteDatabase]:
    database = open_file(path, mode="rw")
    try:
        with database.reading() as connection:
            check_programs(connection, expected_tables())
        yield database
    finally:
        database.close()


@contextmanager
def _draft_beside(path: Path) -> Iterator[Scratch]:
    """A folder on the same disk, which the next command of this kind removes if this process is killed."""
    parent = path.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    sweep_drafts(parent)
    draft = Scratch(parent)
    try:
        yield draft
    finally:
        draft.remove()


@contextmanager
def _drafts_beside(path: Path) -> Iterator[Path]:
    with _draft_beside(path) as draft:
        yield Path(draft.path)


@contextmanager
def _snapshot(source: Place, draft: Path) -> Iterator[tuple[Path, dict[str, int], BlobPool]]:
    """A copy of the database of a store, the held blobs (digest -> bytes), and their pool."""
    with Store.open(source, "ro", create=False) as store:
        store.copy_database(draft)
        yield draft, _of_its_own(draft), store.blobs


def _of_its_own(database: Path) -> dict[str, int]:
    """The blobs that a copied database holds (digest -> bytes), after it has forgotten where those were."""
    with _database_of(database) as opened, opened.writing() as connection:
        pools.forget(connection)
        return integrity.held(connection)


@contextmanager
def _draft_of(folder: Path) -> Iterator[Path]:
    """A folder to be filled, which takes its place at the end."""
    with _draft_beside(folder) as draft:
        yield Path(draft.path)
        if folder.exists():
            folder.rmdir()
        draft.become(folder)


@contextmanager
def _store_at(folder: Path, database: Path, blobs: str | None, progress: Progress) -> Iterator[BlobPool]:
    """The pool of a new store with this database; the store takes its place when it has been checked."""
    with _draft_of(folder) as draft:
        shutil.copyfile(database, draft / DATABASE)
        if blobs is None:
            yield FolderPool(draft / "blobs")
            _check(draft, progress)
            return
        (draft / COPY).touch()
        with _database_of(draft / DATABASE) as opened:
            # A relative folder is the same as seen from the draft, which lies beside.
            pool = pools.of_copy(opened, folder.absolute(), blobs)
        try:
            yield pool
            _check(draft, progress)
            (draft / COPY).unlink()
        except BaseException:
            pools.clear(pool)
            raise


def _check(draft: Path, progress: Progress) -> None:
    with Store.open(draft, "rw", create=False) as store:
        # Half of the work is done: everything is written.
        store.check(deep=True, progress=lambda done, whole: progress(whole + done, 2 * whole)).require()


def _held(pool: BlobPool, digest: str) -> Iterator[bytes]:
    try:
        yield from pool.chunks(digest)
    except NotFoundError:
        raise StoreDamagedError(f"blob {digest} is not there. Next: evodevo repair.") from None


def _put(pool: BlobPool, chunks: Iterator[bytes]) -> str:
    """Put a blob that does not lie in memory whole, and perhaps in no file."""
    with tempfile.TemporaryFile() as file:
        for chunk in chunks:
            file.write(chunk)
        return pool.put_open(file)


def _of_file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _members(archive: zipfile.ZipFile) -> dict[str, tuple[int, str]]:
    """Name -> size and SHA-256 of the members, which are exactly those of the manifest."""
    infos = archive.infolist()
    if not infos or infos[0].filename != MANIFEST or len(infos) > MOST_MEMBERS:
        raise ValueError("it does not begin with a manifest, or has too many members")
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
            raise ValueError("a member is compressed or encrypted")
    if infos[0].file_size > MOST_MANIFEST_BYTES:
        raise ValueError("the manifest is too large")
    try:
        manifest = canonical.loads(archive.read(infos[0]), what="its manifest", max_bytes=MOST_MANIFEST_BYTES)
    except UsageError as error:
        raise ValueError(error) from None
    files: dict[str, tuple[int, str]] = {}
    rows: Any = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(rows, list) or manifest.get("format") != FORMAT:
        raise ValueError("its manifest is of another format")
    for row in rows:
        name, size, digest = (
            (row.get(key) for key in ("name", "bytes", "sha256")) if isinstance(row, dict) else [None] * 3
        )
        named = isinstance(name, str) and isinstance(digest, str) and re.fullmatch(r"[0-9a-f]{64}", digest)
        if not named or not isinstance(size, int) or name not in (DATABASE, f"{BLOBS}{digest}") or name in files:
            raise ValueError("its manifest names something else than a database and blobs")
        files[str(name)] = (size, str(digest))
    if DATABASE not in files or [info.filename for info in infos[1:]] != list(files):
        raise ValueError("its members are not those of its manifest")
    if any(info.file_size != files[info.filename][0] for info in infos[1:]):
        raise ValueError("a member has another size than the manifest states")
    return files


def _copied(source: Any, target: Any, size: int) -> str:
    """Copy at most ``size`` bytes and return their SHA-256."""
    digest, left = hashlib.sha256(), size
    while left and (chunk := source.read(min(CHUNK, left))):
        target.write(chunk)
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _existing(path: Path) -> Path:
    """The nearest folder above that exists."""
    return next(parent for parent in path.absolute().parents if parent.is_dir())


def _refuse_existing(target: Path, *, empty: bool = False) -> None:
    if empty and target.is_dir() and not any(target.iterdir()):
        return
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} exists already; name another place.")
    if not empty and not target.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}.")
    if not os.access(_existing(target), os.W_OK):
        raise UsageError(f"{target} cannot be made: {_existing(target)} cannot be written by you.")
