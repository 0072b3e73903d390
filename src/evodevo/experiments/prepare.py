"""Computation before the first training of a run: features of frozen towers, which all its trainings read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evodevo import canonical
from evodevo.errors import DataError
from evodevo.execution.base import Executor, Job, Progress, Result
from evodevo.execution.jobs import run_jobs
from evodevo.experiments.problem import FEATURES, NetworkProblem
from evodevo.experiments.trials import Trial


def prepare_features(
    arms: Sequence[Trial],
    problem: NetworkProblem,
    executor: Executor,
    seed: int,
    listener: Callable[[str, dict[str, Any]], None] | None = None,
) -> int:
    """Have frozen towers read all samples in a worker; samples whose features are in the cache are not read again.

    Args:
        arms: all trainings.
        problem: problem of the run.
        executor: an idle executor; it is idle again afterwards.
        seed: seed of the run.
        listener: called with ``features`` and {"features": input, "done", "total"}, in samples.

    Returns:
        The number of different sets of towers.

    Raises:
        DataError: a tower cannot read the data.
    """
    if problem.settings.features == "live":
        return 0
    kinds: dict[str, Trial] = {}
    for arm in arms:
        towers = arm.network.towers(problem.open_task(arm.task).inputs)
        if towers:
            facts = {
                "towers": {name: tower.model_dump(mode="json") for name, tower in towers.items()},
                "task": arm.task,
            }
            kinds.setdefault(canonical.digest(facts), arm)

    def on_progress(event: Progress) -> None:
        if listener is not None and "features" in event.payload:
            listener("features", event.payload)

    for name, arm in kinds.items():  # one after the other: they may share towers
        job = Job(f"features/{name}", FEATURES, problem.payload(arm, seed), None, problem.memory_bytes)
        result = run_jobs(executor, [job], listener=on_progress)[job.id]
        if result.state == "failed":
            raise DataError(f"the features of frozen towers cannot be computed: {_last_line(result)}")
    return len(kinds)


def _last_line(result: Result) -> str:
    lines = result.detail.strip().splitlines()
    return lines[-1] if lines else result.reason or "the worker was lost"
