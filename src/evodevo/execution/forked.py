"""The executor for a function of this process: evaluations in forks of it, isolated and limited like all others."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Mapping
from functools import partial
from typing import NoReturn

from evodevo.errors import UsageError
from evodevo.execution.base import Evaluator, Job, Setup, only_in_python
from evodevo.execution.connection import Connection
from evodevo.execution.worker_process import ForkedWorker
from evodevo.execution.workers import WorkerExecutor


class ForkedExecutor(WorkerExecutor):
    """Runs up to ``workers`` jobs at a time, each in a process that is forked for it from a fork of this process.

    Functions need no name and no pickle: closures, lambdas and cells of a notebook work. They have this process's data,
    modules, current folder and environment as they were at the first job; what they change is seen by nobody. Open
    files and connections are shared with this process and should be left alone.

    A process must have one thread when it is forked (see ``is_forkable``); workers start with the first job.

    Args:
        workers: Number of workers, at least 1.
        evaluators: Name -> function of this process; they precede the table's rows.

    Raises:
        UsageError: The number is below 1, or the system is not Linux.
    """

    def __init__(self, workers: int = 1, *, evaluators: Mapping[str, Evaluator] | None = None) -> None:
        super().__init__(workers)
        if not sys.platform.startswith("linux"):
            raise UsageError("the executor 'forked' needs Linux; use 'serial' here.")
        self._evaluators = dict(evaluators or {})

    @classmethod
    def check(cls, setup: Setup) -> NoReturn:
        raise only_in_python(setup)  # the process of a command has threads

    def adopt(self, evaluators: Mapping[str, Evaluator]) -> None:
        if self._connections:
            raise UsageError("an executor of forks gets its functions before its first job.")
        self._evaluators |= evaluators

    def _knows(self, entry: str) -> bool:
        return entry in self._evaluators or super()._knows(entry)

    def _submit(self, job: Job) -> None:
        self._waiting.append(job)
        self._fill()
        self._dispatch()

    def _wanted(self) -> int:
        return self.workers if self._waiting or self._connections else 0

    def _start_worker(self) -> Connection:
        return Connection(partial(ForkedWorker, evaluators=self._evaluators), threads=None)


def is_forkable() -> bool:
    """Whether this process may be forked: on Linux, and with one thread.

    Threads that a library ends before a fork and starts again, as OpenBLAS does, do not count. A fork tells: it is made
    and ends at once.
    """
    if not sys.platform.startswith("linux") or threading.active_count() > 1:
        return False
    if _threads() > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about threads
            pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    return _threads() == 1


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))
