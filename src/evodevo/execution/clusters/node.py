"""The end of a cluster's task on its node: one evaluation in a worker of ours, so that one code enforces the limits.

A cluster system starts this in a process of its own, and may call it there again. The worker then stays warm: torch is
imported once. When that process ends, for whatever reason, the worker's guard ends everything below it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from evodevo import __version__
from evodevo.errors import EvodevoError
from evodevo.execution.base import Event, Job, Result
from evodevo.execution.environment import worker_environment
from evodevo.execution.processes import ProcessExecutor
from evodevo.registry import enable_packages

POLL_SECONDS = 0.2
"""Longest wait for a message, in seconds; between two waits this process sees that its task was cancelled."""


@dataclass(frozen=True)
class NodeSetup:
    """The settings of the worker on a node.

    Attributes:
        threads: Number of threads in the evaluation.
        preload: Names in ``PRELOADS``.
        packages: Installed packages whose rows are loaded.
        environment: Further variables of the worker, as pairs; the others are those of the node.
        folder: Current folder of the coordinator, used where the node has it too.
        version: Version of evodevo in the coordinator.
    """

    threads: int
    preload: tuple[str, ...]
    packages: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    folder: str
    version: str = __version__


_Key = tuple[NodeSetup, tuple[tuple[str, str], ...]]
_warm: list[tuple[_Key, ProcessExecutor]] = []  # at most one


def evaluate(job: Job, setup: NodeSetup) -> Iterator[list[Event]]:
    """Run one job and yield its live messages and, last, its result, as they come; first an empty list.

    The generator may be closed, and an exception (as the one with which Ray cancels) may be raised in it at any time:
    the evaluation and its worker have then ended before the exception goes on.

    Args:
        job: Job to run.
        setup: Settings of the worker.

    Raises:
        EvodevoError: The worker cannot be started on this node, or this node has another version of evodevo.
    """
    ended = False
    try:
        yield []
        worker = _worker(setup)
        worker.submit(job)
        while not ended:
            events = worker.poll(POLL_SECONDS)
            ended = any(isinstance(event, Result) for event in events)
            if events:
                yield events
    except EvodevoError as error:
        raise EvodevoError(f"node {platform.node()}: {error}") from None
    finally:
        if not ended:
            close()


def close() -> None:
    """End the worker of this process, where it has one."""
    while _warm:
        _warm.pop()[1].close()


def _worker(setup: NodeSetup) -> ProcessExecutor:
    """The worker of this process: the one that is there, where it was started in the same way."""
    if setup.version != __version__:
        raise EvodevoError(
            f"it has evodevo {__version__}, the coordinator has {setup.version}; install the same there."
        )
    with suppress(OSError):
        os.chdir(setup.folder)
    # The cluster system may grant another device each time, by a variable.
    extra = dict(setup.environment)
    environment = worker_environment(os.environ, threads=setup.threads, extra=extra)
    key = (setup, tuple(sorted(environment.items())))
    if not _warm or _warm[0][0] != key:
        close()
        enable_packages(setup.packages)
        worker = ProcessExecutor(
            1, threads=setup.threads, preload=setup.preload, packages=setup.packages, environment=extra
        )
        _warm.append((key, worker))
    return _warm[0][1]
