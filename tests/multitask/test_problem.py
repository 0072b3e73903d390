"""A child is a problem like any other: what its evaluator answers is checked, what it reports is recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.execution.base import Event, Result
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.problem import ChildProblem
from evodevo.multitask.settings import WorkSettings
from evodevo.search.problem import Outcome, write_answer
from evodevo.storage import Store
from evodevo.storage.systems import store as systems
from evodevo.storage.systems.base import path_id
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of, told

DIGEST = "0" * 64
FACTS: dict[str, Any] = {"evals": [0.5, 0.75, None], "improved": True, "sizes": {"head": 3}, "samples": 8}
ANSWER = Outcome(scores={"quality": 0.75}, extra=FACTS, blobs={"head": DIGEST}, seconds=2.0)


def problem(bar: float | None = 0.6, always: bool = False) -> ChildProblem:
    return ChildProblem("path", {"task": "a"}, {"head": 3}, bar, always, WorkSettings(seconds=5.0))


def answered(scores: dict[str, float] | None = None, blobs: dict[str, str] | None = None, **facts: Any) -> bytes:
    """``ANSWER`` with other scores, blobs or facts."""
    return write_answer(
        replace(
            ANSWER,
            scores=ANSWER.scores if scores is None else scores,
            blobs=ANSWER.blobs if blobs is None else blobs,
            extra={**FACTS, **facts},
        )
    )


def test_an_answer_becomes_an_outcome() -> None:
    outcome = problem().read(answered())
    assert (outcome.reason, outcome.scores, outcome.seconds) == (None, {"quality": 0.75}, 2.0)
    assert outcome.blobs == {"head": DIGEST}
    assert outcome.extra == {"evals": [0.5, 0.75, None], "improved": True, "samples": 8}
    failed = Outcome("diverged", detail="because", extra={"samples": 8}, seconds=1.0)
    assert problem().read(write_answer(failed)) == failed
    discarded = problem(bar=0.75).read(answered(blobs={}, improved=False, sizes={}))
    assert (discarded.scores, discarded.blobs) == ({"quality": 0.75}, {})
    assert problem(always=True).read(answered(scores={}, evals=[])).scores == {}, "a root answers no task"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scores": {"quality": 0.5}}, "the best of"),
        ({"scores": {}}, "the best of"),
        ({"evals": [0.5, "good"]}, "no number"),
        ({"improved": False}, "improved = False"),
        ({"scores": {"quality": 0.5}, "evals": [0.5]}, "the bar 0.6"),
        ({"blobs": {}}, "asked for were"),
        ({"sizes": {}}, "asked for were"),
        ({"sizes": {"head": 4}}, "asked for were"),
        ({"blobs": {"head": DIGEST, "tail": DIGEST}}, "asked for were"),
        ({"blobs": {"head": "x"}}, "hexadecimal"),
    ],
)
def test_an_answer_that_contradicts_the_request_or_itself_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        problem().read(answered(**changes))


class Losing(SerialExecutor):
    """Loses the worker at the first ``left`` evaluations of one child, after what they reported."""

    def __init__(self, trainer: PathTrainer, child: str, left: int) -> None:
        super().__init__(evaluators={"path": trainer, "path_root": trainer})
        self.child, self.left = child, left

    def poll(self, timeout: float) -> list[Event]:
        events: list[Event] = []
        for event in super().poll(timeout):
            if isinstance(event, Result) and event.id.startswith(self.child) and self.left:
                self.left -= 1
                event = Result(event.id, "failed", reason="lost", detail="gone")
            events.append(event)
        return events


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, 3])
def test_a_child_whose_worker_is_lost_is_tried_again_and_fails_in_the_end(times: int) -> None:
    system, whole = new_system(Store.memory(), ("a",)), new_system(Store.memory(), ("a",))
    whole.run(tasks_of(whole), 1, executor_of(PathTrainer(whole.store)))
    trainer = PathTrainer(system.store)
    system.run([system.agents()[0]], 1, executor_of(trainer))
    child = path_id(system.agents()[1].id, 1)
    losing = Losing(trainer, child, times)
    assert system.run(tasks_of(system), 1, losing).state == "finished"
    assert losing.left == 0
    assert system.settings.work.retries == 2
    if times == 2:
        assert told(system) == told(whole)
    else:
        (result,) = system.store.systems.evaluations_of([child])[child]
        assert (result.state, result.reason, result.detail) == ("failed", "killed", "gone")


def test_a_child_that_is_killed_goes_on_from_the_checkpoint_that_it_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reporting(PathTrainer):
        def __call__(self, payload: bytes, report: Any) -> bytes:
            digest = self.store.blobs.put_bytes(payload)
            report({"checkpoint": digest, "blobs": [digest]})
            return super().__call__(payload, report)

    system = new_system(Store.memory(), ("a",))
    system.run([system.agents()[0]], 1, executor_of(PathTrainer(system.store)))

    def killed(name: str) -> None:
        if name == "before_tell_commit":
            raise KeyboardInterrupt

    monkeypatch.setattr(systems, "failpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        system.run(tasks_of(system), 1, executor_of(Reporting(system.store)))
    monkeypatch.undo()
    again = Reporting(system.store)
    system.run(tasks_of(system), 1, executor_of(again))
    agent, first = system.agents()[1].id, again.calls[0]
    assert canonical.loads(system.store.blobs.get(first["resume"]))["path"] == first["path"]
    assert "resume" not in again.calls[1]
    assert not system.store.run_blobs(agent), "the checkpoint of a child that has ended is released"
