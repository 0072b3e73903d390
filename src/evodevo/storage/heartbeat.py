"""The heartbeat of leases that are held for long, advanced by a process of its own.

A coordinator that is busy for minutes would otherwise lose its run to another machine, which can judge it by the
heartbeat alone. A thread would do, but a process with two threads cannot be forked safely.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from evodevo.storage import heartbeat_process
from evodevo.storage.addresses import ServerAddress
from evodevo.storage.base import Lease

INTERVAL_SECONDS = 10.0
"""Seconds between two beats, well below ``leases.PATIENCE_SECONDS``."""


class Heartbeat:
    """A child process that advances the heartbeats of leases; it starts with the first and ends with the last.

    Args:
        database: File of the database, or the address of one on a server.
        interval: Seconds between two beats.
    """

    def __init__(self, database: Path | ServerAddress, interval: float = INTERVAL_SECONDS) -> None:
        self._database = database
        self._interval = interval
        self._process: subprocess.Popen[bytes] | None = None
        self._leases: set[Lease] = set()
        self._owner = os.getpid()

    def add(self, lease: Lease) -> None:
        """Advance the heartbeat of this lease, too."""
        if self._process is not None and self._process.poll() is not None:
            self._end()  # somebody killed it
        if self._process is None:
            self._process = self._start()
            for other in self._leases:
                self._tell("+", other)
        self._leases.add(lease)
        self._tell("+", lease)

    def remove(self, lease: Lease) -> None:
        """No longer advance that of this lease; without effect where it is not advanced."""
        if lease in self._leases:
            self._leases.remove(lease)
            self._tell("-", lease)
            if not self._leases:
                self.close()

    def close(self) -> None:
        """End the process. Without effect in a fork: the process belongs to the one that started it."""
        if self._owner == os.getpid():
            self._leases.clear()
            self._end()

    def _end(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None, "it was started with a pipe"
        # Its input would not end while a fork of this process holds it, too; a beat that is cut off is undone.
        self._process.terminate()
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()
        self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        server = isinstance(self._database, ServerAddress)
        script = str(Path(heartbeat_process.__file__).resolve())
        # The driver of a server is an installed package; that of SQLite is not, and starts faster without any.
        options = ["-I"] if server else ["-I", "-S"]
        process = self._run([sys.executable, *options, script, str(os.getpid()), str(self._interval)])
        assert process.stdin is not None, "it was started with a pipe"
        with suppress(OSError):
            # Not an argument: everybody could read a password there.
            where = self._database
            process.stdin.write(os.fsencode(where.whole if isinstance(where, ServerAddress) else where) + b"\n")
        return process

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            start_new_session=True,  # Ctrl-C at the terminal is for the coordinator, which goes on to its end
        )

    def _tell(self, sign: str, lease: Lease) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None, "it was started with a pipe"
        with suppress(OSError):  # it was killed: every write confirms the lease, too
            self._process.stdin.write(f"{sign} {lease.run_id} {lease.token}\n".encode("ascii"))
