from __future__ import annotations

import pytest

from evodevo.execution.base import EXECUTORS, Executor, Job, Report, Result
from evodevo.execution.serial import SerialExecutor
from evodevo.testing.executors import ExecutorTests, evaluate


class TestSerialExecutor(ExecutorTests):
    def make(self, workers: int = 1) -> Executor:
        return SerialExecutor()


def test_the_table_leads_to_it() -> None:
    assert EXECUTORS.get("serial") is SerialExecutor


def test_a_function_of_this_process_is_an_evaluator() -> None:
    with SerialExecutor(evaluators={"mine": lambda payload, report: payload[::-1]}) as executor:
        assert evaluate(executor, "mine", b"abc").payload == b"cba"


def test_ctrl_c_is_not_a_result_and_leaves_the_executor_usable() -> None:
    def interrupted(payload: bytes, report: Report) -> bytes:
        raise KeyboardInterrupt

    with SerialExecutor(evaluators={"mine": interrupted}) as executor:
        executor.submit(Job("a", "mine"))
        with pytest.raises(KeyboardInterrupt):
            executor.poll(0.0)
        assert executor.running() == []
        assert evaluate(executor, "testing.echo", b"next").payload == b"next"


def test_sys_exit_and_memory_errors_are_results() -> None:
    def leave(payload: bytes, report: Report) -> bytes:
        raise SystemExit(3)

    def eat(payload: bytes, report: Report) -> bytes:
        raise MemoryError("too much")

    with SerialExecutor(evaluators={"leave": leave, "eat": eat}) as executor:
        assert evaluate(executor, "leave").reason == "exception"
        assert evaluate(executor, "eat").reason == "memory"


def test_a_running_job_is_listed() -> None:
    seen: list[str] = []

    def look(payload: bytes, report: Report) -> bytes:
        seen.extend(executor.running())
        return b""

    executor = SerialExecutor(evaluators={"look": look})
    executor.submit(Job("a", "look"))
    (event,) = executor.poll(0.0)
    assert isinstance(event, Result)
    assert seen == ["a"]
