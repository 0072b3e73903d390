from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import pytest

from evodevo.errors import EvodevoError, UsageError
from evodevo.execution import connection
from evodevo.execution.base import EVALUATORS, EXECUTORS, Executor, Job, Progress
from evodevo.execution.family import descendants
from evodevo.execution.processes import ProcessExecutor
from evodevo.testing.executors import (
    PATIENCE_SECONDS,
    SpawnedExecutorTests,
    alive,
    collect,
    drain,
    evaluate,
    first_message,
    wait_until_gone,
)

make = partial(ProcessExecutor, preload=())


class TestProcessExecutor(SpawnedExecutorTests):
    def make(self, workers: int = 1) -> Executor:
        return make(workers)


def test_the_table_leads_to_it() -> None:
    assert EXECUTORS.get("processes") is ProcessExecutor


@pytest.mark.parametrize(
    ("settings", "words"), [({"workers": 0}, "worker"), ({"threads": 0}, "thread"), ({"preload": ("torhc",)}, "torch")]
)
def test_impossible_settings_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ProcessExecutor(**settings)  # type: ignore[arg-type]


# Whoever is killed, nothing stays


@pytest.mark.parametrize(
    ("victim", "number"),
    [("warm", signal.SIGKILL), ("guard", signal.SIGTERM), ("both", signal.SIGKILL), ("both", signal.SIGTERM)],
)
def test_a_worker_that_is_killed_loses_its_job_and_is_replaced(victim: str, number: signal.Signals) -> None:
    with make() as executor:
        executor.submit(Job("a", "testing.fork_grandchild", b"hang"))
        seen = first_message(executor).payload
        (guard,) = executor.pids()
        if victim == "both":
            os.kill(guard, signal.SIGSTOP)  # so that it cannot act in between
        for pid in {"warm": [seen["parent"]], "guard": [guard], "both": [seen["parent"], guard]}[victim]:
            os.kill(pid, number)
        if victim == "both":
            os.kill(guard, signal.SIGCONT)
        result = drain(executor, {"a"})[0]["a"]
        assert (result.state, result.reason) == ("failed", "lost")
        assert wait_until_gone([guard, seen["parent"], seen["pid"], *seen["pids"]]) == []
        assert executor.running() == []
        assert evaluate(executor, "testing.echo", b"next").payload == b"next"
        assert executor.pids() != [guard]


@pytest.mark.slow
def test_a_job_that_kills_its_worker_again_and_again_is_lost_each_time() -> None:
    with make() as executor:
        for _ in range(4):
            assert evaluate(executor, "testing.kill_worker").reason == "lost"
        assert evaluate(executor, "testing.echo", b"next").payload == b"next"


def coordinator(code: str) -> subprocess.Popen[str]:
    head = """
        import json, os, sys, time
        from evodevo.execution.base import Job, Progress
        from evodevo.execution.processes import ProcessExecutor
        executor = ProcessExecutor(2, preload=())
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


HANGING = """
    for i in range(2):
        executor.submit(Job(str(i), "testing.fork_grandchild", b"hang"))
    seen = executor.pids()
    while len(seen) < 12:
        for event in executor.poll(1.0):
            seen += [event.payload["pid"], event.payload["parent"], *event.payload["pids"]]
    print(json.dumps(seen), flush=True)
"""


@pytest.mark.parametrize("end", ["executor.poll(3600)", "sys.exit()"])
def test_when_the_coordinator_is_killed_or_just_exits_everything_below_it_ends(end: str) -> None:
    with coordinator(f"{HANGING}    {end}\n") as process:
        assert process.stdout is not None
        family = json.loads(process.stdout.readline())
        assert len(family) == 12
        if end != "sys.exit()":
            assert all(map(alive, family))
            process.kill()
        assert wait_until_gone(family) == []


def test_it_ends_also_where_the_guard_is_killed_while_it_ends_it() -> None:
    """As Ray does, which kills the children of a process that it ends, and no grandchild."""
    code = """
        import json
        from evodevo.execution import guard
        from evodevo.execution.base import Job
        from evodevo.execution.forked import ForkedExecutor
        guard._WARM_SECONDS = 600.0  # this test decides when the warm process goes on
        executor = ForkedExecutor()
        executor.submit(Job("a", "testing.fork_grandchild", b"hang"))
        seen = executor.pids()
        while len(seen) < 6:
            for event in executor.poll(1.0):
                seen += [event.payload["parent"], event.payload["pid"], *event.payload["pids"]]
        print(json.dumps(seen), flush=True)
        executor.poll(3600)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        guard, warm, *others = json.loads(process.stdout.readline())
        os.kill(warm, signal.SIGSTOP)
        process.kill()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _is_pending(warm, signal.SIGTERM):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(guard, signal.SIGKILL)
        assert all(map(alive, others))
        os.kill(warm, signal.SIGCONT)
        assert wait_until_gone([guard, warm, *others]) == []


@pytest.mark.slow
def test_a_warm_process_that_is_stopped_does_not_stay() -> None:
    with make() as executor:
        executor.submit(Job("a", "testing.hang"))
        seen = first_message(executor).payload
        os.kill(seen["parent"], signal.SIGSTOP)
    assert wait_until_gone([seen["pid"], seen["parent"]]) == []


def _is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a signal waits for a stopped process."""
    lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(lines["ShdPnd"], 16) >> (number - 1) & 1)


def test_that_holds_while_workers_still_import_and_while_somebody_else_holds_the_pipes() -> None:
    code = """
        if os.fork() == 0:
            sys.stdout.close()
            os.close(1)
            time.sleep(20)
            os._exit(0)
        print(json.dumps(executor.pids()), flush=True)
        time.sleep(3600)
    """
    with coordinator(code) as process:
        assert process.stdout is not None
        guards = json.loads(process.stdout.readline())
        process.kill()
        assert wait_until_gone(guards, seconds=10.0) == []
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_ctrl_c_in_the_terminal_reaches_the_coordinator_alone() -> None:
    code = """
        executor.submit(Job("a", "testing.sleep", b"1.0"))
        print(json.dumps(executor.pids()), flush=True)
        events = []
        while not events:
            try:
                events = executor.poll(1.0)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        print(events[0].state, flush=True)
        executor.close()
    """
    with coordinator(code) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)  # so that the coordinator is in poll
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.read().split() == ["interrupted", "done"]


@pytest.mark.slow
def test_a_worker_that_stands_still_is_ended_by_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "GRACE_SECONDS", 0.5)
    with make() as executor:
        executor.submit(Job("a", "testing.hang", seconds=1.0))
        seen = first_message(executor).payload
        os.kill(seen["parent"], signal.SIGSTOP)
        result = drain(executor, {"a"})[0]["a"]
        assert result.reason == "lost"
        assert wait_until_gone([seen["pid"], seen["parent"]]) == []
        assert evaluate(executor, "testing.echo", b"next").payload == b"next"


@pytest.mark.slow
def test_temporary_folders_go_with_their_worker(tmp_path: Path) -> None:
    for end in ("close", "warm", "guard", "both"):
        with make(environment={"TMPDIR": str(tmp_path)}) as executor:
            assert evaluate(executor, "testing.use_scratch").state == "done"
            executor.submit(Job("a", "testing.hang"))
            parent = first_message(executor).payload["parent"]
            (scratch,) = tmp_path.iterdir()
            for pid in {"close": [], "warm": [parent], "guard": executor.pids(), "both": [parent, *executor.pids()]}[
                end
            ]:
                os.kill(pid, signal.SIGKILL)
            if end != "close":
                drain(executor, {"a"})
                assert not scratch.exists()
        assert list(tmp_path.iterdir()) == []


def test_an_evaluation_holds_no_pipe_of_its_worker() -> None:
    with make() as executor:
        seen = json.loads(evaluate(executor, "testing.describe").payload or b"")
    assert seen["open"] == 4  # stdin, stdout, stderr, and the way for its answer


# Workers that cannot start


def test_a_broken_import_is_a_clear_error() -> None:
    with ProcessExecutor(preload=("broken",)) as executor:
        executor.submit(Job("a", "testing.echo"))
        for _ in range(2):
            with pytest.raises(EvodevoError, match=r"(?s)cannot start.*broken on purpose"):
                drain(executor, {"a"})
        assert executor.waiting() == ["a"]


@pytest.mark.slow
def test_a_package_that_is_not_there_is_a_clear_error() -> None:
    with make(packages=("no-such-package",)) as executor:
        executor.submit(Job("a", "testing.echo"))
        with pytest.raises(EvodevoError, match="no-such-package"):
            drain(executor, {"a"})


@pytest.mark.slow
def test_rows_of_an_installed_package_are_found_in_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin.py").write_text("def reverse(payload, report):\n    return payload[::-1]\n")
    info = tmp_path / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[evodevo.evaluators]\nplugin.reverse = plugin:reverse\n")
    monkeypatch.setitem(EVALUATORS._rows, "plugin.reverse", "plugin:reverse")
    with make(packages=("plugin",), environment={"PYTHONPATH": str(tmp_path)}) as executor:
        assert evaluate(executor, "plugin.reverse", b"abc").payload == b"cba"


def test_without_room_for_temporary_files_the_error_is_clear(tmp_path: Path) -> None:
    with pytest.raises(EvodevoError, match="TMPDIR"):
        make(environment={"TMPDIR": str(tmp_path / "missing")})


def test_workers_that_die_at_once_are_an_error_with_their_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho this interpreter is no good >&2\nexit 9\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with make() as executor:
        executor.submit(Job("a", "testing.echo"))
        with pytest.raises(EvodevoError, match=r"(?s)3 workers.*exit status 9.*no good"):
            drain(executor, {"a"})


def test_a_missing_interpreter_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(EvodevoError, match="/no/such/python"):
        make()


# Messages


@pytest.mark.slow
def test_large_payloads_travel_both_ways_and_side_by_side() -> None:
    payload = os.urandom(2**21)
    with make(2) as executor:
        results, _ = collect(executor, [Job(str(i), "testing.echo", payload) for i in range(3)])
    assert all(result.payload == payload for result in results.values())


def test_live_messages_come_before_the_evaluation_ends() -> None:
    with make() as executor:
        executor.submit(Job("a", "testing.hang"))
        assert isinstance(first_message(executor), Progress)
        assert executor.running() == ["a"]


@pytest.mark.slow
def test_messages_wait_for_a_coordinator_that_does_not_poll() -> None:
    with make() as executor:
        executor.submit(Job("a", "testing.progress", b"30000"))
        while not executor.poll(1.0):
            pass
        time.sleep(2.0)  # more than enough to finish, if nothing held it back
        assert len(descendants(executor.pids()[0])) == 3  # guard, warm process, and the evaluation in its report
        results, progress = drain(executor, {"a"})
    assert results["a"].payload == b"done"
    assert [message.payload["step"] for message in progress] == list(range(30_000))[-len(progress) :]


def test_nonsense_from_a_worker_loses_its_job_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(
        f"#!{sys.executable}\n"
        "import os, struct\n"
        "def frame(body): os.write(1, struct.pack('>I', len(body)) + body)\n"
        "os.read(0, 65536)\n"
        """frame(b'{"type":"ready"}')\n"""
        "os.read(0, 65536)\n"
        """frame(b'{"type":"result","id":"somebody else"}')\n"""
        "os.read(0, 65536)\n"
    )
    python.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(python))
        executor = make()
    with executor:
        result = evaluate(executor, "testing.echo")
        assert result.reason == "lost"
        assert "somebody else" in result.detail
        assert evaluate(executor, "testing.echo", b"next").payload == b"next"


@pytest.mark.slow
def test_torch_is_loaded_once_and_uses_its_threads_in_the_evaluation() -> None:
    with ProcessExecutor(threads=2) as executor:
        for _ in range(2):
            result = evaluate(executor, "testing.matmul")
            assert result.state == "done", result.detail
            assert json.loads(result.payload or b"") == {"sum": 512.0**3, "threads": 2}
        seen = json.loads(evaluate(executor, "testing.describe").payload or b"")
        assert seen["torch"]
        assert seen["parent_threads"] == 1
        limited = evaluate(executor, "testing.matmul", memory_bytes=2**29)
        assert limited.state == "done", limited.detail
