"""The default executor: evaluations in isolated local processes, so that no failure of an evaluation ends the run.

Each worker is a tree of processes, drawn in ``evodevo/worker.py``. Linux only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from evodevo.errors import UsageError
from evodevo.execution.base import Setup
from evodevo.execution.connection import Connection
from evodevo.execution.devices import VISIBLE, next_device, outer_devices, visible_values
from evodevo.execution.environment import worker_environment
from evodevo.execution.preload import check_preload
from evodevo.execution.worker_process import SpawnedWorker
from evodevo.execution.workers import WorkerExecutor


class ProcessExecutor(WorkerExecutor):
    """Runs up to ``workers`` jobs at a time, each in a process that is forked for it from a new interpreter.

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

    Raises:
        UsageError: A number is below 1, a preload or a device is unknown, or the system is not Linux.
    """

    def __init__(
        self,
        workers: int = 1,
        *,
        threads: int = 1,
        preload: Sequence[str] = ("torch",),
        packages: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        devices: Sequence[str] = (),
    ) -> None:
        super().__init__(workers)
        if threads < 1:
            raise UsageError(f"an evaluation needs at least 1 thread; got {threads}.")
        if not sys.platform.startswith("linux"):
            raise UsageError("the executor 'processes' needs Linux; use 'serial' here.")
        own = worker_environment(os.environ, threads=threads, extra=environment)
        self._environment = own
        self._devices = visible_values(devices, outer_devices(own))
        self._connect = partial(
            Connection,
            threads=threads,
            preload=check_preload(preload),
            packages=tuple(packages),
            temporary=own.get("TMPDIR"),
        )
        self._fill()

    @classmethod
    def make(cls, setup: Setup) -> ProcessExecutor:
        cls.check(setup)
        return cls(
            setup.workers,
            threads=setup.threads,
            preload=setup.preload,
            packages=setup.packages,
            devices=setup.devices,
        )

    def _start_worker(self) -> Connection:
        device = next_device(self._devices, [connection.device for connection in self._connections])
        seen = self._environment if device is None else {**self._environment, VISIBLE: device}
        connection = self._connect(partial(SpawnedWorker, environment=seen))
        connection.device = device
        return connection
