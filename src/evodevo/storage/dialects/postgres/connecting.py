"""Connections to PostgreSQL that are durable, bounded in time, and see one schema."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from evodevo.errors import MissingExtraError, UsageError
from evodevo.storage.addresses import ServerAddress

CONNECT_SECONDS = 10
ANSWER_SECONDS = 300.0
"""Time after which a connection without any answer counts as lost: a network may swallow what it carries."""
IDLE_SECONDS = 60
"""Time after which the server ends a transaction of which it hears nothing; it would hold its locks for ever."""
_KEEP = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
_SET_UP = f"""
    SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', false),
        set_config('idle_in_transaction_session_timeout', '{IDLE_SECONDS * 1000}', false),
        set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false),
        set_config('tcp_keepalives_count', '3', false),
        set_config('client_encoding', 'UTF8', false),
        set_config('synchronous_commit',
            CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
            ELSE current_setting('synchronous_commit') END, false),
        set_config('extra_float_digits', '1', false),
        current_schema(), current_setting('server_encoding'), current_setting('server_version_num')::int
"""
OLDEST = 130000


def connect(address: ServerAddress, *, name: str) -> Any:
    """A new connection in which every statement outside of BEGIN and COMMIT is a transaction of its own.

    Args:
        address: Address of the database.
        name: What the server calls the client.

    Raises:
        MissingExtraError: psycopg is not installed.
        UsageError: The address is none, or the database cannot hold a store.
        psycopg.OperationalError: The server cannot be reached, or refuses.
    """
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise MissingExtraError(
            "a store in PostgreSQL needs the package psycopg. Install it with: pip install 'evodevo[postgres]'"
        ) from None

    class Bounded(psycopg.Connection[Any]):
        """A connection that is closed where no answer comes."""

        def wait(self, gen: Any, *args: Any, **settings: Any) -> Any:
            return super().wait(self._limited(gen), *args, **settings)

        def _limited(self, gen: Any) -> Generator[Any, Any, Any]:
            end = time.monotonic() + ANSWER_SECONDS
            try:
                state = next(gen)
                while True:
                    ready = yield state
                    if ready:
                        end = time.monotonic() + ANSWER_SECONDS
                    elif time.monotonic() > end:
                        self.pgconn.finish()
                        raise psycopg.OperationalError(f"no answer within {ANSWER_SECONDS:.0f} s")
                    state = gen.send(ready)
            except StopIteration as stop:
                return stop.value

    try:
        given = conninfo_to_dict(address.whole)
    except psycopg.ProgrammingError:
        # libpq quotes parts of the address in its message, which may be parts of a password.
        raise UsageError(
            f"{address} is no address of a database: postgresql://USER@HOST:PORT/DATABASE, with special "
            "characters of a password written as %40."
        ) from None
    settings: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **_KEEP, **given, "application_name": name}
    connection = Bounded.connect(autocommit=True, **settings)
    try:
        row = connection.execute(_SET_UP).fetchone()
        assert row is not None, "it selects one row"
        *_, schema, encoding, version = row
        if schema is None:
            raise UsageError(f"{address} has no schema of yours (search_path); make one, or name one in the address.")
        if encoding != "UTF8":
            raise UsageError(f"{address} has the encoding {encoding}; a store needs UTF8.")
        if version < OLDEST:
            raise UsageError(f"{address} is PostgreSQL {version // 10000}; a store needs {OLDEST // 10000} or newer.")
    except BaseException:
        connection.close()
        raise
    return connection
