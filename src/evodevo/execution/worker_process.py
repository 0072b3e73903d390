"""The two ways in which a coordinator starts a worker: a new interpreter, or a fork of itself."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from typing import IO, NoReturn, Protocol

from evodevo.errors import EvodevoError
from evodevo.execution.base import Evaluator
from evodevo.execution.family import kill_marked
from evodevo.execution.guard import guard


class WorkerProcess(Protocol):
    """A worker's guard, as its coordinator sees it; ``subprocess.Popen`` in what it has in common with a fork.

    Attributes:
        pid: Process id.
        returncode: Exit status, negative for a signal; None before the end.
        stdin, stdout, stderr: Coordinator's ends of the pipes, without buffers.
    """

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    @property
    def stdin(self) -> IO[bytes] | None: ...

    @property
    def stdout(self) -> IO[bytes] | None: ...

    @property
    def stderr(self) -> IO[bytes] | None: ...

    def terminate(self) -> None:
        """Send SIGTERM, where it has not ended."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return its exit status.

        Raises:
            subprocess.TimeoutExpired: It has not ended in that many seconds.
        """

    def kill_left(self) -> None:
        """Kill what a guard that was killed itself may have left behind."""


class SpawnedWorker(subprocess.Popen[bytes]):
    """A worker in an interpreter of its own.

    Args:
        scratch: Folder for temporary files.
        environment: All its environment variables.

    Raises:
        EvodevoError: The process cannot be started.
    """

    def __init__(self, scratch: str, environment: Mapping[str, str]) -> None:
        self._mark = secrets.token_hex(16)
        try:
            super().__init__(
                # -P: files in the current folder must not shadow modules.
                [sys.executable, "-P", "-m", "evodevo.worker", str(os.getpid()), scratch],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={**environment, "EVODEVO_WORKER": self._mark},
                start_new_session=True,  # Ctrl-C in the terminal is for the coordinator, which decides
            )
        except OSError as error:
            raise EvodevoError(f"a worker cannot be started with {sys.executable!r}: {error}") from error

    def kill_left(self) -> None:
        kill_marked(f"EVODEVO_WORKER={self._mark}")


class ForkedWorker:
    """A worker that is a fork of this process, so that it has all functions and data of it as they are now.

    Args:
        scratch: Folder for temporary files.
        evaluators: Name -> function of this process.

    Raises:
        EvodevoError: The process cannot be forked.
    """

    def __init__(self, scratch: str, evaluators: Mapping[str, Evaluator]) -> None:
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        ours = [pipes[0][1], pipes[1][0], pipes[2][0]]
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # else the child would write its copy of the buffer a second time
        coordinator = os.getpid()
        try:
            self.pid = os.fork()
        except OSError as error:
            for fd in (*theirs, *ours):
                os.close(fd)
            raise EvodevoError(f"a worker cannot be forked: {error}") from error
        if self.pid == 0:
            _live(coordinator, theirs, ours, scratch, evaluators)
        for fd in theirs:
            os.close(fd)
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = os.fdopen(ours[0], "wb", buffering=0)
        self.stdout: IO[bytes] | None = os.fdopen(ours[1], "rb", buffering=0)
        self.stderr: IO[bytes] | None = os.fdopen(ours[2], "rb", buffering=0)

    def terminate(self) -> None:
        if self._poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self._poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("a forked worker", timeout or 0.0)
            time.sleep(0.002)
        return code

    def kill_left(self) -> None:
        """Nothing: a fork has the environment of its coordinator, so that what it started cannot be told apart."""

    def _poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _live(
    coordinator: int, theirs: list[int], ours: list[int], scratch: str, evaluators: Mapping[str, Evaluator]
) -> NoReturn:
    """Be the guard, and end this process."""
    status = 1
    try:
        os.setsid()  # Ctrl-C in the terminal is for the coordinator, which decides
        for fd in ours:
            os.close(fd)
        for standard, fd in enumerate(theirs):
            os.dup2(fd, standard)
            os.close(fd)
        signal.set_wakeup_fd(-1)
        # The streams of a notebook or of a test lead elsewhere.
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout, sys.stderr = (
            os.fdopen(fd, "w", 1, "utf-8", errors="backslashreplace", closefd=False) for fd in (1, 2)
        )
        status = guard(coordinator, scratch, evaluators)
    except BaseException:  # this process must end here and never return into the coordinator's code
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)  # without the exit handlers, which belong to the coordinator
