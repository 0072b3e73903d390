"""The laws of executors, as test classes to inherit.

class TestMyExecutor(IsolatedExecutorTests):
    def make(self, workers: int = 1) -> Executor:
        return MyExecutor(workers)
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from evodevo.errors import UsageError
from evodevo.execution.base import DETAIL_BYTES, LOG_BYTES, PAYLOAD_BYTES, Executor, Job, Progress, Result

PATIENCE_SECONDS = 60.0
"""After which a test gives up; no law is about speed."""


def collect(executor: Executor, jobs: Sequence[Job]) -> tuple[dict[str, Result], list[Progress]]:
    """Submit jobs and poll until each has its result."""
    for job in jobs:
        executor.submit(job)
    return drain(executor, {job.id for job in jobs})


def drain(executor: Executor, ids: set[str]) -> tuple[dict[str, Result], list[Progress]]:
    """Poll until each of these jobs has its result."""
    results: dict[str, Result] = {}
    progress: list[Progress] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not ids <= set(results):
        assert time.monotonic() < deadline, f"no result of {ids - set(results)} within {PATIENCE_SECONDS} s"
        for event in executor.poll(1.0):
            if isinstance(event, Result):
                assert event.id not in results, f"a second result of {event.id}"
                results[event.id] = event
            else:
                assert event.id not in results, f"a live message of {event.id} after its result"
                progress.append(event)
    return results, progress


def evaluate(
    executor: Executor,
    entry: str,
    payload: bytes = b"",
    *,
    seconds: float | None = None,
    memory_bytes: int | None = None,
) -> Result:
    """The result of one job."""
    return collect(executor, [Job("only", entry, payload, seconds, memory_bytes)])[0]["only"]


def first_message(executor: Executor) -> Progress:
    """Poll until a live message comes."""
    return next(iter(first_messages(executor, 1).values()))


def first_messages(executor: Executor, jobs: int) -> dict[str, Progress]:
    """Poll until live messages of so many jobs have come: id -> its first one."""
    seen: dict[str, Progress] = {}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(seen) < jobs:
        assert time.monotonic() < deadline, f"live messages of {list(seen)} alone within {PATIENCE_SECONDS} s"
        for event in executor.poll(1.0):
            assert isinstance(event, Progress), f"a result came first: {event}"
            seen.setdefault(event.id, event)
    return seen


def alive(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(pids: Sequence[int], seconds: float = 10.0) -> list[int]:
    """Those of the processes that are still alive after that time."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


class ExecutorTests:
    """Laws of every executor."""

    def make(self, workers: int = 1) -> Executor:
        """A new executor."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def executor(cls) -> Iterator[Executor]:
        """One for all laws of a class that leave it as it was: with nothing to do."""
        with cls().make() as made:
            yield made

    @pytest.mark.parametrize("payload", [b"", b"\x00\xff\n", bytes(range(256)) * 4096])
    def test_bytes_come_back(self, executor: Executor, payload: bytes) -> None:
        result = evaluate(executor, "testing.echo", payload)
        assert (result.state, result.payload, result.reason) == ("done", payload, None)
        assert result.seconds >= 0.0

    def test_each_job_has_one_result(self) -> None:
        jobs = [Job(f"job {i}", "testing.echo", str(i).encode()) for i in range(12)]
        with self.make(workers=2) as executor:
            results, _ = collect(executor, jobs)
            assert executor.running() == executor.waiting() == []
        assert {id: result.payload for id, result in results.items()} == {job.id: job.payload for job in jobs}

    def test_live_messages_come_in_order_before_the_result(self, executor: Executor) -> None:
        results, progress = collect(executor, [Job("a", "testing.progress", b"100")])
        assert [message.payload["step"] for message in progress] == list(range(100))
        assert progress[1].payload["loss"] == 0.5
        assert results["a"].payload == b"done"

    def test_numbers_that_are_not_finite_arrive_as_none(self, executor: Executor) -> None:
        results, progress = collect(executor, [Job("a", "testing.nan")])
        assert progress[0].payload == {"loss": None, "losses": [1.0, None]}
        assert results["a"].state == "done"

    def test_an_exception_is_a_result(self, executor: Executor) -> None:
        result = evaluate(executor, "testing.fail", b"the reason of the failure")
        assert (result.state, result.payload, result.reason) == ("failed", None, "exception")
        assert result.detail.endswith("ValueError: the reason of the failure")
        assert "in fail" in result.detail
        assert evaluate(executor, "testing.echo", b"next").payload == b"next"

    def test_of_a_long_detail_the_end_is_kept(self, executor: Executor) -> None:
        result = evaluate(executor, "testing.fail", "ä".encode() * 10_000 + b"end")
        assert len(result.detail.encode()) <= DETAIL_BYTES
        assert result.detail.endswith("äend")

    def test_an_answer_that_is_not_bytes_is_a_failure(self, executor: Executor) -> None:
        result = evaluate(executor, "testing.not_bytes")
        assert result.reason == "exception"
        assert "returned dict" in result.detail

    def test_what_cannot_be_run_is_refused(self) -> None:
        with self.make() as executor:
            with pytest.raises(UsageError, match=r"testing\.echo"):
                executor.submit(Job("a", "testing.ecko"))
            with pytest.raises(UsageError, match="payload"):
                executor.submit(Job("a", "testing.echo", bytes(PAYLOAD_BYTES + 1)))
            for seconds in (0.0, -1.0, float("nan"), float("inf")):
                with pytest.raises(UsageError, match="seconds"):
                    executor.submit(Job("a", "testing.echo", seconds=seconds))
            with pytest.raises(UsageError, match="memory_bytes"):
                executor.submit(Job("a", "testing.echo", memory_bytes=0))
            executor.submit(Job("a", "testing.echo"))
            with pytest.raises(UsageError, match="unique"):
                executor.submit(Job("a", "testing.echo"))

    def test_an_id_may_be_used_again_after_its_result(self, executor: Executor) -> None:
        for payload in (b"1", b"2"):
            assert evaluate(executor, "testing.echo", payload).payload == payload

    def test_with_nothing_to_do_poll_answers_at_once(self, executor: Executor) -> None:
        assert executor.poll(3600.0) == []

    def test_a_waiting_job_can_be_cancelled(self, executor: Executor) -> None:
        executor.submit(Job("first", "testing.echo"))
        executor.submit(Job("second", "testing.echo"))
        executor.cancel("second")
        executor.cancel("unknown")
        results, _ = drain(executor, {"first", "second"})
        assert results["first"].state == "done"
        assert (results["second"].state, results["second"].reason) == ("failed", "killed")

    def test_close_drops_jobs_and_ends_the_executor(self) -> None:
        executor = self.make()
        executor.submit(Job("a", "testing.echo"))
        executor.close()
        executor.close()
        assert executor.running() == executor.waiting() == []
        assert executor.poll(1.0) == []
        with pytest.raises(UsageError, match="closed"):
            executor.submit(Job("b", "testing.echo"))


class IsolatedExecutorTests(ExecutorTests):
    """Laws of executors that give each evaluation a process of its own."""

    def bytes_at_start(self, executor: Executor) -> int:
        """Bytes that an evaluation is charged at its start, beyond those of a fresh worker: a fork has its parent's."""
        return 0

    @pytest.mark.parametrize(
        ("entry", "seconds", "reason", "detail"),
        [
            ("testing.crash", None, "crash", "SIGSEGV"),
            ("testing.abort", None, "crash", "SIGABRT"),
            ("testing.exit", None, "crash", "status 7"),
            ("testing.hang", 0.3, "timeout", "0.3 seconds"),
            ("testing.ignore_sigterm_and_hang", 0.3, "timeout", "0.3 seconds"),
        ],
    )
    def test_misbehaviour_is_a_result(
        self, executor: Executor, entry: str, seconds: float | None, reason: str, detail: str
    ) -> None:
        result = evaluate(executor, entry, seconds=seconds)
        assert (result.state, result.payload, result.reason) == ("failed", None, reason)
        assert detail in result.detail
        assert evaluate(executor, "testing.echo", b"next").payload == b"next"

    @pytest.mark.parametrize(
        ("entry", "size"),
        [("testing.allocate", 2**29), ("testing.allocate_at_once", 2**29), ("testing.allocate_at_once", 2**45)],
    )
    def test_memory_over_the_limit_is_a_result(self, executor: Executor, entry: str, size: int) -> None:
        result = evaluate(executor, entry, str(size).encode(), memory_bytes=2**27)
        assert (result.state, result.reason) == ("failed", "memory"), result
        assert evaluate(executor, "testing.echo", b"next").payload == b"next"

    def test_memory_within_the_limit_is_free(self, executor: Executor) -> None:
        limit = self.bytes_at_start(executor) + 2**28
        result = evaluate(executor, "testing.allocate", str(2**26).encode(), memory_bytes=limit)
        assert result.payload == b"allocated", result

    def test_output_is_caught_and_bounded(self, executor: Executor) -> None:
        result = evaluate(executor, "testing.print_a_lot", str(2**21).encode())
        assert result.payload == b"printed"
        assert len(result.log.encode()) <= LOG_BYTES
        assert result.log.endswith("the last line\n")
        assert evaluate(executor, "testing.echo").log == ""

    @pytest.mark.parametrize("entry", ["testing.fail", "testing.exit", "testing.crash"])
    def test_output_before_a_failure_is_kept(self, executor: Executor, entry: str) -> None:
        assert "before the" in evaluate(executor, entry).log

    def test_an_evaluation_has_a_clean_place_of_its_own(self) -> None:
        with self.make() as executor:
            seen = json.loads(evaluate(executor, "testing.describe").payload or b"")
            again = json.loads(evaluate(executor, "testing.describe").payload or b"")
        assert seen["folder"] == os.getcwd()
        assert seen["stdin"] == ""
        assert seen["session"] == seen["pid"] != os.getsid(0)
        assert seen["parent_threads"] == 1
        assert seen["scratch"] != again["scratch"]
        assert seen["pid"] != again["pid"]

    def test_temporary_files_are_removed(self) -> None:
        with self.make() as executor:
            folder = Path((evaluate(executor, "testing.use_scratch").payload or b"").decode())
            assert not folder.exists()
            assert not folder.parent.exists()

    def test_a_running_job_can_be_cancelled(self, executor: Executor) -> None:
        executor.submit(Job("a", "testing.ignore_sigterm_and_hang"))
        pid = first_message(executor).payload["pid"]
        assert executor.running() == ["a"]
        executor.cancel("a")
        result = drain(executor, {"a"})[0]["a"]
        assert (result.state, result.reason) == ("failed", "killed")
        assert not alive(pid)

    @pytest.mark.parametrize("payload", [b"", b"hang"])
    def test_nothing_that_an_evaluation_starts_outlives_it(self, executor: Executor, payload: bytes) -> None:
        job = Job("a", "testing.fork_grandchild", payload, seconds=2.0)
        results, progress = collect(executor, [job])
        pids = progress[0].payload["pids"]
        assert results["a"].reason == ("timeout" if payload else None)
        assert [pid for pid in pids if alive(pid)] == []

    def test_close_leaves_no_process(self) -> None:
        with self.make(workers=2) as executor:
            executor.submit(Job("a", "testing.fork_grandchild", b"hang"))
            seen = first_message(executor).payload
        assert wait_until_gone([seen["pid"], seen["parent"], *seen["pids"]]) == []

    def test_jobs_run_side_by_side(self) -> None:
        with self.make(workers=2) as executor:
            for id in ("a", "b"):
                executor.submit(Job(id, "testing.hang"))
            assert set(first_messages(executor, 2)) == {"a", "b"}
            assert executor.running() == ["a", "b"]

    def test_poll_gives_up_in_time(self) -> None:
        with self.make() as executor:
            executor.submit(Job("a", "testing.hang"))
            first_message(executor)
            assert executor.poll(0.01) == []


class SpawnedExecutorTests(IsolatedExecutorTests):
    """Laws of executors whose workers are interpreters of their own."""

    def test_an_evaluation_has_no_secrets_of_this_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SOME_SECRET", "do not tell")
        monkeypatch.setenv("HF_TOKEN", "do not tell")
        with self.make() as executor:
            seen = json.loads(evaluate(executor, "testing.describe").payload or b"")
        assert "do not tell" not in seen["environment"].values()
