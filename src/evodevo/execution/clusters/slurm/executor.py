"""The executor on a Slurm cluster: each worker is a task that ``srun`` starts, with its resources, on some node.

Slurm queues and places the workers, authenticates, carries their messages (the standard streams of ``srun``) and ends
what outlives its time. The worker itself is that of local processes (``worker.py``), so that limits and reasons are the
same. It serves one evaluation after the other, so that the queue is waited for once per worker.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar

from pydantic import Field

from evodevo import __version__
from evodevo.errors import EvodevoError, UsageError
from evodevo.execution.base import Job, Result, Setup
from evodevo.execution.clusters.slurm import client, worker
from evodevo.execution.connection import Connection
from evodevo.execution.devices import VISIBLE
from evodevo.execution.environment import worker_environment
from evodevo.execution.preload import check_preload
from evodevo.execution.workers import WorkerExecutor
from evodevo.settings import Settings

ALLOCATION = "SLURM_JOB_ID"
_CLIENT_VARIABLES = (
    "SLURM_CONF", ALLOCATION, "SLURM_JOBID", "SLURM_CLUSTERS",
    "SLURM_ACCOUNT", "SLURM_PARTITION", "SLURM_QOS", "SLURM_CONSTRAINT", "SLURM_RESERVATION", "SLURM_TIMELIMIT",
)  # fmt: skip
"""What ``srun`` is told by variables, and hands on: no tokens. Those of an allocation's shape contradict a worker's."""
_FORCE_SECONDS = 40.0
"""Seconds that ``srun`` may take to kill what runs on the node: Slurm's setting KillWait, by default 30, and more."""


class SlurmOptions(Settings):
    """The options of the executor ``slurm``, which are the resources of one worker.

    Attributes:
        cpus: Number of CPUs, >= 1; None = the number of threads of an evaluation.
        gpus: Number of GPUs, >= 0.
        memory_bytes: Memory in bytes that Slurm reserves; None = the cluster's default. The limit of an evaluation is
            another setting and is enforced by its worker.
        partition: Partition; None = the cluster's default.
        account: Account that is charged; None = the user's default.
        minutes: Longest time of a worker in minutes, >= 1; None = the partition's limit. What it evaluates then begins
            again, from its last checkpoint, on the next worker.
        arguments: Further arguments of ``srun``, such as ``--qos=low``.
    """

    cpus: int | None = Field(default=None, ge=1, le=4096)
    gpus: int = Field(default=0, ge=0, le=64)
    memory_bytes: int | None = Field(default=None, ge=2**20)
    partition: str | None = Field(default=None, min_length=1)
    account: str | None = Field(default=None, min_length=1)
    minutes: int | None = Field(default=None, ge=1)
    arguments: tuple[str, ...] = ()


class SlurmExecutor(WorkerExecutor):
    """Runs up to ``workers`` jobs at a time on the nodes of a Slurm cluster, each in a process forked for it there.

    On a login node every worker is a Slurm job; within an allocation (``salloc``, ``sbatch``) it is a step of that, so
    that nothing is queued. Workers start as jobs come, and stay until the executor ends.

    Every node has the same version of evodevo under the same path, and sees the folders that payloads name (the pool
    of blobs, data) under the same paths. Evaluators are rows of the table; functions of this process are not known
    there.

    Args:
        workers: Most evaluations at a time, at least 1.
        threads: Number of torch and OpenMP threads in each evaluation, at least 1.
        preload: Modules that a worker imports before its first job, by names of ``execution.preload.PRELOADS``.
        packages: Installed packages whose rows the workers load as well; every node has them.
        environment: Variables for the workers beside the harmless ones of this process.
        options: Resources of a worker.

    Raises:
        UsageError: A number is below 1, or ``srun`` is not here.
    """

    Options: ClassVar[type[Settings] | None] = SlurmOptions
    is_local: ClassVar[bool] = False

    def __init__(
        self,
        workers: int = 1,
        *,
        threads: int = 1,
        preload: Sequence[str] = ("torch",),
        packages: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        options: SlurmOptions | None = None,
    ) -> None:
        super().__init__(workers)
        if threads < 1:
            raise UsageError(f"an evaluation needs at least 1 thread; got {threads}.")
        _require_srun()
        options = options or SlurmOptions()
        own = worker_environment(os.environ, threads=threads, extra=environment)
        own.pop(VISIBLE, None)  # Slurm sets it to what it grants
        own |= {name: os.environ[name] for name in _CLIENT_VARIABLES if name in os.environ}
        self._cancelled: set[str] = set()
        self._start = partial(SlurmWorker, arguments=_arguments(options, threads), environment=own)
        self._connect = partial(
            Connection, threads=threads, preload=check_preload(preload), packages=tuple(packages), start_seconds=None
        )

    @classmethod
    def check(cls, setup: Setup) -> SlurmOptions:
        options: SlurmOptions = super().check(setup)
        if setup.devices:
            raise UsageError(
                "execution.devices is for the workers of one machine; Slurm gives each worker its GPUs: "
                "set execution.options.gpus."
            )
        _require_srun()
        return options

    @classmethod
    def make(cls, setup: Setup) -> SlurmExecutor:
        return cls(
            setup.workers,
            threads=setup.threads,
            preload=setup.preload,
            packages=setup.packages,
            options=cls.check(setup),
        )

    def _submit(self, job: Job) -> None:
        self._waiting.append(job)
        self._fill()
        self._dispatch()

    def _wanted(self) -> int:
        return min(self.workers, len(self._waiting) + len(self._running))

    def _start_worker(self) -> Connection:
        return self._connect(self._start)

    def _stop(self, id: str) -> None:
        if id in self._running:
            self._cancelled.add(id)
        super()._stop(id)

    def _repeats(self, connection: Connection, job: Job, result: Result) -> bool:
        if result.reason == "killed" and job.id not in self._cancelled:
            # At the end of a worker's time Slurm kills all of its processes, and this one was the first.
            connection.ready = False
            connection.begin_end()
        self._cancelled.discard(job.id)
        return False


class SlurmWorker(subprocess.Popen[bytes]):
    """The ``srun`` of one worker, which ends with it.

    Args:
        scratch: Unused: a worker has its temporary files on its node.
        arguments: Arguments of ``srun``.
        environment: All its environment variables, which ``srun`` hands on.

    Raises:
        EvodevoError: It cannot be started.
    """

    def __init__(self, scratch: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._asked = self._forced = False
        python = [sys.executable, "-P", "-m"]  # -P: files in the current folder must not shadow modules.
        task = [*python, worker.__name__, __version__]
        try:
            super().__init__(
                [*python, client.__name__, str(os.getpid()), *arguments, *task],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=dict(environment),
                start_new_session=True,  # Ctrl-C in the terminal is for the coordinator, which decides
            )
        except OSError as error:
            raise EvodevoError(f"srun cannot be started with {sys.executable!r}: {error}") from error

    def terminate(self) -> None:
        """End the worker, or its wait in the queue.

        At the end of its stream the worker ends everything below it. One interrupt makes ``srun`` withdraw a job that
        waits, and is without effect on one that runs.
        """
        if not self._asked:
            self._asked = True
            assert self.stdin is not None, "it is a pipe"
            # Closed, but its number stays taken: a selector may know it, and would take another stream for this one.
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, self.stdin.fileno(), inheritable=False)
            os.close(nowhere)
            with suppress(ProcessLookupError):
                self.send_signal(signal.SIGINT)

    def wait(self, timeout: float | None = None) -> int:
        try:
            return super().wait(timeout)
        except subprocess.TimeoutExpired:
            if self._forced or not self._asked:
                raise
            self._forced = True
            self.send_signal(signal.SIGTERM)  # srun kills what runs on the node
            return super().wait(_FORCE_SECONDS)

    def kill_left(self) -> None:
        """Nothing: what runs on a node ends with its stream, and by Slurm."""


def _arguments(options: SlurmOptions, threads: int) -> list[str]:
    """Arguments of ``srun`` for one worker."""
    given: dict[str, str | int | None] = {
        "--job-name": "evodevo",
        "--nodes": 1,
        "--ntasks": 1,
        "--mpi": "none",
        "--cpus-per-task": threads if options.cpus is None else options.cpus,
        "--gres": f"gpu:{options.gpus}" if options.gpus else None,
        "--mem": None if options.memory_bytes is None else f"{math.ceil(options.memory_bytes / 2**20)}M",
        "--partition": options.partition,
        "--account": options.account,
        "--time": options.minutes,
    }
    # Without --unbuffered a message waits in Slurm for the end of a line.
    flags = ["--unbuffered"]
    if ALLOCATION in os.environ:
        flags.append("--exact")  # else a step takes all of its node
    return [*flags, *(f"{name}={value}" for name, value in given.items() if value is not None), *options.arguments]


def _require_srun() -> None:
    if shutil.which("srun") is None:
        raise UsageError(
            "the executor 'slurm' needs the command srun, which is not on the PATH; begin on a login node of the "
            "cluster, or within an allocation."
        )
