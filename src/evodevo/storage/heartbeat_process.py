"""The process that advances the heartbeats of leases: ``python -I -S heartbeat_process.py DATABASE PARENT SECONDS``.

It loads the standard library alone, so that it starts in some 20 ms and takes little memory. Its input has a line for
each lease to begin with (``+ RUN TOKEN``) or to end (``- RUN TOKEN``). It ends with its input or with its parent, of
whom forks may hold the other end of that input. See ``storage.heartbeat``.
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


def beat(database: str, leases: set[tuple[str, int]]) -> None:
    """Advance the heartbeats; those of leases that were lost are no longer advanced."""
    address = f"file:{quote(database)}?mode=rw"
    with closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("BEGIN IMMEDIATE")
        lost = {lease for lease in leases if connection.execute(ADVANCE, lease).rowcount != 1}
        connection.execute("COMMIT")
    leases -= lost


def main(database: str, parent: int, seconds: float) -> None:
    """Beat until the input or the parent ends."""
    leases: set[tuple[str, int]] = set()
    due, rest = time.monotonic() + seconds, b""
    while os.getppid() == parent:
        wait = max(0.0, min(LOOK_SECONDS, due - time.monotonic()))
        if select.select([0], [], [], wait)[0]:
            if not (read := os.read(0, 65536)):
                return
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                sign, run_id, token = line.decode("ascii").split()
                (leases.add if sign == "+" else leases.discard)((run_id, int(token)))
        if time.monotonic() >= due:
            due = time.monotonic() + seconds
            if leases and os.getppid() == parent:
                with suppress(sqlite3.Error):  # locked, a full disk: for the owner to find; the next beat is soon
                    beat(database, leases)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
