"""Evaluations in forks of this process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from evodevo.errors import UsageError
from evodevo.execution.base import EXECUTORS, Executor, Job
from evodevo.execution.forked import ForkedExecutor, is_forkable
from evodevo.testing.executors import IsolatedExecutorTests, evaluate, wait_until_gone


@pytest.mark.slow
class TestForkedExecutor(IsolatedExecutorTests):
    def make(self, workers: int = 1) -> Executor:
        return ForkedExecutor(workers)

    def bytes_at_start(self, executor: Executor) -> int:
        return int(evaluate(executor, "testing.memory").payload or b"")


def test_the_table_leads_to_it() -> None:
    assert EXECUTORS.get("forked") is ForkedExecutor


def test_a_function_sees_what_this_process_has_and_changes_none_of_it() -> None:
    seen = [b"before"]
    with ForkedExecutor() as executor:
        executor.adopt({"mine": lambda payload, report: [*seen, seen.append(payload) or b""][0]})
        assert evaluate(executor, "mine", b"later").payload == b"before"
        assert evaluate(executor, "mine", b"later").payload == b"before"
        with pytest.raises(UsageError, match="before its first job"):
            executor.adopt({})
    assert seen == [b"before"]


def test_no_process_is_there_before_the_first_job_and_none_after_the_last() -> None:
    with ForkedExecutor(2) as executor:
        assert executor.pids() == []
        assert executor.poll(1.0) == []
        executor.submit(Job("a", "testing.hang"))
        pids = executor.pids()
        assert len(pids) == 2
    assert wait_until_gone(pids) == []


def test_a_process_with_a_thread_is_not_forked() -> None:
    event = threading.Event()
    thread = threading.Thread(target=event.wait)
    thread.start()
    try:
        assert not is_forkable()
    finally:
        event.set()
        thread.join()


def test_threads_that_end_before_a_fork_do_not_count() -> None:
    code = (
        "import os, numpy; from evodevo.execution.forked import is_forkable;"
        "one = numpy.ones((300, 300)); one @ one; print(is_forkable())"
    )
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "True\n"
