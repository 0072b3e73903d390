"""Tickets, retries from the last checkpoint, and answers that cannot be read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.execution.base import Event, Executor, Job, Progress, Result
from evodevo.search.dispatch import Dispatcher, Finished, Message, Ticket
from evodevo.search.problem import Goal, Outcome, Problem

TICKET = Ticket("abc", 0, 1)


class Scripted(Executor):
    """Answers each job with what the script says next."""

    def __init__(self, script: Sequence[Sequence[Any]]) -> None:
        super().__init__(workers=2)
        self.script = [list(events) for events in script]
        self.jobs: list[Job] = []
        self.cancelled: list[str] = []
        self._open: list[str] = []

    def poll(self, timeout: float) -> list[Event]:
        events: list[Event] = []
        for name in self._open:
            for event in self.script.pop(0):
                if isinstance(event, dict):
                    events.append(Progress(name, event))
                elif isinstance(event, bytes):
                    events.append(Result(name, "done", event, seconds=2.0))
                else:
                    events.append(Result(name, "failed", reason=event, detail=f"{event}!", seconds=1.0, log="said"))
        self._open = []
        return events

    def cancel(self, id: str) -> None:
        self.cancelled.append(id)

    def running(self) -> list[str]:
        return []

    def waiting(self) -> list[str]:
        return []

    def _submit(self, job: Job) -> None:
        self.jobs.append(job)
        self._open.append(job.id)

    def _close(self) -> None: ...


class Simple(Problem):
    entry = "backbone"
    goals = (Goal("a"), Goal("b"))
    fidelity = "none"
    seconds = 5.0
    memory_bytes = 1000

    def __init__(self, read: Callable[[bytes], Outcome] | None = None) -> None:
        self._read = read or (lambda payload: Outcome(scores={"a": 1.0, "b": 2.0}))

    def payload(self, genome: Any, seed: int, resume: str | None = None) -> bytes:
        return f"{genome} {seed} {resume}".encode()

    def read(self, payload: bytes) -> Outcome:
        return self._read(payload)


def outcome(read: Callable[[bytes], Outcome]) -> Outcome:
    """What becomes of an answer that is read so."""
    dispatcher = Dispatcher(Scripted([[b"answer"]]))
    dispatcher.submit(TICKET, Simple(read), "genome", 7)
    (finished,) = dispatcher.poll(0)
    assert isinstance(finished, Finished)
    assert len(dispatcher) == 0
    return finished.outcome


def run(script: Sequence[Sequence[Any]], retries: int = 2) -> tuple[list[Finished | Message], Scripted]:
    executor = Scripted(script)
    dispatcher = Dispatcher(executor, retries)
    assert dispatcher.free == 2
    dispatcher.submit(TICKET, Simple(), "genome", 7, "first")
    assert dispatcher.free == 1
    happened: list[Finished | Message] = []
    while len(dispatcher):
        happened += dispatcher.poll(0)
    return happened, executor


def test_a_job_carries_the_limits_and_its_result_the_outcome() -> None:
    (finished,), executor = run([[b"answer"]])
    assert executor.jobs == [Job("abc/0/1", "backbone", b"genome 7 first", 5.0, 1000)]
    assert finished == Finished(TICKET, Outcome(scores={"a": 1.0, "b": 2.0}, seconds=2.0))


@pytest.mark.parametrize("reason", ["exception", "crash", "timeout", "memory"])
def test_what_is_the_genomes_own_fault_is_not_tried_again(reason: str) -> None:
    (finished,), executor = run([[reason]])
    assert len(executor.jobs) == 1
    assert isinstance(finished, Finished)
    assert (finished.outcome.reason, finished.outcome.detail) == (reason, f"{reason}!")
    assert finished.outcome.extra == {"log": "said"}
    assert finished.outcome.seconds == 1.0


@pytest.mark.parametrize("reason", ["lost", "killed"])
def test_what_somebody_else_killed_is_tried_again(reason: str) -> None:
    happened, executor = run([[reason], [reason], [b"answer"]])
    assert [job.id for job in executor.jobs] == ["abc/0/1", "abc/0/1#1", "abc/0/1#2"], "no id twice"
    assert happened[:2] == [Message(TICKET, {"restarted": f"{reason}!"})] * 2
    assert isinstance(happened[2], Finished)
    assert happened[2].outcome.reason is None


def test_but_not_for_ever() -> None:
    happened, executor = run([["lost"]] * 3, retries=2)
    assert len(executor.jobs) == 3
    assert isinstance(happened[-1], Finished)
    assert happened[-1].outcome.reason == "lost"


def test_the_next_attempt_goes_on_from_the_last_checkpoint() -> None:
    happened, executor = run([[{"step": 1}, {"checkpoint": "second"}, {"step": 9}, "lost"], [b"answer"]])
    assert [job.payload for job in executor.jobs] == [b"genome 7 first", b"genome 7 second"]
    assert [one.payload for one in happened if isinstance(one, Message)] == [
        {"step": 1},
        {"checkpoint": "second"},
        {"step": 9},
        {"restarted": "lost!"},
    ]


def test_what_is_cancelled_is_forgotten() -> None:
    executor = Scripted([["lost"], ["killed"]])
    dispatcher = Dispatcher(executor)
    dispatcher.submit(TICKET, Simple(), "genome", 7)
    dispatcher.poll(0)
    dispatcher.cancel_all()
    assert executor.cancelled == ["abc/0/1#1"], "under the name that it has now"
    assert dispatcher.poll(0) == []
    assert len(dispatcher) == 0


def _raise(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize(
    "error", [UsageError("odd"), KeyError("odd"), IndexError("odd"), TypeError("odd"), ValueError("odd")]
)
def test_an_answer_that_cannot_be_read_is_a_failure(error: Exception) -> None:
    found = outcome(lambda payload: _raise(error))
    assert found.reason == "exception"
    assert "odd" in found.detail
    assert found.seconds == 2.0


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (Outcome(scores={"a": math.nan, "b": 1.0}), "nan", "a"),
        (Outcome(scores={"a": 1.0, "b": -math.inf}), "nan", "b"),
        (Outcome(scores={"a": 1.0}), "exception", "it lacks b"),
        (Outcome(scores={"a": 1.0, "b": 1.0}, seconds=-1.0), "exception", "seconds"),
        (Outcome(scores={"a": 1.0, "b": 1.0}, seconds=math.nan), "exception", "seconds"),
        (Outcome(scores={"a": 1.0, "b": 1.0}, extra={"x": math.nan}), "exception", "JSON"),
        (Outcome(scores={"a": 1.0, "b": 1.0}, cost={"x": object()}), "exception", "JSON"),
        (Outcome(reason="diverged", detail="because"), "diverged", "because"),
    ],
)
def test_what_the_store_would_refuse_costs_one_individual_only(answer: Outcome, reason: str, words: str) -> None:
    found = outcome(lambda payload: answer)
    assert found.reason == reason
    assert words in found.detail
    assert found.values(Simple.goals) is None
