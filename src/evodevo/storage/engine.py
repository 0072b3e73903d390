"""What the store asks of its database: transactions, and what differs between databases (``dialects``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine

from evodevo.errors import UsageError
from evodevo.storage.base import Damage

UNSEALED = "evodevo_unsealed"
"""Fact of a connection (``Connection.info``): the kinds of rows that have no seals in its store."""
READ_SECONDS = 120.0
"""Seconds after which a read transaction is stopped: no file may keep a command for ever."""
T = TypeVar("T")
P = ParamSpec("P")


class Database(ABC):
    """One database and its transactions; safe to use from several threads, not across a fork.

    Args:
        engine: Source of connections.
        place: Name of the database in error messages, without a password.
        writable: Whether ``writing`` is allowed.
    """

    def __init__(self, engine: Engine, place: str, *, writable: bool) -> None:
        self.engine = engine
        self.place = place
        self.writable = writable
        # Kinds of rows; only stores of an older schema, read alone, have some.
        self.unsealed: frozenset[str] = frozenset()

    @abstractmethod
    def reading(self, seconds: float = READ_SECONDS) -> AbstractContextManager[Connection]:
        """A read transaction with a consistent view; never blocks a writer and is never blocked by one.

        Args:
            seconds: Time after which its statements are stopped.

        Raises:
            StoreDamagedError: The database differs from what was written, or a statement did not end in time.
        """

    @abstractmethod
    def writing(self) -> AbstractContextManager[Connection]:
        """A write transaction, committed at the end of the block, undone by any exception; nobody else writes then.

        Raises:
            UsageError: The store is open for reading only.
            DiskFullError: The disk is full; nothing of this transaction was written.
            StoreDamagedError: The database differs from what was written.
        """

    def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **settings: P.kwargs) -> T:
        """The result of work in a read transaction; repeated where the connection was lost."""
        with self.reading() as connection:
            return work(connection, *args, **settings)

    def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **settings: P.kwargs) -> T:
        """The result of work in a write transaction, which is durable then; nobody else writes meanwhile.

        Where the database can lose a connection, the work is repeated if nothing of it was written, and only then.
        """
        with self.writing() as connection:
            return work(connection, *args, **settings)

    def write_beside(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **settings: P.kwargs) -> T:
        """As ``write``, for work that has confirmed a lease and changes its run alone: others may write meanwhile."""
        return self.write(work, *args, **settings)

    @abstractmethod
    def copy_to(self, target: Path) -> None:
        """Write a compact, consistent copy of the database, without blobs, into a new file of SQLite."""

    def require_writable(self) -> None:
        """Refuse to write where the database is open for reading."""
        if not self.writable:
            raise UsageError(f"{self.place} is open for reading only.")

    @abstractmethod
    def problems(self, connection: Connection, *, deep: bool) -> Iterator[Damage]:
        """Damage of the database itself: pages, indexes, references to rows that are not there."""

    @abstractmethod
    def reindex(self, connection: Connection) -> None:
        """Rebuild the indexes from the rows: the only damage that can be repaired without inventing data."""

    @abstractmethod
    def check_tables(self, connection: Connection) -> None:
        """Refuse a schema that is not that of the newest version, or the one before seals.

        Raises:
            StoreDamagedError: Something is missing, is another, or was added; the message names it.
        """

    def lease_seconds(self, connection: Connection, run_id: str) -> float:
        """Seconds since the lease was confirmed, by the database's clock; 0 where it has none."""
        return 0.0

    @abstractmethod
    def optimize(self) -> None:
        """Tell the database that this client ends, for its statistics."""

    def close(self) -> None:
        """Close all connections; everything committed stays."""
        self.engine.dispose()
