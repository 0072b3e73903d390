"""PostgreSQL: transactions that outlive a lost connection, and are written once.

A write transaction takes a lock on the table ``property``: a shared one where it has confirmed a lease and changes the
run of that lease alone, else one that excludes all other writers, as SQLite's does. Readers take none.

Each client has a row in the table ``client``, into which every write transaction puts its number. When the answer to a
commit is lost, the client connects again and reads that number, under a lock for which a transaction that is still
open has to end: it says whether the transaction was committed. If it was not, the work is done again.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, create_engine, event, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from evodevo.storage import migrations
from evodevo.storage.addresses import ServerAddress
from evodevo.storage.base import Damage
from evodevo.storage.dialects import transferring
from evodevo.storage.dialects.postgres import schema as postgres_schema
from evodevo.storage.dialects.postgres.connecting import connect
from evodevo.storage.dialects.postgres.errors import REFUSED, is_lost, may_be_repeated, translated, translation
from evodevo.storage.dialects.sqlite import open_file
from evodevo.storage.engine import READ_SECONDS, UNSEALED, Database
from evodevo.storage.schema import metadata

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
P = ParamSpec("P")
LOST_SECONDS = 60.0
"""Time for which a server that went away is waited for."""
REACH_SECONDS = 1.0
"""The same at the first connection."""
LOCK_SECONDS = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_BEGIN = "evodevo_begin"
_ALONE, _BESIDE = "EXCLUSIVE", "ROW SHARE"
_IDLE_SECONDS = {_ALONE: 600, _BESIDE: 60}
"""Time after which the server ends a transaction of which it hears nothing: it would hold its locks for ever."""


class PostgresDatabase(Database):
    """One PostgreSQL database; see ``Database``.

    Args:
        address: Address of the database.
        writable: Whether ``writing`` is allowed.
    """

    def __init__(self, address: ServerAddress, *, writable: bool) -> None:
        self.address = address
        self._client = secrets.token_hex(16)
        self._number = 0
        self._registered = False
        self._turn = threading.RLock()
        # The backends of this client: one that does not know yet that its connection is lost holds its locks.
        self._backends: set[int] = set()
        engine = create_engine(
            "postgresql+psycopg://", creator=self._connect, poolclass=QueuePool, use_native_hstore=False
        )
        super().__init__(engine, str(address), writable=writable)

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql(connection.get_execution_options()[_BEGIN])

    def _connect(self) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = connect(self.address, name=f"evodevo {self._client[:16]}")
        self._backends.add(connection.info.backend_pid)
        return connection

    @contextmanager
    def transaction(self, begin: str) -> Iterator[Connection]:
        """A transaction that begins with these statements; errors are translated."""
        with translated(self.address), self._plain(begin) as connection:
            yield connection

    @contextmanager
    def _plain(self, begin: str) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            connection.info[UNSEALED] = self.unsealed
            connection = connection.execution_options(**{_BEGIN: begin})
            with connection.begin():
                yield connection

    @contextmanager
    def reading(self, seconds: float = READ_SECONDS) -> Iterator[Connection]:
        with self.transaction(_reading(seconds)) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        self.require_writable()
        with self._turn, self.transaction(self._writing(_ALONE)) as connection:
            yield connection

    def reach(self) -> None:
        """Connect; a server that is not there is not waited for as later, since the address may be wrong."""
        for wait in self._attempts(REACH_SECONDS):
            try:
                with self.engine.connect():
                    return
            except DBAPIError as error:
                wait(error)

    def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **settings: P.kwargs) -> T:
        return self.repeated(_reading(READ_SECONDS), work, *args, **settings)

    def repeated(
        self, begin: str, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **settings: P.kwargs
    ) -> T:
        """The result of work in a transaction, done again where the connection was lost; it may be done twice."""
        for wait in self._attempts():
            try:
                with self._plain(begin) as connection:
                    return work(connection, *args, **settings)
            except (DBAPIError, *REFUSED) as error:
                wait(error)
        raise AssertionError("attempts end with an error")

    def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **settings: P.kwargs) -> T:
        return self._write(_ALONE, work, *args, **settings)

    def write_beside(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **settings: P.kwargs) -> T:
        return self._write(_BESIDE, work, *args, **settings)

    def _write(
        self, lock: str, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **settings: P.kwargs
    ) -> T:
        self.require_writable()
        with self._turn:
            for wait in self._attempts():
                committing = False
                try:
                    self._register()
                    with self._plain(self._writing(lock)) as connection:
                        result = work(connection, *args, **settings)
                        committing = True
                    return result
                except (DBAPIError, *REFUSED) as error:
                    wait(error)
                    if committing and is_lost(error) and self._was_committed():
                        return result
        raise AssertionError("attempts end with an error")

    def _was_committed(self) -> bool:
        """Whether the transaction of the current number was committed, after its connection was lost."""
        for wait in self._attempts():
            try:
                self._end_lost_backends()
                # It waits for a transaction that is still open, also where that one writes the row anew.
                query = (
                    f"INSERT INTO client (id) VALUES ('{self._client}') "
                    "ON CONFLICT (id) DO UPDATE SET seen = clock_timestamp() RETURNING number"
                )
                with self._plain(f"BEGIN; {_locks()}") as connection:
                    return bool(connection.execute(text(query)).scalar() == self._number)
            except (DBAPIError, *REFUSED) as error:
                wait(error)
        raise AssertionError("attempts end with an error")

    def _attempts(self, seconds: float | None = None) -> Iterator[Callable[[BaseException], None]]:
        """Attempts, each with what takes its error: it waits, or raises where another attempt makes no sense."""
        end, pause = time.monotonic() + (LOST_SECONDS if seconds is None else seconds), _FIRST_PAUSE

        def wait(error: BaseException) -> None:
            nonlocal pause
            if not may_be_repeated(error) or time.monotonic() + pause > end:
                raise translation(error, self.address) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

        while True:
            yield wait

    def _writing(self, lock: str) -> str:
        self._number += 1
        return (
            f"BEGIN; {_locks()}; {_idle(_IDLE_SECONDS[lock])}; LOCK TABLE property IN {lock} MODE; "
            # Written anew where another client has swept it away, after a day without a write of this one.
            f"INSERT INTO client (id, number, seen) VALUES ('{self._client}', {self._number}, clock_timestamp()) "
            "ON CONFLICT (id) DO UPDATE SET number = EXCLUDED.number, seen = EXCLUDED.seen"
        )

    def _register(self) -> None:
        if self._registered:
            return
        with self._plain("BEGIN") as connection:
            # Rows of clients that did not close are litter after a day: nobody asks for their last number any more.
            connection.execute(text("DELETE FROM client WHERE seen < clock_timestamp() - interval '1 day'"))
            connection.execute(text(f"INSERT INTO client (id) VALUES ('{self._client}') ON CONFLICT DO NOTHING"))
        self._registered = True

    def _end_lost_backends(self) -> None:
        """End the backends of this client but the one that asks."""
        with self._plain("BEGIN") as connection:
            ours = f"application_name = 'evodevo {self._client[:16]}' AND pid <> pg_backend_pid()"
            lost = connection.execute(text(f"SELECT pid FROM pg_stat_activity WHERE {ours}")).scalars().all()
            for pid in self._backends.intersection(lost):
                connection.execute(select(func.pg_terminate_backend(pid)))

    def problems(self, connection: Connection, *, deep: bool) -> Iterator[Damage]:
        """What can be asked of a server: its pages and indexes are its own, and their checksums are checked by it."""
        for key in postgres_schema.foreign_keys():
            count = connection.execute(key.orphans).scalar_one()
            if count:
                yield Damage(
                    "database", self.place, f"{count} rows of {key.table} refer to rows of {key.other} that are not"
                )

    def reindex(self, connection: Connection) -> None:
        for table in metadata.sorted_tables:
            connection.exec_driver_sql(f'REINDEX TABLE "{table.name}"')

    def check_tables(self, connection: Connection) -> None:
        postgres_schema.check_tables(connection)

    def lease_seconds(self, connection: Connection, run_id: str) -> float:
        query = "SELECT extract(epoch FROM clock_timestamp() - renewed) FROM lease WHERE run_id = :run"
        return max(0.0, float(connection.execute(text(query), {"run": run_id}).scalar() or 0.0))

    def copy_to(self, target: Path) -> None:
        copied = open_file(target, mode="rwc")
        try:
            with copied.writing() as there:
                migrations.upgrade(there)
                with self.reading(math.inf) as here:
                    transferring.transfer(here, there)
        finally:
            copied.close()

    def optimize(self) -> None:
        if self._registered:
            with self.transaction("BEGIN") as connection:
                connection.execute(text(f"DELETE FROM client WHERE id = '{self._client}'"))
            self._registered = False


def _reading(seconds: float) -> str:
    limit = 0 if seconds == math.inf else max(1, round(seconds * 1000))
    return f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {limit}; {_idle(0)}"


def _idle(seconds: int) -> str:
    return f"SET LOCAL idle_in_transaction_session_timeout = {1000 * seconds}"


def _locks() -> str:
    return f"SET LOCAL lock_timeout = {round(LOCK_SECONDS * 1000)}"
