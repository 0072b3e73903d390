"""The executor on Slurm, with a real cluster on this machine: a controller, and nodes that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from evodevo import __version__
from evodevo.errors import EvodevoError, UsageError
from evodevo.execution import connection
from evodevo.execution.base import Executor, Job, Setup
from evodevo.execution.clusters.slurm import executor as slurm_executor
from evodevo.execution.clusters.slurm.executor import SlurmExecutor, SlurmOptions
from evodevo.search.record import REPEATABLE
from evodevo.testing.cluster_executors import ClusterExecutorTests
from evodevo.testing.executors import (
    PATIENCE_SECONDS,
    alive,
    drain,
    evaluate,
    first_message,
    first_messages,
    wait_until_gone,
)
from evodevo.testing.slurm_cluster import SlurmCluster, started

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[SlurmCluster]:
    with started(nodes=3) as made:
        yield made


def make(workers: int = 1, **more: Any) -> SlurmExecutor:
    return SlurmExecutor(workers, preload=(), **more)


class TestSlurmExecutor(ClusterExecutorTests):
    def make(self, workers: int = 1, preload: Sequence[str] = ()) -> Executor:
        return SlurmExecutor(workers, preload=preload)


def within(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
    """Whether a condition becomes true in that time."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return met


def test_workers_are_jobs_that_start_when_they_are_needed_and_end_with_the_executor(cluster: SlurmCluster) -> None:
    with make(5) as executor:
        assert cluster.jobs() == []
        evaluate(executor, "testing.echo")
        evaluate(executor, "testing.echo")
        assert [line.split()[1] for line in cluster.jobs()] == ["RUNNING"]
    assert within(lambda: not cluster.jobs())


def test_what_waits_in_the_queue_is_waiting_and_is_withdrawn_with_the_executor(cluster: SlurmCluster) -> None:
    with make(4) as executor:
        for name in ("a", "b", "c", "d"):
            executor.submit(Job(name, "testing.hang"))
        assert set(first_messages(executor, 3)) == {"a", "b", "c"}
        assert executor.running() == ["a", "b", "c"]
        assert executor.waiting() == ["d"]
        assert within(lambda: sorted(line.split()[1] for line in cluster.jobs()) == ["PENDING", *["RUNNING"] * 3])
        executor.cancel("d")
        assert drain(executor, {"d"})[0]["d"].detail == "cancelled before it started."
    assert within(lambda: not cluster.jobs())


def test_a_worker_gets_the_resources_that_were_asked_for(cluster: SlurmCluster) -> None:
    options = SlurmOptions(gpus=1, memory_bytes=300 * 2**20, minutes=7, arguments=("--comment=ours",))
    with make(options=options) as executor:
        seen = json.loads(evaluate(executor, "testing.describe").payload or b"")["environment"]
        shown = cluster.run("squeue", "-h", "-o", "%b %m %l %k")
    assert seen["CUDA_VISIBLE_DEVICES"] == "0"
    assert shown.split() == ["gres:gpu:1", "300M", "7:00", "ours"]


def test_without_gpus_an_evaluation_sees_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with make() as executor:
        seen = json.loads(evaluate(executor, "testing.describe").payload or b"")["environment"]
    assert seen["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize("options", [SlurmOptions(partition="none"), SlurmOptions(arguments=("--no-such-flag",))])
def test_what_slurm_refuses_is_a_clear_error(options: SlurmOptions) -> None:
    with make(options=options) as executor:
        executor.submit(Job("a", "testing.echo"))
        with pytest.raises(EvodevoError, match=r"(?s)3 workers in a row.*srun: .*(partition|no-such-flag)"):
            drain(executor, {"a"})
        assert executor.waiting() == ["a"]


def test_a_node_with_another_version_is_a_clear_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_executor, "__version__", "0.0.1")
    with make() as executor:
        executor.submit(Job("a", "testing.echo"))
        with pytest.raises(EvodevoError, match=f"node .+: it has evodevo {__version__}, the coordinator has 0.0.1"):
            drain(executor, {"a"})


def test_a_worker_that_cannot_start_is_a_clear_error() -> None:
    with SlurmExecutor(preload=("broken",)) as executor:
        executor.submit(Job("a", "testing.echo"))
        with pytest.raises(EvodevoError, match=r"(?s)cannot start.*broken on purpose"):
            drain(executor, {"a"})


@pytest.mark.parametrize("victim", ["warm", "guard", "step", "srun"])
def test_a_process_that_is_killed_loses_its_job_alone(victim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm does not notice the end of its own daemon of a step; the limit of the evaluation's time does."""
    monkeypatch.setattr(connection, "GRACE_SECONDS", 1.0)
    monkeypatch.setattr(connection, "_END_SECONDS", 2.0)
    with make() as executor:
        executor.submit(Job("a", "testing.fork_grandchild", b"hang", seconds=3.0 if victim == "step" else None))
        seen = first_message(executor).payload
        guard = _parent(seen["parent"])
        victims = {"warm": seen["parent"], "guard": guard, "step": _parent(guard), "srun": executor.pids()[0]}
        os.kill(victims[victim], signal.SIGKILL)
        result = drain(executor, {"a"})[0]["a"]
        assert (result.state, result.reason) == ("failed", "lost")
        assert wait_until_gone([seen["pid"], seen["parent"], guard, *seen["pids"]]) == []
        assert evaluate(executor, "testing.echo", b"next").payload == b"next"


def test_a_worker_whose_time_is_over_loses_its_evaluation_and_another_one_comes(cluster: SlurmCluster) -> None:
    with make() as executor:
        executor.submit(Job("a", "testing.hang"))
        first_message(executor)
        (job,) = (line.split()[0] for line in cluster.jobs())
        cluster.run("scancel", job)  # as Slurm itself ends a job, with SIGTERM and later SIGKILL
        result = drain(executor, {"a"})[0]["a"]
        # Which of its processes the signal reaches first is Slurm's; either is evaluated again.
        assert result.state == "failed"
        assert result.reason in REPEATABLE
        assert evaluate(executor, "testing.echo", b"next").payload == b"next"


def test_a_worker_whose_evaluation_was_killed_gets_no_other_one() -> None:
    """It may be the first of its processes that Slurm ends."""
    with make() as executor:
        executor.submit(Job("a", "testing.hang"))
        pid = first_message(executor).payload["pid"]
        (worker,) = executor.pids()
        os.kill(pid, signal.SIGKILL)
        assert drain(executor, {"a"})[0]["a"].reason == "killed"
        assert evaluate(executor, "testing.echo", b"next").payload == b"next"
        assert executor.pids() != [worker]
        executor.submit(Job("b", "testing.hang"))
        first_message(executor)
        (worker,) = executor.pids()
        executor.cancel("b")
        drain(executor, {"b"})
        evaluate(executor, "testing.echo")
        assert executor.pids() == [worker], "one that was cancelled by its coordinator says nothing about the worker"


def test_the_number_of_an_ended_stream_is_no_other_stream_s() -> None:
    """Until the worker is forgotten: what watches that number would forget the other one."""
    with make() as executor:
        evaluate(executor, "testing.echo")
        (one,) = executor._connections
        one.begin_end()
        assert not {one.stdin, one.stdout, one.stderr} & {*os.pipe()}
        assert wait_until_gone([one.pid], PATIENCE_SECONDS) == []


def test_workers_that_end_between_evaluations_are_replaced(cluster: SlurmCluster) -> None:
    with make() as executor:
        for _ in range(5):  # more than may end in a row before their first job
            assert evaluate(executor, "testing.echo", b"x").payload == b"x"
            (worker,) = executor.pids()
            (job,) = (line.split()[0] for line in cluster.jobs())
            cluster.run("scancel", job)
            assert wait_until_gone([worker], PATIENCE_SECONDS) == []
            deadline = time.monotonic() + PATIENCE_SECONDS
            while worker in executor.pids():  # the end of its streams may come a little later than its own
                assert time.monotonic() < deadline
                executor.poll(0.1)


@pytest.mark.parametrize("running", [3, 0])
def test_when_the_coordinator_is_killed_nothing_stays(cluster: SlurmCluster, running: int) -> None:
    """Neither what runs nor what waits in the queue."""
    code = f"""
        import json
        from evodevo.execution.base import Job
        from evodevo.execution.clusters.slurm.executor import SlurmExecutor
        executor = SlurmExecutor(4, preload=())
        for i in range(4):
            executor.submit(Job(str(i), "testing.fork_grandchild", b"hang"))
        seen = []
        while len(seen) < {running * 5}:
            for event in executor.poll(1.0):
                seen += [event.payload["pid"], event.payload["parent"], *event.payload["pids"]]
        print(json.dumps(seen), flush=True)
        executor.poll(3600)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    blocker = None if running else subprocess.Popen(["srun", "--nodes=3", "sleep", "600"], start_new_session=True)
    try:
        assert running or within(lambda: len(cluster.jobs()) == 1)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
            assert process.stdout is not None
            family = json.loads(process.stdout.readline())
            assert all(map(alive, family))
            waiting = 1 if running else 4
            assert within(lambda: sum("PENDING" in line for line in cluster.jobs()) == waiting)
            process.kill()
            assert wait_until_gone(family, seconds=20.0) == []
        assert within(lambda: len(cluster.jobs()) == (0 if running else 1))
    finally:
        if blocker is not None:
            blocker.terminate()
            blocker.wait()
    assert within(lambda: not cluster.jobs())


def test_within_an_allocation_workers_are_steps_and_one_without_room_waits(cluster: SlurmCluster) -> None:
    code = """
        from evodevo.execution.base import Job
        from evodevo.execution.clusters.slurm.executor import SlurmExecutor
        from evodevo.testing.executors import first_messages
        with SlurmExecutor(3, preload=()) as executor:
            for name in ("a", "b", "c"):
                executor.submit(Job(name, "testing.hang"))
            print(sorted(first_messages(executor, 2)), executor.waiting(), flush=True)
    """
    command = ["salloc", "--nodes=2", "--ntasks=2", sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "['a', 'b'] ['c']\n", done.stderr
    assert within(lambda: not cluster.jobs())


def test_the_settings_of_a_run_make_it(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup("slurm", 2, preload=(), options={"minutes": 5})
    with SlurmExecutor.make(setup) as executor:
        assert executor.workers == 2
        assert evaluate(executor, "testing.echo", b"x").payload == b"x"
    with pytest.raises(UsageError, match=r"options of the executor 'slurm'.*minute.*did you mean 'minutes'"):
        SlurmExecutor.check(Setup("slurm", options={"minute": 5}))


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])
