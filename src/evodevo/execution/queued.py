"""Executors with a queue: jobs that wait for a worker, and events that wait for ``poll``."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque

from evodevo.execution.base import Event, Executor, Job, Result

WATCH_SECONDS = 1.0
"""Longest turn of ``poll``, in seconds: between two turns deadlines are looked at."""


class QueuedExecutor(Executor):
    """Runs up to ``workers`` jobs at a time; the others wait in the order of submission.

    Args:
        workers: Number of workers, at least 1.
    """

    def __init__(self, workers: int = 1) -> None:
        super().__init__(workers)
        self._waiting: deque[Job] = deque()
        self._events: list[Event] = []

    def poll(self, timeout: float) -> list[Event]:
        if self._closed:
            return []
        deadline = time.monotonic() + timeout
        self._step(0.0)
        while not self._events and (self.running() or self.waiting()):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            self._step(min(left, WATCH_SECONDS))
        events, self._events = self._events, []
        return events

    def cancel(self, id: str) -> None:
        for job in list(self._waiting):
            if job.id == id:
                self._waiting.remove(job)
                self._events.append(Result(id, "failed", reason="killed", detail="cancelled before it started."))
        self._stop(id)

    @abstractmethod
    def _step(self, timeout: float) -> None:
        """One turn: wait at most so many seconds for something, and collect its events."""

    @abstractmethod
    def _stop(self, id: str) -> None:
        """Begin to end a job that is no longer in the queue; without effect where there is none of that id."""
