"""What an executor is: it takes jobs (the name of an evaluator, and bytes) and gives back results (bytes, or a reason).

Whatever an evaluation does (raise, crash, hang, eat the machine's memory) is a ``Result`` of that job with its reason;
only a mistake of the caller, or a worker that cannot be started at all, is an exception.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from evodevo.errors import UsageError, unknown_name
from evodevo.registry import Registry, table

DETAIL_BYTES = 4 * 2**10
"""The longest ``Result.detail``; of a longer text the end is kept."""
LOG_BYTES = 64 * 2**10
"""The longest ``Result.log``; of a longer text the end is kept."""
PAYLOAD_BYTES = 47 * 2**20
"""The largest payload of a job, result or progress report: what fits into one message of 64 MiB as base64."""

Reason = Literal["exception", "crash", "killed", "timeout", "memory", "lost"]
"""Why a job failed.

- exception: the evaluator raised; the detail ends with the traceback.
- crash: its process ended by itself without an answer (segmentation fault, abort, ``os._exit``).
- killed: its process was killed from outside (by ``cancel``, by the kernel for lack of memory, by somebody).
- timeout: it ran longer than ``Job.seconds``.
- memory: it used more than ``Job.memory_bytes``, or an allocation was refused (also by a GPU).
- lost: the worker process died under it. This says nothing about the job; try it again.
"""

Report = Callable[[dict[str, Any]], None]
"""Send a live message from an evaluation: a JSON-able dict; numbers that are not finite arrive as None."""

Evaluator = Callable[[bytes, Report], bytes]
"""What a worker runs: ``evaluate(payload, report) -> payload``."""


def check_answer(answer: object) -> bytes:
    """The answer of an evaluator, if it is one.

    Raises:
        UsageError: not bytes, or too many.
    """
    if not isinstance(answer, bytes):
        raise UsageError(f"an evaluator returns bytes; this one returned {type(answer).__name__}.")
    if len(answer) > PAYLOAD_BYTES:
        raise UsageError(f"an evaluator returned {len(answer)} bytes; at most {PAYLOAD_BYTES} fit. Store large data.")
    return answer


EVALUATORS: Registry[Evaluator] = table("evaluator", "evodevo.evaluators")


@dataclass(frozen=True)
class Job:
    """One evaluation to run.

    Args:
        id: unique among the jobs that this executor has not answered yet.
        entry: a name in ``EVALUATORS``.
        payload: what the evaluator gets; at most ``PAYLOAD_BYTES``.
        seconds: wall-clock limit, from the start of the evaluation; None for no limit.
        memory_bytes: limit on anonymous and shared memory of all its processes together (pages of files, such as
            torch's own code, are not counted: the kernel can drop them); None for no limit.
    """

    id: str
    entry: str
    payload: bytes = b""
    seconds: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Result:
    """How a job ended; exactly one per job.

    Args:
        id: that of the job.
        state: done or failed.
        payload: the evaluator's answer; None if it failed.
        reason: why it failed; None if it is done.
        detail: for people: the end of the traceback, the signal, the limit; at most ``DETAIL_BYTES``.
        seconds: wall-clock time of the evaluation; 0.0 if it never started.
        log: the end of what it wrote to stdout and stderr, at most ``LOG_BYTES``; empty where output is not caught.
    """

    id: str
    state: Literal["done", "failed"]
    payload: bytes | None = None
    reason: Reason | None = None
    detail: str = ""
    seconds: float = 0.0
    log: str = ""


@dataclass(frozen=True)
class Progress:
    """A live message of a running evaluation; arrives in order and before the result of its job."""

    id: str
    payload: dict[str, Any]


Event = Result | Progress


class Executor(ABC):
    """Runs jobs; a context manager that leaves no process behind.

    The methods are for one thread. The laws are in ``evodevo.testing.executors.ExecutorTests``.

    Args:
        workers: how many evaluations may run at the same time.
    """

    def __init__(self, workers: int = 1) -> None:
        if workers < 1:
            raise UsageError(f"an executor needs at least 1 worker; got {workers}.")
        self.workers = workers
        self._closed = False

    def submit(self, job: Job) -> None:
        """Queue a job; it starts as soon as a worker is free, in the order of submission.

        Raises:
            UsageError: unknown evaluator, an id that is not unique, a payload that is too large, a limit that is not
                a positive number, or a closed executor.
        """
        if self._closed:
            raise UsageError(f"job {job.id!r} was submitted to an executor that is closed.")
        if not self._knows(job.entry):
            raise unknown_name("evaluator", job.entry, EVALUATORS)
        if job.id in self.running() or job.id in self.waiting():
            raise UsageError(f"a job {job.id!r} is waiting or running already; a job's id is unique.")
        if len(job.payload) > PAYLOAD_BYTES:
            raise UsageError(f"job {job.id!r} has a payload of {len(job.payload)} bytes; at most {PAYLOAD_BYTES} fit.")
        for name, limit in (("seconds", job.seconds), ("memory_bytes", job.memory_bytes)):
            if limit is not None and not (limit > 0 and math.isfinite(limit)):
                raise UsageError(f"job {job.id!r}: {name} is positive, or None for no limit; got {limit}.")
        self._submit(job)

    @abstractmethod
    def poll(self, timeout: float) -> list[Event]:
        """What happened, in order; waits until something did.

        Args:
            timeout: how long to wait at most, in seconds. With no job waiting or running the answer comes at once.

        Raises:
            EvodevoError: workers cannot be started; the message holds their log.
        """

    @abstractmethod
    def cancel(self, id: str) -> None:
        """Stop a job; its result (failed, killed) comes from ``poll``. Nothing happens if it has ended already."""

    @abstractmethod
    def running(self) -> list[str]:
        """Ids of the jobs that are being evaluated, oldest first."""

    @abstractmethod
    def waiting(self) -> list[str]:
        """Ids of the jobs that wait for a free worker, oldest first."""

    def close(self) -> None:
        """End everything; jobs that are not finished are dropped without a result. May be called twice."""
        if not self._closed:
            self._closed = True
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _knows(self, entry: str) -> bool:
        return entry in EVALUATORS

    @abstractmethod
    def _submit(self, job: Job) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...


EXECUTORS: Registry[type[Executor]] = table("executor", "evodevo.executors")
EXECUTORS.add("serial", "evodevo.execution.serial:SerialExecutor")
EXECUTORS.add("processes", "evodevo.execution.processes:ProcessExecutor")
