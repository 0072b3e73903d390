"""An evaluator of a user or of another package answers nonsense: that is the failure of one individual."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evodevo import canonical
from evodevo.execution.base import Evaluator, Report
from evodevo.execution.serial import SerialExecutor
from evodevo.search.problem import Goal, Outcome, Problem, read_answer, write_answer
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.testing.real_vector import Point, RealVectorSpace

SPACE = RealVectorSpace(2)
ABSENT = "0" * 64
SCORE = {"score": 1.0}
ANSWERS: Mapping[str, Callable[[], bytes]] = {
    "a blob that is not there": lambda: write_answer(Outcome(scores=SCORE, blobs={"weights": ABSENT})),
    "a blob without a digest": lambda: write_answer(Outcome(scores=SCORE, blobs={"weights": "../../etc/passwd"})),
    "blobs that are a list": lambda: changed(blobs=[ABSENT]),
    "a digest that is a number": lambda: changed(blobs={"weights": 3}),
    "scores that are a list": lambda: changed(scores=[1.0]),
    "a score that is a table": lambda: changed(scores={"score": {}}),
    "a score of another name": lambda: changed(scores={"other": 1.0}),
    "a reason that is a number": lambda: changed(reason=3),
    "a detail that is a list": lambda: changed(detail=["a"]),
    "a lone surrogate": lambda: changed(scores={}, reason="exception", detail="\ud800"),
    "a cost that is text": lambda: changed(cost="much"),
    "facts that are a number": lambda: changed(extra=3),
    "a curve that is a number": lambda: changed(series={"loss": 3}),
    "a curve of text": lambda: changed(series={"loss": [["a", "b"]]}),
    "seconds that are text": lambda: changed(seconds="long"),
    "endless seconds": lambda: changed(seconds=-1.0),
    "a part is missing": lambda: canonical.dumps({"scores": SCORE}).encode(),
    "another document": lambda: b"[1, 2]",
    "no document": lambda: b"\xff\x00",
    "nothing": lambda: b"",
}
MESSAGES: Mapping[str, dict[str, Any]] = {
    "a checkpoint that is not there": {"checkpoint": ABSENT},
    "a checkpoint without a digest": {"checkpoint": "../../etc/passwd"},
    "a checkpoint that is a number": {"checkpoint": 3},
    "blobs that are a number": {"checkpoint": ABSENT, "blobs": 3},
    "an event that is text": {"event": "born"},
    "an event without a name": {"event": {"type": "born", "payload": {}}},
    "an event without facts": {"event": {"type": "born", "name": "a", "payload": 3}},
    "an event of ours": {"event": {"type": "generation", "name": "a", "payload": {}}},
}


def changed(**values: Any) -> bytes:
    return canonical.dumps(
        {**canonical.loads(write_answer(Outcome(scores=SCORE)), what="an answer"), **values}
    ).encode()


class Lying(Problem):
    """The first evaluation answers or reports nonsense; the others are right."""

    entry = "lying"
    goals = (Goal("score"),)
    fidelity = "once"

    def __init__(self, answer: Callable[[], bytes] | None = None, message: dict[str, Any] | None = None) -> None:
        self.answer, self.message, self.count = answer, message, 0

    def payload(self, genome: Point, seed: int, resume: str | None = None) -> bytes:
        return canonical.dumps(list(genome)).encode()

    def read(self, payload: bytes) -> Outcome:
        return read_answer(payload)

    def local_evaluators(self) -> Mapping[str, Evaluator]:
        return {self.entry: self.evaluate}

    def evaluate(self, payload: bytes, report: Report) -> bytes:
        self.count += 1
        if self.count == 1 and self.message is not None:
            report(self.message)
        if self.count == 1 and self.answer is not None:
            return self.answer()
        return write_answer(Outcome(scores={"score": canonical.loads(payload, what="a point")[0]}))


def failed(problem: Lying, folder: Path) -> tuple[str | None, str]:
    """Reason and detail of the first individual, in a search that ends."""
    with Store.open(folder) as store:
        settings = StudySettings(population=2, generations=2)
        study = Study(SPACE, problem, settings=settings, store=store, executor=SerialExecutor())
        result = study.run()
        assert result.state == "finished"
        assert [member.outcomes[0].reason for member in result.members[1:]] == [None] * 3
        assert store.check(deep=True).ok
        stored = store.evaluations(result.run, individual_id=result.members[0].id)
        outcome = result.members[0].outcomes[0]
        assert [(row.reason, row.state) for row in stored] == [(outcome.reason, "failed" if outcome.reason else "done")]
        return outcome.reason, outcome.detail


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_wrong_answer_is_a_row_with_a_reason(answer: str, tmp_path: Path) -> None:
    reason, detail = failed(Lying(answer=ANSWERS[answer]), tmp_path / "runs")
    assert reason == "exception"
    assert detail


@pytest.mark.parametrize("message", MESSAGES)
def test_a_wrong_message_is_a_row_with_a_reason(message: str, tmp_path: Path) -> None:
    reason, detail = failed(Lying(message=MESSAGES[message]), tmp_path / "runs")
    assert reason == "exception"
    assert "message" in detail
