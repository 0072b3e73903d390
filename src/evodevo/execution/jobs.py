"""Runs single jobs to their end: measurements and preparations, which are not evaluations of a driver."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from evodevo.execution.base import Executor, Job, Progress, Result

POLL_SECONDS = 1.0


def run_jobs(
    executor: Executor,
    jobs: Sequence[Job],
    *,
    seconds: float = math.inf,
    listener: Callable[[Progress], None] | None = None,
    dropped: Callable[[], bool] = lambda: False,
) -> dict[str, Result]:
    """Submit jobs and wait for their results.

    Args:
        executor: Idle executor; it is idle again afterwards.
        jobs: Jobs with different ids.
        seconds: Longest wait in seconds; what has not ended by then is cancelled.
        listener: Called with each live message.
        dropped: Asked about once a second; what is waiting when it says yes is cancelled.

    Returns:
        Id of a job -> its result; cancelled jobs are left out.
    """
    for job in jobs:
        executor.submit(job)
    results: dict[str, Result] = {}
    waiting, deadline = {job.id for job in jobs}, time.monotonic() + seconds
    while waiting and time.monotonic() < deadline and not dropped():
        for event in executor.poll(POLL_SECONDS):
            if event.id not in waiting:
                continue
            if isinstance(event, Result):
                waiting.discard(event.id)
                results[event.id] = event
            elif listener is not None:
                listener(event)
    for name in waiting:
        executor.cancel(name)
    return results
