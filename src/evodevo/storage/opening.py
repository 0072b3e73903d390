"""Opening of a store's folder: create, recognise, back up and migrate the database."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evodevo.errors import NotFoundError, RunOwnedError, StoreDamagedError, UsageError
from evodevo.storage import leases, migrations
from evodevo.storage.base import Progress
from evodevo.storage.dialects import write_ahead_log
from evodevo.storage.dialects.sqlite import SQLiteDatabase, expected_tables, open_file
from evodevo.storage.dialects.sqlite_schema import check_programs
from evodevo.storage.failpoints import failpoint
from evodevo.storage.filesystems import is_network
from evodevo.storage.liveness import is_alive

Mode = Literal["rw", "ro"]
WATCH_SECONDS = 0.5
"""Seconds between two looks at a copy that is being written."""


@dataclass(frozen=True)
class StoreLayout:
    """Paths inside a store's folder."""

    folder: Path

    @property
    def database(self) -> Path:
        """File of the SQLite database."""
        return self.folder / "store.db"

    @property
    def blobs(self) -> Path:
        """Folder of the pool of blobs."""
        return self.folder / "blobs"

    @property
    def backups(self) -> Path:
        """Folder of copies of the database, made before migrations and by ``Store.backup``."""
        return self.folder / "backups"


def open_database(
    layout: StoreLayout, mode: Mode, *, create: bool, without_damaged_log: bool = False
) -> tuple[SQLiteDatabase, bool]:
    """Open a store's database; with ``rw``, create or migrate it where needed.

    Args:
        layout: Its folder.
        mode: ``rw`` or ``ro``.
        create: Whether to make one where there is none.
        without_damaged_log: Whether to go on without the transactions that a damaged log has lost, after a copy of the
            log is made; they are refused otherwise.

    Returns:
        The database, and whether its folder lies on a network file system (then without WAL).
    """
    if mode not in ("rw", "ro"):
        raise UsageError(f"a store is opened rw or ro, not {mode!r}.")
    path = layout.database
    if layout.folder.exists() and not layout.folder.is_dir():
        raise UsageError(f"{layout.folder} is a file; a store is a folder.")
    if not path.exists():
        if layout.blobs.exists() and any(layout.blobs.glob("sha256/*/*")):
            raise StoreDamagedError(f"{layout.folder} holds blobs but no store.db; {backup_hint(layout)}")
        if mode == "ro" or not create:
            raise NotFoundError(
                f"no store at {layout.folder}. Name one with --store, or make one with: evodevo evolve, or evodevo"
                " extend create."
            )
    elif _is_emptied(layout):
        raise StoreDamagedError(f"{path} is empty, but there are blobs; {backup_hint(layout)}")
    else:
        _look_at_log(layout, drop=without_damaged_log)
    if mode == "ro":
        return _open_for_reading(path), is_network(layout.folder)
    return _open_for_writing(layout)


def _look_at_log(layout: StoreLayout, *, drop: bool) -> None:
    try:
        write_ahead_log.refuse_damaged(layout.database)
    except StoreDamagedError:
        if not drop:
            raise
        layout.backups.mkdir(mode=0o700, exist_ok=True)
        shutil.copyfile(
            write_ahead_log.beside(layout.database), layout.backups / f"damaged-{secrets.token_hex(4)}.db-wal"
        )


def backup(
    copy_to: Callable[[Path], None], layout: StoreLayout, version: str, progress: Progress | None = None
) -> Path:
    """Make a compact, consistent copy of the database, without blobs.

    Returns:
        Path of the copy, ``backups/<version>-<number>.db``.
    """
    layout.backups.mkdir(mode=0o700, exist_ok=True)
    number = 1 + sum(1 for _ in layout.backups.glob(f"{version}-*.db"))
    # Written under another name and renamed, so that an interrupted copy is never mistaken for a backup.
    target = layout.backups / f"{version}-{number}.db"
    draft = layout.backups / f".{secrets.token_hex(8)}"
    try:
        if progress is None:
            copy_to(draft)
        else:
            with _watched(draft, layout.database, progress):
                copy_to(draft)
        descriptor = os.open(draft, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.rename(target)
    finally:
        draft.unlink(missing_ok=True)
    return target


@contextmanager
def _watched(draft: Path, source: Path, progress: Progress) -> Iterator[None]:
    """Tell now and then how much of a database is copied; the statement that copies it tells nothing."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(WATCH_SECONDS):
            with suppress(FileNotFoundError):
                progress(draft.stat().st_size, source.stat().st_size)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _open_for_reading(path: Path) -> SQLiteDatabase:
    database = open_file(path, mode="ro")
    try:
        with database.reading() as connection:
            version = migrations.current(connection)
            if version is None:
                raise NotFoundError(f"{path} holds no runs yet.")
            if version != migrations.HEAD and version not in migrations.UNSEALED:
                raise UsageError(
                    f"{path} is of schema {version}; open it once for writing (evodevo repair) to bring it to ours."
                )
            database.unsealed = migrations.UNSEALED.get(version, frozenset())
            database.check_tables(connection)
    except BaseException:
        database.close()
        raise
    return database


def _open_for_writing(layout: StoreLayout) -> tuple[SQLiteDatabase, bool]:
    for folder in (layout.folder, layout.blobs):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    network = is_network(layout.folder)
    database = open_file(layout.database, mode="rwc")
    try:
        # Two processes may open a new or an old store at once; the second waits and finds the migrated database.
        with _alone(layout.folder / "store.lock"):
            with database.reading() as connection:
                version = migrations.current(connection)
                if version is not None:
                    check_programs(connection, expected_tables())
            with database.driver() as driver:
                driver.execute(f"PRAGMA journal_mode={'DELETE' if network else 'WAL'}")
                # Without a limit, the WAL file would stay as large as the largest transaction ever was.
                driver.execute(f"PRAGMA journal_size_limit={64 * 2**20}")
            if version is not None and version != migrations.HEAD:
                _refuse_while_in_use(database, one_kernel=not network)
                backup(database.copy_to, layout, version)
            if version != migrations.HEAD:
                with database.writing() as connection:
                    migrations.upgrade(connection)
                    failpoint("before_migration_commit")
            with database.reading() as connection:
                database.check_tables(connection)
    except BaseException:
        database.close()
        raise
    return database, network


def _refuse_while_in_use(database: SQLiteDatabase, *, one_kernel: bool) -> None:
    """An older evodevo that has a run open would go on to write without what a migration adds."""
    with database.reading() as connection:
        for run_id, owner in leases.owners(connection).items():
            if is_alive(owner, one_kernel=one_kernel):
                raise RunOwnedError(f"run {run_id} is open in {owner} of an older evodevo; end it, then try again.")


def _is_emptied(layout: StoreLayout) -> bool:
    # A kill during creation leaves an empty file too, but then there are no blobs. All data may also be in the WAL.
    wal = write_ahead_log.beside(layout.database)
    nothing = layout.database.stat().st_size == 0 and not (wal.exists() and wal.stat().st_size)
    return nothing and any(layout.blobs.glob("sha256/*/*"))


def backup_hint(layout: StoreLayout) -> str:
    """Advice on how to restore a database that cannot be repaired, as the end of an error message."""
    newest = max(layout.backups.glob("*.db"), key=lambda path: path.stat().st_mtime, default=None)
    if newest is None:
        return "put store.db back from your own copy; there is no backup in backups/."
    return f"put it back from the newest backup: cp {newest} {layout.database}"


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # the kernel drops it when the process ends, so locks are never stale
        yield
    finally:
        os.close(descriptor)
