"""Processes that take several evaluations: each finds what it would find in a new one."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from evodevo.execution.base import Executor, Job
from evodevo.execution.memory import _sum_fields
from evodevo.execution.processes import ProcessExecutor, ProcessOptions
from evodevo.testing.executors import (
    SpawnedExecutorTests,
    alive,
    collect,
    drain,
    evaluate,
    first_message,
    wait_until_gone,
)


def make(evaluations: int = 8, workers: int = 1, *, preload: tuple[str, ...] = ()) -> ProcessExecutor:
    return ProcessExecutor(workers, preload=preload, options=ProcessOptions(evaluations=evaluations))


class TestLastingProcesses(SpawnedExecutorTests):
    def make(self, workers: int = 1) -> Executor:
        return make(workers=workers)

    def test_an_evaluation_has_a_clean_place_of_its_own(self) -> None:
        with self.make() as executor:
            seen, again = (json.loads(evaluate(executor, "testing.describe").payload or b"") for _ in range(2))
        for one in (seen, again):
            assert (one["folder"], one["stdin"]) == (os.getcwd(), "")
            assert one["session"] == one["pid"] != os.getsid(0)
        assert seen["pid"] == again["pid"], "one process"
        assert seen["scratch"] != again["scratch"]
        assert seen["open"] == again["open"], "no descriptor is left open"


def facts(executor: Executor, payload: bytes = b"") -> dict[str, Any]:
    result = evaluate(executor, "testing.disturb", payload)
    assert result.state == "done", result
    found: dict[str, Any] = json.loads(result.payload or b"")
    assert result.log == f"seen by {found['pid']}\n", "its own output, and no other"
    return found


@pytest.mark.slow
def test_an_evaluation_finds_nothing_that_another_one_changed() -> None:
    with make(preload=("torch",)) as executor:
        first, second, third = (facts(executor) for _ in range(3))
    with make(1, preload=("torch",)) as executor:
        alone, other = (facts(executor) for _ in range(2))
    assert first == second == third
    assert alone["pid"] != other["pid"]
    drawn = {"random", "draws", "pid"}  # where nobody seeds, new processes differ, too
    kept = [{name: value for name, value in seen.items() if name not in drawn} for seen in (first, alone, other)]
    assert kept[0] == kept[1] == kept[2]


def test_a_process_ends_after_its_number_of_evaluations() -> None:
    with make(3) as executor:
        pids = [facts(executor)["pid"] for _ in range(7)]
        assert wait_until_gone(sorted(set(pids[:6]))) == []
        assert alive(pids[6])
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]
    assert not alive(pids[6]), "closing leaves none"


@pytest.mark.parametrize(
    ("entry", "payload", "state"),
    [
        ("testing.fail", b"x", "failed"),
        ("testing.crash", b"", "failed"),
        ("testing.exit", b"", "failed"),
        ("testing.fork_grandchild", b"", "done"),
        ("testing.disturb", b"numpy", "done"),  # it has come with random numbers of its own
    ],
)
def test_what_leaves_a_process_in_doubt_ends_it(entry: str, payload: bytes, state: str) -> None:
    with make() as executor:
        before = facts(executor)["pid"]
        assert evaluate(executor, entry, payload).state == state
        assert facts(executor)["pid"] != before
        assert wait_until_gone([before]) == []


def test_limits_hold_for_each_evaluation_by_itself() -> None:
    with make() as executor:
        before = facts(executor)["pid"]
        for _ in range(3):
            assert evaluate(executor, "testing.sleep", b"0.2", seconds=0.45).state == "done", "each has all its time"
        assert facts(executor)["pid"] == before
        assert evaluate(executor, "testing.sleep", b"30", seconds=0.2).reason == "timeout"
        small = evaluate(executor, "testing.allocate", str(2**29).encode(), memory_bytes=2**27)
        assert small.reason == "memory"
        free = evaluate(executor, "testing.allocate", str(2**28).encode())
        assert free.state == "done", "the limit of another evaluation is gone"


def test_a_process_that_holds_much_does_not_take_an_evaluation_with_a_small_limit() -> None:
    with make() as executor:
        before = facts(executor)["pid"]
        held = _sum_fields(f"/proc/{before}/status", (b"RssAnon:", b"RssShmem:"))
        assert evaluate(executor, "testing.echo", memory_bytes=5 * held).state == "done"
        assert facts(executor)["pid"] == before
        assert evaluate(executor, "testing.echo", memory_bytes=2 * held).state == "done"
        assert facts(executor)["pid"] != before


def test_a_cancelled_evaluation_takes_its_process_along() -> None:
    with make() as executor:
        before = facts(executor)["pid"]
        executor.submit(Job("a", "testing.hang"))
        first_message(executor)
        executor.cancel("a")
        assert drain(executor, {"a"})[0]["a"].reason == "killed"
        assert facts(executor)["pid"] != before


def test_an_idle_process_that_is_killed_costs_nobody_anything() -> None:
    with make() as executor:
        for _ in range(3):
            idle = facts(executor)["pid"]
            os.kill(idle, 9)
            while alive(idle):
                time.sleep(0.005)
            assert facts(executor)["pid"] != idle


def test_a_job_larger_than_a_pipe_arrives_whole() -> None:
    with make() as executor:
        facts(executor)
        payload = os.urandom(2**22)
        assert evaluate(executor, "testing.echo", payload).payload == payload
        jobs = [Job(str(number), "testing.echo", payload[: 2**18 + number]) for number in range(4)]
        results, _ = collect(executor, jobs)
        assert {id: result.payload for id, result in results.items()} == {job.id: job.payload for job in jobs}
