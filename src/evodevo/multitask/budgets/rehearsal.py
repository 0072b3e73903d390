"""The training of a root, timed without a system: what a forecast and the pace of agents are measured by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo import canonical
from evodevo.errors import EvaluationsFailedError
from evodevo.execution.base import Event, Executor, Job
from evodevo.execution.jobs import run_jobs
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.settings import AgentSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.storage import Store

MOST_BYTES = 1 << 26


def root_payload(kind: str, system: SystemSettings, root: AgentSettings, cache: str | None) -> dict[str, Any]:
    """The request with which a worker would train a root.

    Args:
        kind: class of agents of the root.
        system: settings of its system.
        root: its settings, with a task.
        cache: folder of the workers' caches.
    """
    caught: list[dict[str, Any]] = []

    class Catching(SerialExecutor):
        def _evaluate(self, job: Job) -> list[Event]:
            caught.append(canonical.loads(job.payload, max_bytes=MOST_BYTES))
            rehearsed.stop()
            return []

    with Store.memory() as store, Catching() as executor:
        rehearsed = System.create(store, "rehearsal", settings=system)
        rehearsed.run([rehearsed.add_root(kind, "pretrain", root)], 1, executor, cache=cache)
    return caught[0]


def timed(executor: Executor, payload: Mapping[str, Any], name: str, what: str) -> float:
    """Seconds of a training.

    Args:
        executor: idle executor.
        payload: the request.
        name: name of the job.
        what: what is trained, for the message of an error.

    Raises:
        EvaluationsFailedError: it could not be trained.
    """
    result = run_jobs(executor, [Job(name, "path", canonical.dumps(dict(payload)).encode())])[name]
    answer = {} if result.payload is None else canonical.loads(result.payload, max_bytes=MOST_BYTES)
    if result.payload is None or answer.get("reason") is not None:
        detail = answer.get("detail") or result.detail[-500:]
        raise EvaluationsFailedError(f"{what} could not be trained: {detail}")
    return float(result.seconds)
