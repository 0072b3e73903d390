"""The default executor: evaluations in isolated local processes, so that no failure of an evaluation ends the run.

Each worker is a tree of processes, drawn in ``evodevo/worker.py``. Linux only.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from pydantic import Field

from evodevo.errors import UsageError
from evodevo.execution.base import Job, Result, Setup
from evodevo.execution.connection import Connection
from evodevo.execution.devices import VISIBLE, next_device, outer_devices, visible_values
from evodevo.execution.environment import worker_environment
from evodevo.execution.packing import Packing
from evodevo.execution.preload import check_preload
from evodevo.execution.worker_process import SpawnedWorker
from evodevo.execution.workers import WorkerExecutor
from evodevo.settings import Settings


class ProcessOptions(Settings):
    """The options of the executor ``processes``.

    Attributes:
        evaluations: Most evaluations in one process, one after the other, 1 to 1,000,000. With more than 1, what a
            process sets up once, such as CUDA, is set up once for all of them. A process ends earlier after a failure,
            a limit, a thread or process that an evaluation left behind, or where it holds over a quarter of the memory
            limit of the next one.
        packing: Whether the workers of a device begin an evaluation only where its memory will do, by what earlier ones
            were measured to use; the first one is alone. An evaluation that a shared device refuses memory is repeated
            alone.
    """

    evaluations: int = Field(default=1, ge=1, le=1_000_000)
    packing: bool = False


class ProcessExecutor(WorkerExecutor):
    """Runs up to ``workers`` jobs at a time, in processes that are forked from new interpreters.

    Args:
        workers: Number of worker processes, at least 1; where all threads together exceed the cores, everything becomes
            many times slower.
        threads: Number of torch and OpenMP threads in each evaluation, at least 1; scores may depend on it, so it
            belongs to a run's settings.
        preload: Modules that a worker imports before the first job, by names of ``execution.preload.PRELOADS``.
        packages: Installed packages whose rows (evaluators, operators, …) the workers load as well. The tables of these
            rows must be imported: packages with more than evaluators need the preload "evaluation".
        environment: Variables for the workers beside the harmless ones of this process.
        devices: CUDA devices, ``cuda:0``, ``cuda:1``, …, or ``auto`` alone for all: each worker sees one of them, as
            its first, and a new worker gets the one with the fewest workers. Without any, each worker sees all.
        options: See there; each evaluation has a process of its own, and devices are not packed, where left out.

    Raises:
        UsageError: A number is below 1, a preload or a device is unknown, packing lacks devices, or the system is not
            Linux.
    """

    Options: ClassVar[type[Settings] | None] = ProcessOptions

    def __init__(
        self,
        workers: int = 1,
        *,
        threads: int = 1,
        preload: Sequence[str] = ("torch",),
        packages: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        devices: Sequence[str] = (),
        options: ProcessOptions | None = None,
    ) -> None:
        super().__init__(workers)
        if threads < 1:
            raise UsageError(f"an evaluation needs at least 1 thread; got {threads}.")
        if not sys.platform.startswith("linux"):
            raise UsageError("the executor 'processes' needs Linux; use 'serial' here.")
        options = options or ProcessOptions()
        own = worker_environment(os.environ, threads=threads, extra=environment)
        self._environment = own
        self._devices = visible_values(devices, outer_devices(own))
        each = partial(Packing, math.ceil(workers / max(1, len(self._devices))), processes_stay=options.evaluations > 1)
        self._packings = {device: each() for device in self._devices} if options.packing else {}
        self._alone: set[str] = set()  # ids of jobs that get a device for themselves
        _check_packing(options, devices)
        self._connect = partial(
            Connection,
            threads=threads,
            preload=check_preload(preload),
            packages=tuple(packages),
            evaluations=options.evaluations,
            temporary=own.get("TMPDIR"),
        )
        self._fill()

    @classmethod
    def check(cls, setup: Setup) -> ProcessOptions:
        options: ProcessOptions = super().check(setup)
        _check_packing(options, setup.devices)
        return options

    @classmethod
    def make(cls, setup: Setup) -> ProcessExecutor:
        options = cls.check(setup)
        return cls(
            setup.workers,
            threads=setup.threads,
            preload=setup.preload,
            packages=setup.packages,
            devices=setup.devices,
            options=options,
        )

    def _start_worker(self) -> Connection:
        device = next_device(self._devices, [connection.device for connection in self._connections])
        seen = self._environment if device is None else {**self._environment, VISIBLE: device}
        connection = self._connect(partial(SpawnedWorker, environment=seen))
        connection.device = device
        return connection

    # Devices that evaluations share

    def _busy_on(self, device: str | None) -> list[Connection]:
        return [one for one in self._connections if one.job is not None and one.device == device]

    def _admits(self, connection: Connection, job: Job) -> bool:
        packing = self._packings.get(connection.device or "")
        if packing is None:
            return True
        busy = self._busy_on(connection.device)
        if job.id in self._alone or any(one.job is not None and one.job.id in self._alone for one in busy):
            return not busy
        return len(busy) < packing.slots

    def _began(self, connection: Connection) -> None:
        busy = self._busy_on(connection.device)
        for one in busy:
            one.shares = len(busy) > 1 or (one.shares and one is not connection)

    def _repeats(self, connection: Connection, job: Job, result: Result) -> bool:
        packing = self._packings.get(connection.device or "")
        if packing is None:
            return False
        if result.device is not None or result.state == "done":
            packing.ended(result.device, alone=not connection.shares)
        if result.reason == "memory" and result.device is not None and connection.shares:
            packing.refused(len(self._busy_on(connection.device)))
            self._alone.add(job.id)
            return True
        self._alone.discard(job.id)
        return False


def _check_packing(options: ProcessOptions, devices: Sequence[str]) -> None:
    if options.packing and not devices:
        raise UsageError("packing shares out the memory of devices that are named: set execution.devices, or leave it.")
