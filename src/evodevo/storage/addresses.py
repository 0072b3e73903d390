"""Places of stores: a folder, or the address of a PostgreSQL database, ``postgresql://user@host:port/database``.

An address is what libpq takes (https://www.postgresql.org/docs/current/libpq-connect.html). It may hold a password:
what is printed or stored is ``shown`` of it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from evodevo.errors import UsageError

BLOBS_VARIABLE = "EVODEVO_BLOBS"
"""Environment variable that names where a store in a database keeps its blobs."""
SCHEMES = ("postgresql://", "postgres://")
_SHOWN = frozenset({"host", "hostaddr", "port", "dbname", "user", "sslmode", "options", "application_name", "service"})
_PARAMETER = re.compile(r"([?&])([^=&]*)=([^&]*)")


class ServerAddress(str):
    """The address of a store in a PostgreSQL database. As text it has no password, wherever it is printed or written.

    Attributes:
        whole: The address with its password, for the driver.
    """

    whole: str

    def __new__(cls, address: str) -> ServerAddress:
        new = super().__new__(cls, shown(address))
        new.whole = address
        return new


Place = Path | ServerAddress
"""Where a store lies."""


def place(text: str | Path) -> Place:
    """The place that a text names: whatever does not begin like an address is a folder."""
    if isinstance(text, ServerAddress):
        return text
    if isinstance(text, str) and text.startswith(SCHEMES):
        return ServerAddress(text)
    if re.match(r"postgres(ql)?:/", str(text)):
        raise UsageError(f"{shown(str(text).replace(':/', '://', 1))} was made a path; give the address as text.")
    return Path(text)


def disk_of(store: str | Path) -> Path:
    """A folder on the disk that takes the blobs of a store, which need not be there yet."""
    where = place(store)
    given = os.environ.get(BLOBS_VARIABLE) or "."
    return where if isinstance(where, Path) else Path("." if "://" in given else given)


def shown(store: str | Path) -> str:
    """A place to be printed: no password is in it, nor what may be one in an address that is none."""
    return _apart(str(store))[0]


def secrets_of(address: str) -> tuple[str, ...]:
    """What ``shown`` leaves out of an address, as it stands there and as it is meant, the longest first."""
    hidden = set(_apart(address)[1])
    # libpq may take a part of it for something else, and name that.
    parts = {part for word in hidden for part in re.split("[@:/?&]", word) if len(part) > 2}
    every = hidden | parts | {unquote(word) for word in hidden | parts}
    return tuple(sorted((word for word in every if len(word) > 1), key=len, reverse=True))


def _apart(text: str) -> tuple[str, list[str]]:
    """An address without its secrets, and those."""
    if not text.startswith(SCHEMES):
        return text, []
    hidden: list[str] = []

    def hide(before: str, secret: str) -> str:
        hidden.append(secret)
        return f"{before}***"

    scheme, rest = text.split("://", 1)
    # Of a misspelt parameter nobody knows what it holds.
    rest = _PARAMETER.sub(
        lambda found: found[0] if found[2] in _SHOWN else hide(found[1] + found[2] + "=", found[3]), rest
    )
    # The last @, because a password that should have been quoted may hold others.
    user, at, host = rest.rpartition("@")
    name, colon, password = user.partition(":")
    if colon:
        hidden.append(password)
    # A port that is no number: without a host, a password stands where the port would.
    host, path = re.fullmatch(r"([^/?]*)(.*)", host, re.DOTALL).groups()  # type: ignore[union-attr]
    host = re.sub(r":(?![0-9]{1,5}(?:,|$))([^,:\]]*)(?=,|$)", lambda found: hide(":", found[1]), host)
    return f"{scheme}://{name}{at}{host}{path}", hidden
