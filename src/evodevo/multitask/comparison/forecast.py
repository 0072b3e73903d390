"""Forecast of the duration of a recipe of multitask systems: two short trainings of its root, and arithmetic."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evodevo.execution.base import Executor
from evodevo.multitask.budgets.rehearsal import root_payload, timed
from evodevo.multitask.comparison.systems import RecipeRunner
from evodevo.scratch import scratch

STEPS = 24
"""Number of steps of the longer training; the shorter one makes a single step. Their difference is the cost of
steps."""
LOOKING = 1 / 3
"""Cost of a sample in validation, as a share of that of a sample in training."""


@dataclass(frozen=True)
class RecipeForecast:
    """The forecast of a recipe.

    Attributes:
        children: number of trainings that are still to be done.
        samples: number of their samples.
        rate: samples per second of one worker that trains all of a path.
        overhead: seconds of a child beside its samples.
        workers: number of children at a time, no more than there are cores.
        seconds: wall time, at most: frozen components and cached representations make it shorter.
    """

    children: int
    samples: int
    rate: float
    overhead: float
    workers: int
    seconds: float

    def to_json(self) -> dict[str, float]:
        """The fields by name."""
        return asdict(self)

    @property
    def words(self) -> str:
        """For people."""
        span = f"{self.seconds / 3600:.1f} h" if self.seconds >= 5400 else f"{max(self.seconds, 30) / 60:.1f} min"
        return (
            f"{self.children:,} children see {self.samples:,} samples; at {self.rate:,.0f} samples/s on each of"
            f" {self.workers} workers that is about {span} at most"
        )


@dataclass(frozen=True)
class Load:
    """Children that are alike.

    Attributes:
        children: number of children.
        samples: number of training samples of each.
        looked: number of validation samples of each, over all validations.
    """

    children: int
    samples: int
    looked: int


def forecast(course: RecipeRunner, loads: Sequence[Load]) -> RecipeForecast:
    """Measure on this machine, with the recipe's own workers, and add up.

    Raises:
        EvaluationsFailedError: not even a single step could be trained.
    """
    payload = root_payload(course.kind, course.system_settings, course.root_settings, course.cache)
    batch = int(payload["task_settings"]["batch"] or 0)
    if not batch:
        count = course.samples(course.settings.system.root)
        batch = course.training.plan(count["train"], count["validation"]).batch
    steps = max(STEPS, 2048 // batch)
    with scratch() as folder:
        payload |= {"blobs": str(folder), "cache": course.cache}
        _timed(course.executor, payload, batch, 1)  # prepares data and warms workers
        short = _timed(course.executor, payload, batch, 1)
        long = _timed(course.executor, payload, batch, 1 + steps)
    each = max((long - short) / (steps * batch), 1e-7)
    workers = max(1, min(course.settings.execution.workers, len(os.sched_getaffinity(0))))
    work = sum(load.children * (short + each * (load.samples + LOOKING * load.looked)) for load in loads)
    return RecipeForecast(
        sum(load.children for load in loads),
        sum(load.children * load.samples for load in loads),
        1 / each,
        short,
        workers,
        work / workers,
    )


def _timed(executor: Executor, payload: dict[str, Any], batch: int, steps: int) -> float:
    """Seconds of a training of so many steps."""
    training = {**payload["training"], "validations": 1, "most_between": steps * batch, "validation_cap": 64}
    source = {**payload["task_settings"], "batch": batch}
    changed = {**payload, "training": training, "task_settings": source}
    return timed(executor, changed, f"forecast/{steps}", "a root of this recipe")
