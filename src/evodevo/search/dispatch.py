"""Between a study and an executor: one ticket per evaluation, outcomes instead of bytes, lost workers tried again."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.execution.base import Executor, Job, Progress, Result
from evodevo.search.problem import Outcome, Problem
from evodevo.search.record import REPEATABLE

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


@dataclass(frozen=True)
class _Open:
    """An evaluation that runs.

    Attributes:
        resume: digest of the last checkpoint that is known.
        lost: how often it was begun again.
    """

    ticket: Ticket
    genome: Any
    seed: int
    resume: str | None
    lost: int = 0


class Dispatcher:
    """Hands evaluations to an executor.

    Args:
        problem: what a genome's job is.
        executor: where it runs.
        retries: how often an evaluation is begun again that was killed from outside, alone or with its worker; that
            death says nothing about the genome. A live message {"restarted": why} tells of it.
    """

    def __init__(self, problem: Problem, executor: Executor, retries: int = 2) -> None:
        self.problem = problem
        self.executor = executor
        self.retries = retries
        self._open: dict[str, _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def free(self) -> int:
        """Workers without an evaluation."""
        return max(0, self.executor.workers - len(self._open))

    def submit(self, ticket: Ticket, genome: Any, seed: int, resume: str | None = None) -> None:
        """Begin an evaluation, or go on with it from a checkpoint."""
        self._open[ticket.job] = _Open(ticket, genome, seed, resume)
        self._send(ticket.job)

    def cancel_all(self) -> None:
        """Stop everything; what was stopped is forgotten, not failed."""
        opened, self._open = self._open, {}
        for job, one in opened.items():
            self.executor.cancel(_name(job, one.lost))

    def poll(self, timeout: float) -> list[Finished | Message]:
        """What happened; waits at most ``timeout`` seconds."""
        happened: list[Finished | Message] = []
        for event in self.executor.poll(timeout):
            job = event.id.partition("#")[0]
            if job not in self._open:
                continue
            one = self._open[job]
            if isinstance(event, Progress):
                if "checkpoint" in event.payload:
                    self._open[job] = replace(one, resume=str(event.payload["checkpoint"]))
                happened.append(Message(one.ticket, event.payload))
            elif event.reason in REPEATABLE and one.lost < self.retries:
                self._open[job] = replace(one, lost=one.lost + 1)
                self._send(job)
                happened.append(Message(one.ticket, {"restarted": event.detail or str(event.reason)}))
            else:
                del self._open[job]
                happened.append(Finished(one.ticket, self._outcome(event)))
        return happened

    def _send(self, job: str) -> None:
        one, problem = self._open[job], self.problem
        payload = problem.payload(one.genome, one.seed, one.resume)
        self.executor.submit(Job(_name(job, one.lost), problem.entry, payload, problem.seconds, problem.memory_bytes))

    def _outcome(self, result: Result) -> Outcome:
        extra = {"log": result.log[-LOG_KEPT:]} if result.log else {}
        if result.state == "failed" or result.payload is None:
            reason = result.reason or "lost"
            return Outcome(reason=reason, detail=result.detail, extra=extra, seconds=result.seconds)
        try:
            outcome = self.problem.read(result.payload)
            outcome = replace(outcome, seconds=outcome.seconds or result.seconds)
            self._check(outcome)
        except (UsageError, LookupError, TypeError, ValueError, AttributeError) as error:
            # What an evaluator answers is data from outside; a wrong answer is a failure of that individual.
            detail = f"the answer cannot be read: {error!r}"
            return Outcome(reason="exception", detail=detail, extra=extra, seconds=result.seconds)
        wrong = [goal.name for goal in self.problem.goals if not math.isfinite(outcome.scores.get(goal.name, 0.0))]
        if outcome.reason is None and wrong:
            return replace(outcome, reason="nan", detail=f"not a finite number: {', '.join(wrong)}. {outcome.detail}")
        return outcome

    def _check(self, outcome: Outcome) -> None:
        """Refuse here, where it costs one individual, what the store would refuse."""
        missing = [goal.name for goal in self.problem.goals if goal.name not in outcome.scores]
        if outcome.reason is None and missing:
            raise UsageError(f"it says nothing of {', '.join(missing)}.")
        if not (math.isfinite(outcome.seconds) and outcome.seconds >= 0):
            raise UsageError(f"it took {outcome.seconds} seconds.")
        canonical.dumps([dict(outcome.cost), dict(outcome.extra)])


def _name(job: str, lost: int) -> str:
    """What the executor calls a job that was lost so often: ids are never used twice."""
    return f"{job}#{lost}" if lost else job
