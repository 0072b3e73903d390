"""The coordinator's connection to one worker: its process, the outgoing buffer, and the received messages and log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

from evodevo.errors import EvodevoError
from evodevo.execution import protocol
from evodevo.execution.base import Job
from evodevo.execution.protocol import Decoder, Message
from evodevo.execution.tail import Tail
from evodevo.execution.worker_process import WorkerProcess
from evodevo.scratch import Scratch

GRACE_SECONDS = 30.0
"""Seconds that a worker may take to enforce a limit before the coordinator ends the worker itself."""
START_SECONDS = 300.0
"""Seconds that a worker may take to import its modules, which takes minutes on a cold network drive."""
_END_SECONDS = 10.0
_CHUNK_BYTES = 2**18


class Connection:
    """Starts a worker process and talks to it.

    Args:
        start: Starts the process, with a folder for temporary files.
        threads: Number of threads per evaluation; None leaves torch's own.
        preload: Names in ``PRELOADS``.
        packages: Packages whose table rows the worker loads.
        evaluations: Most evaluations in one process.
        temporary: Folder in which that of the worker is made; None = the system's.
        start_seconds: Seconds that it may take to start; None = any, where it waits in a queue.

    Attributes:
        served: Whether it has got a job.
        device: Device that the worker was given; None where it sees all.
        shares: Whether another evaluation was on that device at some time of the one that runs now.

    Raises:
        EvodevoError: The process cannot be started.
    """

    def __init__(
        self,
        start: Callable[[str], WorkerProcess],
        *,
        threads: int | None,
        preload: Sequence[str] = (),
        packages: Sequence[str] = (),
        evaluations: int = 1,
        temporary: str | None = None,
        start_seconds: float | None = START_SECONDS,
    ) -> None:
        try:
            self._scratch = Scratch(temporary)
        except OSError as error:
            raise EvodevoError(
                f"no folder for temporary files can be made: {error}. Set TMPDIR to one with room."
            ) from error
        try:
            self._process = start(self._scratch.path)
        except EvodevoError:
            self._scratch.remove()
            raise
        self.stdin, self.stdout, self.stderr = (self._stream(i) for i in range(3))
        self.log = Tail()
        self.ready = False
        self.job: Job | None = None
        self.device: str | None = None
        self.shares = False
        self.served = False
        self.deadline = None if start_seconds is None else time.monotonic() + start_seconds
        self._decoder = Decoder()
        self._outgoing = bytearray()
        start_message = {"threads": threads, "preload": list(preload), "packages": list(packages)}
        self.send({"type": "start", **start_message, "evaluations": evaluations})

    def _stream(self, index: int) -> int:
        stream: IO[bytes] | None = (self._process.stdin, self._process.stdout, self._process.stderr)[index]
        assert stream is not None, "all three are pipes"
        os.set_blocking(stream.fileno(), False)
        return stream.fileno()

    @property
    def pid(self) -> int:
        """Process id of the guard, the top process of the worker."""
        return self._process.pid

    @property
    def unsent(self) -> bool:
        """Whether data wait for room in the pipe."""
        return bool(self._outgoing)

    def assign(self, job: Job) -> None:
        """Send the job to the worker, which must be ready and idle."""
        self.job, self.served = job, True
        self.deadline = None if job.seconds is None else time.monotonic() + job.seconds + GRACE_SECONDS
        self.send(protocol.from_job(job))

    def send(self, message: Message) -> None:
        """Send without waiting; data that do not fit into the pipe are sent by ``flush``."""
        self._outgoing += protocol.encode(message)
        self.flush()

    def flush(self) -> None:
        """Send as much as fits into the pipe."""
        try:
            while self._outgoing:
                sent = os.write(self.stdin, memoryview(self._outgoing)[:_CHUNK_BYTES])
                del self._outgoing[:sent]
        except BlockingIOError:
            return
        except BrokenPipeError:  # the worker has ended; ``receive`` will reach the end of its stream
            self._outgoing.clear()

    def receive(self) -> list[Message] | None:
        """Messages of the worker since the last call; None when it has ended.

        Raises:
            ProtocolError: The worker sent malformed data.
        """
        try:
            data = os.read(self.stdout, _CHUNK_BYTES)
        except BlockingIOError:
            return []
        return list(self._decoder.feed(data)) if data else None

    def receive_log(self) -> bool:
        """Read the worker's stderr into ``log``; whether there were data."""
        try:
            data = os.read(self.stderr, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        self.log.add(data)
        return bool(data)

    def begin_end(self) -> None:
        """Ask the guard to end all its descendants."""
        self._process.terminate()

    def finish_end(self) -> None:
        """Wait until the guard has ended, or kill it and its warm process; the kernel then kills the evaluation."""
        self.begin_end()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        if (self._process.returncode or 0) < 0:
            self._process.kill_left()
        self._scratch.remove()
        while self.receive_log():
            pass
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def status(self) -> str:
        """Exit status or signal of the worker as text; valid after ``finish_end``."""
        code = self._process.returncode
        return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
