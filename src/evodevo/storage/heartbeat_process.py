"""The process that advances the heartbeats of leases: ``python -I -S heartbeat_process.py PARENT SECONDS``.

For a file it loads the standard library alone, so that it starts in some 20 ms and takes little memory; for a database
on a server (without ``-S``) psycopg. The first line of its input is the file or the address, which may hold a password;
then comes a line for each lease to begin with (``+ RUN TOKEN``) or to end (``- RUN TOKEN``). It ends with its input or
with its parent, of whom forks may hold the other end of that input. See ``storage.heartbeat``.
"""

from __future__ import annotations

import os
import select
import sqlite3
import sys
import time
from contextlib import closing, suppress
from urllib.parse import quote

BUSY_SECONDS = 30.0
LOOK_SECONDS = 1.0
"""Seconds between two looks at the parent."""
ADVANCE = "UPDATE lease SET heartbeat = heartbeat + 1 WHERE run_id = ? AND token = ? AND held = 1"


Leases = set[tuple[str, int]]


def beat(database: str, leases: Leases) -> None:
    """Advance the heartbeats; those of leases that were lost are no longer advanced."""
    address = f"file:{quote(database)}?mode=rw"
    with closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("BEGIN IMMEDIATE")
        lost = {lease for lease in leases if connection.execute(ADVANCE, lease).rowcount != 1}
        connection.execute("COMMIT")
    leases -= lost


def beat_on_server(address: str, leases: Leases) -> None:
    """As ``beat``, in a PostgreSQL database."""
    import psycopg

    advance = ADVANCE.replace("?", "%s")
    with psycopg.connect(address, connect_timeout=round(BUSY_SECONDS), autocommit=True) as connection:
        connection.execute(f"SET statement_timeout = {round(BUSY_SECONDS * 1000)}")
        lost = {lease for lease in leases if connection.execute(advance, lease).rowcount != 1}
    leases -= lost


def main(parent: int, seconds: float) -> None:
    """Beat until the input or the parent ends."""
    leases: Leases = set()
    database, due, rest = "", time.monotonic() + seconds, b""
    while os.getppid() == parent:
        wait = max(0.0, min(LOOK_SECONDS, due - time.monotonic()))
        if select.select([0], [], [], wait)[0]:
            if not (read := os.read(0, 65536)):
                return
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                if not database:
                    database = os.fsdecode(line)
                    continue
                sign, run_id, token = line.decode("ascii").split()
                (leases.add if sign == "+" else leases.discard)((run_id, int(token)))
        if time.monotonic() >= due:
            due = time.monotonic() + seconds
            if leases and os.getppid() == parent:
                # Locked, a full disk, a server that is away: for the owner to find; the next beat is soon.
                with suppress(Exception):
                    (beat_on_server if database.startswith(("postgresql://", "postgres://")) else beat)(
                        database, leases
                    )


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
