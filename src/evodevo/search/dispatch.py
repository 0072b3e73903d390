"""Sends a study's evaluations to an executor: payloads and answers are encoded here, and lost jobs are retried."""

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
    """The identity of one evaluation: individual, number of its seed, number of the attempt."""

    individual: str
    seed: int
    attempt: int

    @property
    def job(self) -> str:
        """Id of the evaluation's job."""
        return f"{self.individual}/{self.seed}/{self.attempt}"


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
        resume: Digest of the last reported checkpoint, None before the first.
        lost: Number of restarts after the job was lost.
    """

    ticket: Ticket
    genome: Any
    seed: int
    resume: str | None
    lost: int = 0


class Dispatcher:
    """Runs evaluations on an executor.

    Args:
        problem: Problem that turns genomes into payloads and answers into outcomes.
        executor: Executor that runs the jobs.
        retries: Largest number of restarts of an evaluation that was killed from outside, alone or with its worker,
            which is no evidence about the genome. Each restart is reported as a message {"restarted": reason}.
    """

    def __init__(self, problem: Problem, executor: Executor, retries: int = 2) -> None:
        self.problem = problem
        self.executor = executor
        self.retries = retries
        self._open: dict[str, _OpenEvaluation] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def free(self) -> int:
        """Number of workers without an evaluation."""
        return max(0, self.executor.workers - len(self._open))

    def submit(self, ticket: Ticket, genome: Any, seed: int, resume: str | None = None) -> None:
        """Start an evaluation, or continue it from a checkpoint."""
        self._open[ticket.job] = _OpenEvaluation(ticket, genome, seed, resume)
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
                happened.append(Finished(evaluation.ticket, self._outcome(event)))
        return happened

    def _send(self, job: str) -> None:
        evaluation, problem = self._open[job], self.problem
        payload = problem.payload(evaluation.genome, evaluation.seed, evaluation.resume)
        self.executor.submit(
            Job(_name(job, evaluation.lost), problem.entry, payload, problem.seconds, problem.memory_bytes)
        )

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
            # An evaluator may be code of a user or of another package; a malformed answer fails this individual only.
            detail = f"the answer cannot be read: {error!r}"
            return Outcome(reason="exception", detail=detail, extra=extra, seconds=result.seconds)
        wrong = [goal.name for goal in self.problem.goals if not math.isfinite(outcome.scores.get(goal.name, 0.0))]
        if outcome.reason is None and wrong:
            return replace(outcome, reason="nan", detail=f"not a finite number: {', '.join(wrong)}. {outcome.detail}")
        return outcome

    def _check(self, outcome: Outcome) -> None:
        """Refuse what the store would refuse: here it costs one individual, there it would end the run."""
        missing = [goal.name for goal in self.problem.goals if goal.name not in outcome.scores]
        if outcome.reason is None and missing:
            raise UsageError(f"it has no value for {', '.join(missing)}.")
        if not (math.isfinite(outcome.seconds) and outcome.seconds >= 0):
            raise UsageError(f"it took {outcome.seconds} seconds.")
        canonical.dumps([dict(outcome.cost), dict(outcome.extra)])


def _name(job: str, lost: int) -> str:
    """The executor's id of a job after ``lost`` restarts; ids are never reused, so late events cannot be confused."""
    return f"{job}#{lost}" if lost else job
