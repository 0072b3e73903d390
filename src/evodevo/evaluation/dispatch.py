"""Between a study and an executor: one ticket per evaluation, outcomes instead of bytes, lost workers tried again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evodevo.errors import UsageError
from evodevo.evaluation.base import Outcome, Problem
from evodevo.execution.base import Executor, Job, Progress, Result

LOG_KEPT = 4096


@dataclass(frozen=True)
class Ticket:
    """One evaluation: who, with which seed, and its number among the attempts."""

    individual: str
    seed: int
    attempt: int

    @property
    def job(self) -> str:
        """The job's id."""
        return f"{self.individual}/{self.seed}/{self.attempt}"


@dataclass(frozen=True)
class Finished:
    """An evaluation that has ended."""

    ticket: Ticket
    outcome: Outcome


@dataclass(frozen=True)
class Message:
    """A live message from an evaluation."""

    ticket: Ticket
    payload: dict[str, Any]


class Dispatcher:
    """Hands evaluations to an executor.

    Args:
        problem: what a genome's job is.
        executor: where it runs.
        retries: how often an evaluation whose worker died is begun again; that death says nothing about the genome.
    """

    def __init__(self, problem: Problem, executor: Executor, retries: int = 2) -> None:
        self.problem = problem
        self.executor = executor
        self.retries = retries
        self._open: dict[str, tuple[Ticket, bytes, int]] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def free(self) -> int:
        """Workers without an evaluation."""
        return max(0, self.executor.workers - len(self._open))

    def submit(self, ticket: Ticket, payload: bytes) -> None:
        """Begin an evaluation."""
        self._open[ticket.job] = (ticket, payload, 0)
        self._send(ticket.job)

    def cancel_all(self) -> None:
        """Stop everything; what was stopped is forgotten, not failed."""
        opened, self._open = self._open, {}
        for job, (_, _, lost) in opened.items():
            self.executor.cancel(_name(job, lost))

    def poll(self, timeout: float) -> list[Finished | Message]:
        """What happened; waits at most ``timeout`` seconds."""
        happened: list[Finished | Message] = []
        for event in self.executor.poll(timeout):
            job = event.id.partition("#")[0]
            if job not in self._open:
                continue
            ticket, payload, lost = self._open[job]
            if isinstance(event, Progress):
                happened.append(Message(ticket, event.payload))
            elif event.reason == "lost" and lost < self.retries:
                self._open[job] = (ticket, payload, lost + 1)
                self._send(job)
            else:
                del self._open[job]
                happened.append(Finished(ticket, self._outcome(event)))
        return happened

    def _send(self, job: str) -> None:
        _, payload, lost = self._open[job]
        problem = self.problem
        self.executor.submit(Job(_name(job, lost), problem.entry, payload, problem.seconds, problem.memory_bytes))

    def _outcome(self, result: Result) -> Outcome:
        extra = {"log": result.log[-LOG_KEPT:]} if result.log else {}
        if result.state == "failed" or result.payload is None:
            reason = result.reason or "lost"
            return Outcome(reason=reason, detail=result.detail, extra=extra, seconds=result.seconds)
        read: Callable[[bytes], Outcome] = self.problem.read
        try:
            outcome = read(result.payload)
        except (UsageError, KeyError, TypeError, ValueError) as error:
            # What an evaluator answers is data from outside; a wrong answer is a failure of that individual.
            return Outcome(reason="exception", detail=f"the answer cannot be read: {error}", seconds=result.seconds)
        return Outcome(**{**outcome.__dict__, "seconds": outcome.seconds or result.seconds})


def _name(job: str, lost: int) -> str:
    """What the executor calls a job that was lost so often: ids are never used twice."""
    return f"{job}#{lost}" if lost else job
