"""The interface of executors: jobs in (an evaluator's name and bytes), results out (bytes, or the reason of a failure).

Whatever happens in an evaluation (an exception, a crash, a hang, exhausted memory) becomes a ``Result`` of that job
with its reason; only a mistake of the caller, or a worker that cannot be started at all, raises an exception.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from evodevo.errors import UsageError, unknown_name
from evodevo.execution.device_memory import DeviceUse
from evodevo.registry import Registry, table

if TYPE_CHECKING:  # a worker loads pydantic only where its preload says so
    from evodevo.settings import Settings

DETAIL_BYTES = 4 * 2**10
"""Largest size of ``Result.detail`` in bytes; a longer text is cut at its beginning."""
LOG_BYTES = 64 * 2**10
"""Largest size of ``Result.log`` in bytes; a longer text is cut at its beginning."""
PAYLOAD_BYTES = 47 * 2**20
"""Largest payload of a job, result or progress report in bytes; as base64 it fits into one message of 64 MiB."""

Reason = Literal["exception", "crash", "killed", "timeout", "memory", "lost"]
"""Why a job failed.

- exception: the evaluator raised an exception; the detail ends with the traceback.
- crash: its process ended by itself without an answer (segmentation fault, abort, ``os._exit``).
- killed: its process was killed from outside (by ``cancel``, by the kernel for lack of memory, by a user).
- timeout: it ran longer than ``Job.seconds``.
- memory: it used more than ``Job.memory_bytes``, or an allocation was refused (also by a GPU).
- lost: the worker process died during it. This is no evidence about the job, which can be tried again.
"""

Report = Callable[[dict[str, Any]], None]
"""Function that sends a live message from an evaluation: a JSON-able dict; non-finite numbers arrive as None."""

Evaluator = Callable[[bytes, Report], bytes]
"""Function that a worker runs: ``evaluate(payload, report) -> payload``."""


def check_answer(answer: object) -> bytes:
    """The answer of an evaluator itself, after a check of type and size.

    Raises:
        UsageError: The answer is not bytes, or too large.
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
        id: Id that is unique among the unfinished jobs of the executor.
        entry: Name in ``EVALUATORS``.
        payload: Input of the evaluator, at most ``PAYLOAD_BYTES``.
        seconds: Wall-clock limit in seconds from the start of the evaluation; None = no limit.
        memory_bytes: Limit in bytes on anonymous and shared memory of all its processes together (pages of files, such
            as torch's own code, are not counted: the kernel can drop them); None = no limit.
    """

    id: str
    entry: str
    payload: bytes = b""
    seconds: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Result:
    """The end of a job; there is exactly one per job.

    Args:
        id: Id of the job.
        state: done or failed.
        payload: Answer of the evaluator; None if it failed.
        reason: Reason of the failure; None if it is done.
        detail: Explanation for people: end of the traceback, signal, limit; at most ``DETAIL_BYTES``.
        seconds: Wall-clock time of the evaluation in seconds; 0.0 if it never started.
        log: End of its output to stdout and stderr, at most ``LOG_BYTES``; empty where output is not captured.
        device: Memory of the CUDA device that it used; None where it used none, or its process could not tell.
    """

    id: str
    state: Literal["done", "failed"]
    payload: bytes | None = None
    reason: Reason | None = None
    detail: str = ""
    seconds: float = 0.0
    log: str = ""
    device: DeviceUse | None = None


@dataclass(frozen=True)
class Progress:
    """A live message of a running evaluation; messages arrive in order and before the result of the job."""

    id: str
    payload: dict[str, Any]


Event = Result | Progress


@dataclass(frozen=True)
class Setup:
    """The settings from which an executor is made by its name.

    Attributes:
        executor: Name in ``EXECUTORS``.
        workers: Number of evaluations that may run at the same time, at least 1.
        threads: Number of torch and OpenMP threads in each evaluation, at least 1.
        preload: Modules that a worker imports before its first job, by names of ``execution.preload.PRELOADS``.
        packages: Installed packages whose rows the workers load as well.
        devices: CUDA devices of local workers; see ``ProcessExecutor``.
        options: Options of this executor alone, to be validated by its ``Options``.
    """

    executor: str
    workers: int = 1
    threads: int = 1
    preload: tuple[str, ...] = ("torch",)
    packages: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def only_in_python(setup: Setup) -> UsageError:
    """The error for a kind that cannot be made from settings."""
    return UsageError(
        f"the executor {setup.executor!r} cannot be chosen by name; make it in Python, with Study(…, executor=…)."
    )


class Executor(ABC):
    """Base class of executors, which run jobs; a context manager that leaves no process behind.

    The methods are for one thread. ``evodevo.testing.executors.ExecutorTests`` tests the guarantees.

    Args:
        workers: Number of evaluations that may run at the same time, at least 1.

    Attributes:
        Options: Settings class of the options that this executor alone has; None where it has none.
        is_local: Whether evaluations run on this machine, so that it must have the device that they need.
    """

    Options: ClassVar[type[Settings] | None] = None
    is_local: ClassVar[bool] = True

    def __init__(self, workers: int = 1) -> None:
        if workers < 1:
            raise UsageError(f"an executor needs at least 1 worker; got {workers}.")
        self.workers = workers
        self._closed = False

    @classmethod
    def check(cls, setup: Setup) -> Any:
        """The validated options of a setup, None where there are none; nothing is started.

        Raises:
            UsageError: An option is unknown or wrong, or evaluations cannot run in this way here.
        """
        if cls.Options is None:
            if setup.options:
                given = ", ".join(setup.options)
                raise UsageError(f"the executor {setup.executor!r} has no options; leave out: {given}.")
            return None
        from evodevo.settings import validate

        return validate(cls.Options, dict(setup.options), what=f"options of the executor {setup.executor!r}")

    @classmethod
    def make(cls, setup: Setup) -> Executor:
        """The executor of a setup.

        Raises:
            UsageError: See ``check``; or this kind cannot be made from settings.
        """
        raise only_in_python(setup)

    def submit(self, job: Job) -> None:
        """Queue a job; it starts as soon as a worker is free, in the order of submission.

        Raises:
            UsageError: The evaluator is unknown, the id is not unique, the payload is too large, a limit is not a
                positive number, or the executor is closed.
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

    def adopt(self, evaluators: Mapping[str, Evaluator]) -> None:  # noqa: B027
        """Know functions of this process, too, where evaluations run in it or in forks of it; else without effect.

        Args:
            evaluators: Name -> function; they precede the table's rows.

        Raises:
            UsageError: It is too late for that.
        """

    @abstractmethod
    def poll(self, timeout: float) -> list[Event]:
        """Events since the last call, in order; waits for the first one.

        Args:
            timeout: Longest wait in seconds. Without a waiting or running job the method returns at once.

        Raises:
            EvodevoError: Workers cannot be started; the message has their log.
        """

    @abstractmethod
    def cancel(self, id: str) -> None:
        """Stop a job; ``poll`` returns its result (failed, killed). Without effect where the job has ended already."""

    @abstractmethod
    def running(self) -> list[str]:
        """Ids of the jobs that are being evaluated, oldest first."""

    @abstractmethod
    def waiting(self) -> list[str]:
        """Ids of the jobs that wait for a free worker, oldest first."""

    def close(self) -> None:
        """Stop all workers; unfinished jobs are dropped without a result. May be called twice."""
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
EXECUTORS.add("forked", "evodevo.execution.forked:ForkedExecutor")
EXECUTORS.add("processes", "evodevo.execution.processes:ProcessExecutor")
EXECUTORS.add("ray", "evodevo.execution.clusters.ray_executor:RayExecutor")
EXECUTORS.add("slurm", "evodevo.execution.clusters.slurm.executor:SlurmExecutor")
