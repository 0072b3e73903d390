"""Sends evaluations to an executor: lost jobs are retried, and every end becomes an outcome.

Searches, agents of multitask systems and measurements of paths all evaluate through this file; what differs between
them (payload, limits, reading of an answer) is their ``Problem``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from evodevo.errors import UsageError
from evodevo.execution.base import Executor, Job, Progress, Result
from evodevo.search.answers import check_outcome
from evodevo.search.problem import WHOLE, Outcome, Problem, Terms
from evodevo.search.record import REPEATABLE

LOG_KEPT = 4096
POLL_SECONDS = 0.5
"""Longest wait of a driver for the next message, in seconds; between two waits it checks whether it was stopped."""


@dataclass(frozen=True)
class Ticket:
    """The identity of one evaluation: individual, number of its seed, number of the attempt, share of the budget."""

    individual: str
    seed: int
    attempt: int
    share: float = 1.0

    @property
    def job(self) -> str:
        """Id of the evaluation's job."""
        return f"{self.individual}/{self.seed}/{self.attempt}{self.rung}"

    @property
    def rung(self) -> str:
        """End of the names of what belongs to a rung below the whole budget: each is an evaluation of its own."""
        return "" if self.share == 1 else f"/{self.share:g}"


@dataclass(frozen=True)
class Finished:
    """The end of an evaluation."""

    ticket: Ticket
    outcome: Outcome


@dataclass(frozen=True)
class Message:
    """A live message from an evaluation."""

    ticket: Ticket
    payload: dict[str, Any]


@dataclass(frozen=True)
class _OpenEvaluation:
    """A running evaluation.

    Attributes:
        ticket: Identity of the evaluation.
        problem: Problem that makes its payload and reads its answer.
        genome: Genome to evaluate.
        seed: Seed of the evaluation, >= 0.
        resume: Digest of the last reported checkpoint; before the first, of the snapshot to go on from, or None.
        terms: See ``Terms``.
        lost: Number of restarts after the job was lost.
    """

    ticket: Ticket
    problem: Problem
    genome: Any
    seed: int
    resume: str | None
    terms: Terms = WHOLE
    lost: int = 0


class Dispatcher:
    """Runs evaluations on an executor.

    Args:
        executor: Executor that runs the jobs.
        retries: Largest number of restarts of an evaluation that was killed from outside, alone or with its worker,
            which is no evidence about the genome. Each restart is reported as a message {"restarted": reason}.
    """

    def __init__(self, executor: Executor, retries: int = 2) -> None:
        self.executor = executor
        self.retries = retries
        self._open: dict[str, _OpenEvaluation] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def free(self) -> int:
        """Number of workers without an evaluation."""
        return max(0, self.executor.workers - len(self._open))

    def submit(
        self,
        ticket: Ticket,
        problem: Problem,
        genome: Any,
        seed: int,
        resume: str | None = None,
        terms: Terms = WHOLE,
    ) -> None:
        """Start an evaluation, or continue it from a checkpoint; the executor queues what no worker is free for."""
        self._open[ticket.job] = _OpenEvaluation(ticket, problem, genome, seed, resume, terms)
        self._send(ticket.job)

    def cancel_all(self) -> None:
        """Cancel all running evaluations; they yield no outcome and count neither as done nor as failed."""
        opened, self._open = self._open, {}
        for job, evaluation in opened.items():
            self.executor.cancel(_name(job, evaluation.lost))

    def poll(self, timeout: float) -> list[Finished | Message]:
        """Messages and ends of evaluations since the last call; waits at most ``timeout`` seconds for the first."""
        happened: list[Finished | Message] = []
        for event in self.executor.poll(timeout):
            job = event.id.partition("#")[0]
            if job not in self._open:  # a late event of a cancelled evaluation
                continue
            evaluation = self._open[job]
            if isinstance(event, Progress):
                if "checkpoint" in event.payload:
                    self._open[job] = replace(evaluation, resume=str(event.payload["checkpoint"]))
                happened.append(Message(evaluation.ticket, event.payload))
            elif event.reason in REPEATABLE and evaluation.lost < self.retries:
                self._open[job] = replace(evaluation, lost=evaluation.lost + 1)
                self._send(job)
                happened.append(Message(evaluation.ticket, {"restarted": event.detail or str(event.reason)}))
            else:
                del self._open[job]
                happened.append(Finished(evaluation.ticket, _outcome(evaluation.problem, event)))
        return happened

    def _send(self, job: str) -> None:
        evaluation = self._open[job]
        problem = evaluation.problem
        given = (evaluation.genome, evaluation.seed, evaluation.resume)
        # A problem of another package need not know of terms.
        payload = problem.payload(*given) if evaluation.terms == WHOLE else problem.payload_on(evaluation.terms, *given)
        self.executor.submit(
            Job(_name(job, evaluation.lost), problem.entry, payload, problem.seconds, problem.memory_bytes)
        )


def _outcome(problem: Problem, result: Result) -> Outcome:
    extra = {"log": result.log[-LOG_KEPT:]} if result.log else {}
    if result.state == "failed" or result.payload is None:
        reason = result.reason or "lost"
        return Outcome(reason=reason, detail=result.detail, extra=extra, seconds=result.seconds)
    try:
        outcome = problem.read(result.payload)
        outcome = replace(outcome, seconds=outcome.seconds or result.seconds)
        check_outcome(problem, outcome)
    except (UsageError, LookupError, TypeError, ValueError, AttributeError) as error:
        # An evaluator may be code of a user or of another package; a malformed answer fails this individual only.
        detail = f"the answer cannot be read: {error!r}"
        return Outcome(reason="exception", detail=detail, extra=extra, seconds=result.seconds)
    wrong = [goal.name for goal in problem.goals if not math.isfinite(outcome.scores.get(goal.name, 0.0))]
    if outcome.reason is None and wrong:
        return replace(outcome, reason="nan", detail=f"not a finite number: {', '.join(wrong)}. {outcome.detail}")
    return outcome


def _name(job: str, lost: int) -> str:
    """The executor's id of a job after ``lost`` restarts; ids are never reused, so late events cannot be confused."""
    return f"{job}#{lost}" if lost else job
