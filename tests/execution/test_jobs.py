"""Jobs that are no evaluations of a driver: all end, or are cancelled at the deadline; the executor is idle again."""

from __future__ import annotations

import pytest

from evodevo.execution.base import Job, Progress, Report
from evodevo.execution.jobs import run_jobs
from evodevo.execution.processes import ProcessExecutor
from evodevo.execution.serial import SerialExecutor
from evodevo.testing.executors import drain


def test_each_job_has_its_own_result_and_its_messages_reach_the_listener() -> None:
    def double(payload: bytes, report: Report) -> bytes:
        report({"size": len(payload)})
        return payload * 2

    messages: list[Progress] = []
    with SerialExecutor(evaluators={"double": double}) as executor:
        jobs = [Job("a", "double", b"x"), Job("b", "double", b"yy"), Job("c", "testing.fail", b"no")]
        results = run_jobs(executor, jobs, listener=messages.append)
        assert not executor.running()
        assert not executor.waiting()
    assert {name: result.payload for name, result in results.items()} == {"a": b"xx", "b": b"yyyy", "c": None}
    assert [(message.id, message.payload) for message in messages] == [("a", {"size": 1}), ("b", {"size": 2})]


@pytest.mark.slow
def test_what_has_not_ended_at_the_deadline_is_cancelled() -> None:
    with ProcessExecutor(workers=2, preload=()) as executor:
        run_jobs(executor, [Job("first", "testing.echo")])  # a worker is ready
        results = run_jobs(executor, [Job("short", "testing.echo", b"x"), Job("long", "testing.hang")], seconds=4.0)
        assert set(results) == {"short"}
        assert results["short"].payload == b"x"
        assert drain(executor, {"long"})[0]["long"].reason == "killed"
        assert not executor.running()


def test_what_is_dropped_has_no_result() -> None:
    answers: list[bytes] = []

    def noted(payload: bytes, report: Report) -> bytes:
        answers.append(payload)
        return payload

    with SerialExecutor(evaluators={"noted": noted}) as executor:
        jobs = [Job("a", "noted", b"1"), Job("b", "noted", b"2")]
        assert set(run_jobs(executor, jobs, dropped=lambda: bool(answers))) == {"a"}
        assert answers == [b"1"]
        assert not executor.waiting()
