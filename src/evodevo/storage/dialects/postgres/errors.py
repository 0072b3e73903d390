"""Errors of PostgreSQL: which ones end with another attempt, and what the others mean to a user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, StatementError

from evodevo.errors import DiskFullError, EvodevoError, RunOwnedError, StoreDamagedError, UsageError
from evodevo.storage.addresses import ServerAddress, secrets_of
from evodevo.storage.engine import READ_SECONDS

REFUSED = (StatementError, UnicodeEncodeError, OverflowError)
"""Raised while values are bound: a lone surrogate, an integer over 64 bits, text for a number."""
LOST = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "53300"})
"""Shut down, crashed, starting up, idle for too long, too many connections."""
REPEATABLE = frozenset({"40001", "40P01"})
"""Serialization failure, deadlock: nothing of the transaction was written."""
DAMAGED = frozenset({"XX001", "XX002", "58030", "42P01", "42703", "42883"})


def _code(error: BaseException | None) -> str | None:
    code = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else None


def is_lost(error: BaseException) -> bool:
    """Whether the connection was lost, so that the answer to the last statement is not known."""
    if not isinstance(error, DBAPIError):
        return False
    import psycopg

    code = _code(error.orig)
    if code is None:
        return error.connection_invalidated or isinstance(error.orig, psycopg.OperationalError)
    return code in LOST or code.startswith("08")


def may_be_repeated(error: BaseException) -> bool:
    """Whether the same work may succeed in another attempt."""
    return is_lost(error) or (isinstance(error, DBAPIError) and _code(error.orig) in REPEATABLE)


@contextmanager
def translated(address: ServerAddress) -> Iterator[None]:
    """Turn errors of psycopg and SQLAlchemy into errors of evodevo."""
    try:
        yield
    except REFUSED as error:
        raise translation(error, address) from error


def translation(error: BaseException, address: ServerAddress) -> EvodevoError:
    """The error of evodevo that an error of the driver stands for; no password is in its message."""
    place, message = str(address), str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    for secret in secrets_of(address.whole):
        message = message.replace(secret, "***")
    if not isinstance(error, DBAPIError):
        return UsageError(f"{place} refuses this record: {message}.")
    code = _code(error.orig) or ""
    if is_lost(error):
        return EvodevoError(
            f"{place} cannot be reached ({message}). What was finished is safe; when the server is there again: "
            "evodevo resume."
        )
    if code == "53100":
        return DiskFullError(
            f"no space left for {place} ({message}). What was finished is safe; free some space, then: evodevo resume."
        )
    if code == "57014":
        return StoreDamagedError(f"reading {place} did not end within {READ_SECONDS:.0f} s. Next: evodevo store check.")
    if code == "55P03":
        return RunOwnedError(f"another process kept {place} locked; try again when it is done.")
    if code in DAMAGED:
        return StoreDamagedError(
            f"{place} is damaged ({message}). Next: evodevo store check; restore it from a backup."
        )
    if code == "25006" or code == "42501":
        return UsageError(f"{place} cannot be written or read by you ({message}).")
    if code[:2] in ("22", "23") or isinstance(error.orig, (UnicodeError, OverflowError)):
        return UsageError(f"{place} refuses this record: {message}.")
    import psycopg

    if isinstance(error.orig, psycopg.DataError):  # found by the driver: text with a NUL
        return UsageError(f"{place} refuses this record: {message}.")
    return EvodevoError(f"{place}: {type(error.orig).__name__}: {message}")
