"""SQLite: pragmas, read and write transactions, and the translation of its errors."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import CheckConstraint, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DatabaseError, DBAPIError, StatementError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool, StaticPool

from evodevo.errors import DiskFullError, EvodevoError, RunOwnedError, StoreDamagedError, UsageError
from evodevo.storage import seals
from evodevo.storage.base import Damage
from evodevo.storage.dialects import sqlite_schema, write_ahead_log
from evodevo.storage.engine import READ_SECONDS, UNSEALED, Database
from evodevo.storage.schema import VERSION_TABLE, metadata

BUSY_SECONDS = 30.0
_DEADLINE = "evodevo_deadline"
"""Fact of a connection (``Connection.info``): when its reading ends."""
_STEPS = 100_000
"""Instructions of SQLite between two looks at the clock, under a millisecond."""
_READS = frozenset(
    (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_PRAGMA,
    )
)
"""What a connection for reading may do at all."""


class SQLiteDatabase(Database):
    """One SQLite database; see ``Database``.

    Args:
        engine: Source of connections.
        place: Name of the database in error messages.
        writable: Whether ``writing`` is allowed.
        single: Whether all threads share one connection (in memory), so that they have to take turns.
    """

    def __init__(self, engine: Engine, place: str, *, writable: bool, single: bool = False) -> None:
        super().__init__(engine, place, writable=writable)
        self._turn = threading.RLock() if single else nullcontext()

    @contextmanager
    def reading(self, seconds: float = READ_SECONDS) -> Iterator[Connection]:
        with self._transaction("BEGIN", seconds) as connection:
            yield connection
            # There is nothing to commit, and on a damaged file even a commit fails.
            connection.rollback()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        # It takes the write lock at once: a plain BEGIN that reads first and writes later fails with SQLITE_BUSY in
        # spite of any timeout, because its view may be old (https://sqlite.org/lang_transaction.html).
        self.require_writable()
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str, seconds: float = math.inf) -> Iterator[Connection]:
        with self._turn, translated(self.place), self.engine.connect() as connection:
            connection.info[_DEADLINE] = time.monotonic() + seconds
            connection.info[UNSEALED] = self.unsealed
            connection = connection.execution_options(evodevo_begin=begin)
            with connection.begin():
                yield connection

    @contextmanager
    def driver(self) -> Iterator[sqlite3.Connection]:
        """A connection of the driver outside of any transaction, for statements that SQLite allows only there."""
        with self._turn, translated(self.place), self.engine.connect() as connection:
            connection.info[_DEADLINE] = math.inf
            connection_of_driver = connection.connection.driver_connection
            assert isinstance(connection_of_driver, sqlite3.Connection), "a live pool hands out live connections"
            connection_of_driver.set_authorizer(None)
            try:
                yield connection_of_driver
            finally:
                if not self.writable:
                    connection_of_driver.set_authorizer(_only_reads)

    def problems(self, connection: Connection, *, deep: bool) -> Iterator[Damage]:
        try:
            pragma = "integrity_check" if deep else "quick_check"
            for (line,) in connection.exec_driver_sql(f"PRAGMA {pragma}(20)"):
                if line != "ok":
                    yield Damage("database", "store.db", str(line))
            for row in connection.exec_driver_sql("PRAGMA foreign_key_check"):
                yield Damage(
                    "database", "store.db", f"row {row[1]} of {row[0]} refers to a row of {row[2]} that is not"
                )
            # Of these the pragma tells only a connection that may write.
            for table, rule in _constraints():
                (count,) = connection.exec_driver_sql(f"SELECT count(*) FROM {table} WHERE NOT ({rule})").one()
                if count:
                    yield Damage("database", "store.db", f"{count} rows of {table} break the rule {rule}")
        except DatabaseError as error:
            yield Damage("database", "store.db", str(error.orig))

    def reindex(self, connection: Connection) -> None:
        connection.exec_driver_sql("REINDEX")

    def check_tables(self, connection: Connection) -> None:
        sqlite_schema.check_tables(connection, expected_tables(), sealed=seals.RUN not in self.unsealed)

    def copy_to(self, target: Path) -> None:
        with self.driver() as driver:
            driver.execute("VACUUM INTO ?", (str(target),))

    def optimize(self) -> None:
        with self.driver() as driver:
            driver.execute("PRAGMA optimize")


@cache
def _constraints() -> tuple[tuple[str, str], ...]:
    """The CHECK constraints of all tables: (table, expression)."""
    found = {
        (table.name, str(constraint.sqltext))
        for table in metadata.sorted_tables
        for constraint in (*table.constraints, *(one for column in table.columns for one in column.constraints))
        if isinstance(constraint, CheckConstraint)
    }
    return tuple(sorted(found))


@cache
def expected_tables() -> sqlite_schema.Description:
    """What SQLite tells of a database of the newest version."""
    database = open_memory()
    with database.writing() as connection:
        metadata.create_all(connection)
        connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    with database.reading() as connection:
        description = sqlite_schema.describe(connection)
    database.close()
    return description


def open_file(path: Path, *, mode: str) -> SQLiteDatabase:
    """Connect to a database file.

    Args:
        path: Path of the file.
        mode: ``rwc`` (read, write, create), ``rw`` or ``ro``.
    """
    options = f"mode={mode}"
    if mode == "ro" and _needs_immutable(path):
        options = "immutable=1"
    address = f"file:{quote(str(path))}?{options}"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(
            address,
            uri=True,
            isolation_level=None,
            timeout=BUSY_SECONDS,
            check_same_thread=False,
            cached_statements=256,
        )

    engine = _engine(connect, QueuePool, writable=mode != "ro")
    return SQLiteDatabase(engine, str(path), writable=mode != "ro")


def open_memory() -> SQLiteDatabase:
    """A database in memory that exists as long as this object."""
    # StaticPool, because every further connection to ":memory:" would be a new, empty database.
    engine = _engine(lambda: sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False), StaticPool)
    return SQLiteDatabase(engine, "the store in memory", writable=True, single=True)


def _engine(
    connect: Callable[[], sqlite3.Connection], pool: type[QueuePool] | type[StaticPool], *, writable: bool = True
) -> Engine:
    engine = create_engine("sqlite://", creator=connect, poolclass=pool)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
        # Foreign keys are unchecked by default. Some builds of SQLite default to synchronous=NORMAL in WAL mode, which
        # may lose the last commits at a loss of power. trusted_schema=OFF keeps the schema of a file from an untrusted
        # source from calling functions with side effects.
        for pragma in ("foreign_keys=ON", "synchronous=FULL", "trusted_schema=OFF", "cell_size_check=ON"):
            connection.execute(f"PRAGMA {pragma}")
        record.info[_DEADLINE] = math.inf
        connection.set_progress_handler(lambda: time.monotonic() > record.info[_DEADLINE], _STEPS)
        if not writable:
            connection.set_authorizer(_only_reads)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # The driver's own BEGIN is off (isolation_level None), so ours decides which locks are taken.
        connection.exec_driver_sql(connection.get_execution_options().get("evodevo_begin", "BEGIN"))

    return engine


def _only_reads(action: int, *_names: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY


def _needs_immutable(path: Path) -> bool:
    # A reader of a WAL database must create a -shm file beside it. Where it may not, and no writer left a -wal file,
    # the database file alone holds all data and can be opened as immutable.
    wal = write_ahead_log.beside(path)
    return not os.access(path.parent, os.W_OK) and not (wal.exists() and wal.stat().st_size > 0)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn errors of SQLite and SQLAlchemy into errors of evodevo."""
    try:
        yield
    except DBAPIError as error:
        raise _translation(error.orig, place) from error
    except sqlite3.Error as error:
        raise _translation(error, place) from error
    except UnicodeDecodeError as error:
        # SQLite quotes a damaged schema in its message, and the driver decodes that.
        raise StoreDamagedError(
            f"{place} is damaged ({error}). Next: evodevo repair; backups lie in backups/."
        ) from error
    except (StatementError, UnicodeEncodeError, OverflowError) as error:
        # Raised while values are bound: a lone surrogate, an integer over 64 bits, text for a number.
        raise UsageError(f"{place} refuses this record: {str(error).splitlines()[0]}.") from error


def _translation(error: BaseException | None, place: str) -> EvodevoError:
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    if primary == sqlite3.SQLITE_FULL or code in (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC):
        # A quota (EDQUOT) or file size limit (EFBIG) arrives as a failed write, a full disk as SQLITE_FULL.
        return DiskFullError(
            f"no space left for {place} ({error}). What was finished is safe; free some space (evodevo store gc), "
            "then: evodevo resume."
        )
    if code in (sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMOPEN):
        # A database in WAL mode is opened with an index of 32 kB beside it, also by whoever wants to free space.
        return DiskFullError(
            f"no space left for {place}-shm, without which it cannot be opened ({error}). What was finished is safe; "
            "free 100 kB by other means, then more with: evodevo store gc."
        )
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreDamagedError(f"{place} is damaged ({error}). Next: evodevo repair; backups lie in backups/.")
    if primary == sqlite3.SQLITE_INTERRUPT:
        return StoreDamagedError(
            f"reading {place} did not end within {READ_SECONDS:.0f} s. Next: evodevo store check; backups lie in "
            "backups/."
        )
    if isinstance(error, sqlite3.OperationalError) and "decode to UTF-8" in str(error):
        return StoreDamagedError(f"{place} is damaged ({error}). Next: evodevo store check; backups lie in backups/.")
    if primary == sqlite3.SQLITE_BUSY:
        return RunOwnedError(
            f"another process kept {place} locked for {BUSY_SECONDS:.0f} s; try again when it is done."
        )
    if primary == sqlite3.SQLITE_READONLY:
        return UsageError(f"{place} cannot be written here ({error}).")
    if primary == sqlite3.SQLITE_CANTOPEN:
        return UsageError(f"{place} cannot be opened ({error}); check that it exists and that its folder is yours.")
    if primary == sqlite3.SQLITE_CONSTRAINT:
        return UsageError(f"{place} refuses this record: {error}.")
    return EvodevoError(f"{place}: {type(error).__name__}: {error}")
