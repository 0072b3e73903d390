"""The executor on a Ray cluster: each evaluation is a Ray task with its resources, on whatever node Ray chooses.

Ray places the tasks, moves payloads and messages, and notices dead nodes; on the node, a worker of ours runs the
evaluation (``clusters/node.py``), so that limits and reasons are those of local processes. A task that dies with its
node is reported as lost and not repeated by Ray: who evaluates repeats it from its last checkpoint.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from evodevo.errors import EvodevoError, UsageError, missing_extra
from evodevo.execution.base import Event, Job, Progress, Result, Setup
from evodevo.execution.clusters import node
from evodevo.execution.failures import clip
from evodevo.execution.preload import check_preload
from evodevo.execution.queued import WATCH_SECONDS, QueuedExecutor
from evodevo.settings import Settings

USAGE_STATISTICS = "RAY_USAGE_STATS_ENABLED"
"""Variable with which Ray is told to send no usage statistics."""
CANCEL_SECONDS = 30.0
"""Seconds that a cancelled task may take to end its evaluation before Ray kills its process."""
CLOSE_SECONDS = 10.0
"""The same where the executor ends."""
KNOCK_SECONDS = 10.0
UNREAD_MESSAGES = 64
"""Lists of messages that wait for the coordinator before an evaluation waits in its ``report``."""
_DETAIL_BYTES = 600


class RayOptions(Settings):
    """The options of the executor ``ray``.

    Attributes:
        address: ``host:port`` of a Ray cluster, or ``auto`` for the one of this machine; None = that of the variable
            RAY_ADDRESS, or else a cluster of this machine alone, which starts and ends with the executor.
        cpus: Number of CPUs that Ray reserves for an evaluation, >= 0; None = the number of its threads.
        gpus: Number of GPUs that Ray reserves for an evaluation, >= 0; a share of one below 1.
        memory_bytes: Memory in bytes that Ray reserves for an evaluation; None = none. The limit of an evaluation is
            another setting and is enforced by its worker.
    """

    address: str | None = None
    cpus: float | None = Field(default=None, ge=0, le=4096)
    gpus: float = Field(default=0.0, ge=0, le=64)
    memory_bytes: int | None = Field(default=None, ge=1)


@dataclass
class _Task:
    """A job that Ray has got.

    Attributes:
        job: The job.
        stream: Ray's generator of references to lists of events.
        started: Whether it has begun on a node.
        deadline: Time at which its process is killed; None where it was not cancelled.
    """

    job: Job
    stream: Any
    started: bool = False
    deadline: float | None = None


class RayExecutor(QueuedExecutor):
    """Runs up to ``workers`` jobs at a time on the nodes of a Ray cluster, each in a process forked for it there.

    Every node has the same version of evodevo, and sees the folders that payloads name (the pool of blobs, data)
    under the same paths. Evaluators are rows of the table; functions of this process are not known there. Where this
    process is connected to Ray already (``ray.init``), that connection is used and left open.

    Args:
        workers: Number of evaluations at a time, at least 1; Ray starts as many of them as there are resources for.
        threads: Number of torch and OpenMP threads in each evaluation, at least 1.
        preload: Modules that a worker imports before its first job, by names of ``execution.preload.PRELOADS``.
        packages: Installed packages whose rows the workers load as well; every node has them.
        environment: Variables for the workers beside the harmless ones of their node.
        options: Cluster, and resources of an evaluation.

    Raises:
        MissingExtraError: Ray is not installed.
        UsageError: A number is below 1, the cluster does not answer, or none of its nodes has the resources.
    """

    Options: ClassVar[type[Settings] | None] = RayOptions
    is_local: ClassVar[bool] = False

    def __init__(
        self,
        workers: int = 1,
        *,
        threads: int = 1,
        preload: Sequence[str] = ("torch",),
        packages: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        options: RayOptions | None = None,
    ) -> None:
        super().__init__(workers)
        if threads < 1:
            raise UsageError(f"an evaluation needs at least 1 thread; got {threads}.")
        options = options or RayOptions()
        own = {name: value for name, value in os.environ.items() if name.startswith("EVODEVO_")} | dict(
            environment or {}
        )
        self._setup = node.NodeSetup(
            threads, check_preload(preload), tuple(packages), tuple(sorted(own.items())), os.getcwd()
        )
        self._ray = _load()
        self._tasks: dict[str, _Task] = {}
        self._cluster = _connect(self._ray, options.address)
        try:
            resources = {
                "num_cpus": float(threads if options.cpus is None else options.cpus),
                "num_gpus": options.gpus,
                **({} if options.memory_bytes is None else {"memory": options.memory_bytes}),
            }
            self._check_resources(resources)
        except UsageError:
            self._disconnect()
            raise
        self._remote = self._ray.remote(
            max_retries=0,  # the repetition begins at the last checkpoint, of which Ray does not know
            max_calls=0,  # the process stays, and with it the warm worker, also with GPUs
            _generator_backpressure_num_objects=UNREAD_MESSAGES,
            **resources,
        )(node.evaluate)

    @classmethod
    def check(cls, setup: Setup) -> RayOptions:
        options: RayOptions = super().check(setup)
        if setup.devices:
            raise UsageError(
                "execution.devices is for the workers of one machine; Ray gives each evaluation its GPUs: "
                "set execution.options.gpus."
            )
        _load()
        return options

    @classmethod
    def make(cls, setup: Setup) -> RayExecutor:
        return cls(
            setup.workers,
            threads=setup.threads,
            preload=setup.preload,
            packages=setup.packages,
            options=cls.check(setup),
        )

    def _check_resources(self, wanted: Mapping[str, float]) -> None:
        """Tell of what no node has: Ray would wait for one without a word.

        Raises:
            UsageError: None has it, and none can join a cluster that this executor started for itself.
        """
        names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
        needed = {names[name]: amount for name, amount in wanted.items() if amount}
        nodes = [one["Resources"] for one in self._ray.nodes() if one["Alive"]]
        if any(all(one.get(name, 0) >= amount for name, amount in needed.items()) for one in nodes):
            return
        asked = ", ".join(f"{amount:g} {name}" for name, amount in needed.items())
        have = "; ".join(", ".join(f"{one.get(name, 0):g} {name}" for name in needed) for one in nodes)
        words = f"an evaluation asks Ray for {asked}, and no node has that (they have: {have})"
        if self._cluster == "local":
            raise UsageError(f"{words}. Change execution.options: cpus, gpus, memory_bytes.")
        warnings.warn(f"{words}; evaluations wait until one joins.", stacklevel=4)

    def _stop(self, id: str) -> None:
        task = self._tasks.get(id)
        if task is not None and task.deadline is None:
            task.deadline = time.monotonic() + CANCEL_SECONDS
            self._ray.cancel(task.stream, force=False)

    def running(self) -> list[str]:
        return [id for id, task in self._tasks.items() if task.started]

    def waiting(self) -> list[str]:
        """Ids of the jobs that wait: for one of the ``workers``, or in Ray for resources; oldest first."""
        return [*(id for id, task in self._tasks.items() if not task.started), *(job.id for job in self._waiting)]

    def _submit(self, job: Job) -> None:
        self._waiting.append(job)
        self._place()

    def _close(self) -> None:
        self._waiting.clear()
        end = time.monotonic() + CLOSE_SECONDS
        for name, task in self._tasks.items():
            self._stop(name)
            task.deadline = end
        while self._tasks and time.monotonic() < end + CLOSE_SECONDS:
            self._step(WATCH_SECONDS)
        self._tasks.clear()
        self._events.clear()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._cluster is not None:
            self._ray.shutdown()

    # One turn

    def _place(self) -> None:
        while self._waiting and len(self._tasks) < self.workers:
            job = self._waiting.popleft()
            stream = self._remote.options(name=f"evodevo {job.id}").remote(job, self._setup)
            self._tasks[job.id] = _Task(job, stream)

    def _step(self, timeout: float) -> None:
        tasks = list(self._tasks.values())
        if tasks:
            streams = [task.stream for task in tasks]
            ready, _ = self._ray.wait(streams, num_returns=1, timeout=timeout)
            if ready:  # and what else has come by now
                ready, _ = self._ray.wait(streams, num_returns=len(streams), timeout=0)
            arrived = set(map(id, ready))
            for task in tasks:
                if id(task.stream) in arrived:
                    self._receive(task)
        now = time.monotonic()
        for task in self._tasks.values():
            if task.deadline is not None and now > task.deadline:
                task.deadline = now + CANCEL_SECONDS
                self._ray.cancel(task.stream, force=True)
        if not self._closed:
            self._place()

    def _receive(self, task: _Task) -> None:
        """The next events of a task, or its end."""
        errors = self._ray.exceptions
        try:
            events: list[Event] = self._ray.get(next(task.stream))
        except StopIteration:
            self._end(task, Result(task.job.id, "failed", reason="lost", detail="its task ended without an answer."))
        except errors.TaskCancelledError:
            detail = "cancelled." if task.started else "cancelled before it started."
            self._end(task, Result(task.job.id, "failed", reason="killed", detail=detail))
        except errors.RayTaskError as error:  # of our own code on the node: it cannot evaluate anything
            del self._tasks[task.job.id]
            if task.deadline is not None or self._closed:
                self._events.append(Result(task.job.id, "failed", reason="killed", detail="cancelled."))
                return
            self._waiting.appendleft(task.job)
            raise EvodevoError(f"a worker cannot start on a node of the Ray cluster:\n{_explain(error)}") from None
        except errors.OutOfMemoryError as error:
            self._end(task, Result(task.job.id, "failed", reason="killed", detail=_first_line(error)))
        except errors.RayError as error:
            reason = "lost" if task.deadline is None else "killed"
            detail = _first_line(error) if task.deadline is None else "cancelled."
            self._end(task, Result(task.job.id, "failed", reason=reason, detail=detail))  # type: ignore[arg-type]
        else:
            task.started = True
            for event in events:
                if isinstance(event, Progress):
                    self._events.append(event)
                else:
                    self._end(task, event)

    def _end(self, task: _Task, result: Result) -> None:
        del self._tasks[task.job.id]
        self._events.append(result)


def _load() -> Any:
    """Ray, told to send nothing to its makers."""
    os.environ.setdefault(USAGE_STATISTICS, "0")
    try:
        import ray
    except ImportError:
        raise missing_extra("ray", "ray", "the executor 'ray'") from None
    return ray


def _connect(ray: Any, address: str | None) -> str | None:
    """Connect this process to a cluster; the address of the connection that was made, None where there was one."""
    if ray.is_initialized():
        return None
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address.startswith("ray://"):
        raise UsageError(
            f"address {address!r}: a Ray client cannot run evaluations. Start this command on a node of the cluster, "
            "with the address 'auto', or HOST:PORT of its head without 'ray://'."
        )
    _knock(address)
    # Ray sets a handler of its own for SIGTERM, in place of one that stops the run safely.
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    options = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError, TimeoutError) as error:
        ray.shutdown()
        raise _silent(address, error) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return address


def _knock(address: str) -> None:
    """Refuse ``host:port`` where nobody listens; Ray itself would try for two minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise _silent(address, error) from None


def _silent(address: str, error: BaseException) -> UsageError:
    return UsageError(
        f"no Ray cluster answers at {address!r} ({_first_line(error).rstrip('.')}). Start one with: ray start --head; "
        "or leave the address out for a cluster of this machine alone."
    )


def _first_line(error: BaseException) -> str:
    return clip(str(error).strip().partition("\n")[0][:_DETAIL_BYTES])


def _explain(error: Any) -> str:
    """The cause of an error on a node, in our words where it is ours."""
    cause = getattr(error, "cause", None)
    return clip(str(cause if isinstance(cause, EvodevoError) else error))
