"""The executor in this process, one job after the other: for debugging, and for a user's own Python function.

There is no isolation: limits are not enforced, output is not captured, and a crash ends the run.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from evodevo.execution.base import EVALUATORS, Evaluator, Event, Executor, Job, Progress, Result, Setup, check_answer
from evodevo.execution.failures import describe_exception
from evodevo.execution.protocol import plain


class SerialExecutor(Executor):
    """Runs one waiting job in each ``poll``.

    Args:
        evaluators: Name -> function of this process, valid for this executor only; they precede the table's rows.
    """

    def __init__(self, *, evaluators: Mapping[str, Evaluator] | None = None) -> None:
        super().__init__(workers=1)
        self._evaluators = dict(evaluators or {})
        self._waiting: deque[Job] = deque()
        self._running: str | None = None
        self._cancelled: list[Event] = []

    @classmethod
    def make(cls, setup: Setup) -> SerialExecutor:
        cls.check(setup)
        return cls()

    def adopt(self, evaluators: Mapping[str, Evaluator]) -> None:
        self._evaluators |= evaluators

    def poll(self, timeout: float) -> list[Event]:
        """Run the next job to its end, however long that takes; its live messages are returned with its result."""
        events, self._cancelled = self._cancelled, []
        if not events and self._waiting:
            job = self._waiting.popleft()
            self._running = job.id
            try:
                events = self._evaluate(job)
            finally:
                self._running = None
        return events

    def cancel(self, id: str) -> None:
        """Drop a waiting job; a running one cannot be stopped from within its own process."""
        for job in list(self._waiting):
            if job.id == id:
                self._waiting.remove(job)
                self._cancelled.append(Result(id, "failed", reason="killed", detail="cancelled before it started."))

    def running(self) -> list[str]:
        """Id of the running job, which can only be the caller itself; else empty."""
        return [] if self._running is None else [self._running]

    def waiting(self) -> list[str]:
        return [job.id for job in self._waiting]

    def _knows(self, entry: str) -> bool:
        return entry in self._evaluators or super()._knows(entry)

    def _submit(self, job: Job) -> None:
        self._waiting.append(job)

    def _close(self) -> None:
        self._waiting.clear()
        self._cancelled.clear()

    def _evaluate(self, job: Job) -> list[Event]:
        events: list[Event] = []

        def report(payload: dict[str, Any]) -> None:
            events.append(Progress(job.id, plain(payload)))

        start = time.monotonic()
        try:
            evaluate = self._evaluators.get(job.entry) or EVALUATORS.get(job.entry)
            payload = check_answer(evaluate(job.payload, report))
            result = Result(job.id, "done", payload, seconds=time.monotonic() - start)
        except (Exception, SystemExit) as error:  # isolation: a failing evaluation is a result; Ctrl-C is not
            reason, detail = describe_exception(error)
            result = Result(job.id, "failed", reason=reason, detail=detail, seconds=time.monotonic() - start)
        return [*events, result]
