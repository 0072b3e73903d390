"""The executor on Ray, with a real cluster on this machine: a head without CPUs, and nodes that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from evodevo import __version__
from evodevo.errors import EvodevoError, UsageError
from evodevo.execution.base import Executor, Job, Setup
from evodevo.execution.clusters.node import NodeSetup
from evodevo.execution.clusters.ray_executor import USAGE_STATISTICS, RayExecutor, RayOptions
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
from evodevo.testing.ray_cluster import RayCluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[RayCluster]:
    with RayCluster(nodes=2) as made:
        yield made


def make(workers: int = 1, **more: Any) -> RayExecutor:
    return RayExecutor(workers, preload=(), **more)


class TestRayExecutor(ClusterExecutorTests):
    def make(self, workers: int = 1, preload: Sequence[str] = ()) -> Executor:
        return RayExecutor(workers, preload=preload)


def test_nothing_is_sent_to_the_makers_of_ray() -> None:
    from ray._common.usage import usage_lib

    assert os.environ[USAGE_STATISTICS] == "0"
    assert not usage_lib.usage_stats_enabled()


def test_a_signal_handler_stays_and_a_connection_of_the_users_own_stays_open(cluster: RayCluster) -> None:
    """In a process of its own, which connects by itself."""
    code = f"""
        import os, signal
        os.environ.pop({USAGE_STATISTICS!r}, None)
        from evodevo.execution.clusters.ray_executor import RayExecutor, RayOptions
        handler = lambda *_: None
        signal.signal(signal.SIGTERM, handler)
        options = RayOptions(address={cluster.address!r})
        with RayExecutor(preload=(), options=options):
            import ray
            assert os.environ[{USAGE_STATISTICS!r}] == "0"
            assert ray.is_initialized()
            assert signal.getsignal(signal.SIGTERM) is handler
            with RayExecutor(preload=()):
                pass
            assert ray.is_initialized(), "the inner one found a connection, and left it"
        assert not ray.is_initialized()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=120)


def test_what_waits_for_resources_in_ray_is_waiting(cluster: RayCluster) -> None:
    with make(3) as executor:
        for name in ("a", "b", "c"):
            executor.submit(Job(name, "testing.hang"))
        assert set(first_messages(executor, 2)) == {"a", "b"}
        assert executor.running() == ["a", "b"]
        assert executor.waiting() == ["c"]
        executor.cancel("c")
        assert drain(executor, {"c"})[0]["c"].detail == "cancelled before it started."


def test_an_evaluation_gets_the_resources_that_were_asked_for() -> None:
    with make(options=RayOptions(cpus=0.5, memory_bytes=2**20)) as executor:
        executor.submit(Job("a", "testing.hang"))
        first_message(executor)
        assert _taken({"CPU": 0.5, "memory": 2**20}) == {"CPU": 0.5, "memory": 2**20}


def test_resources_that_no_node_has_are_told_of() -> None:
    with pytest.warns(UserWarning, match=r"1 CPU, 3 GPU, and no node has that .*0 GPU"):
        make(options=RayOptions(gpus=3)).close()


def test_a_worker_that_cannot_start_is_a_clear_error_that_names_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    with RayExecutor(preload=("broken",)) as executor:
        executor.submit(Job("a", "testing.echo"))
        with pytest.raises(EvodevoError, match=r"(?s)cannot start.*node .+: .*broken on purpose"):
            drain(executor, {"a"})
        assert executor.waiting() == ["a"]
    with make() as executor:
        executor._setup = NodeSetup(1, (), (), (), os.getcwd(), version="0.0.1")
        executor.submit(Job("a", "testing.echo"))
        with pytest.raises(EvodevoError, match=f"has evodevo {__version__}, the coordinator has 0.0.1"):
            drain(executor, {"a"})


@pytest.mark.parametrize("victim", ["warm", "guard", "task"])
def test_a_process_that_is_killed_loses_its_job_alone(victim: str) -> None:
    with make() as executor:
        executor.submit(Job("a", "testing.fork_grandchild", b"hang"))
        seen = first_message(executor).payload
        guard = _parent(seen["parent"])
        task = _parent(guard)
        os.kill({"warm": seen["parent"], "guard": guard, "task": task}[victim], signal.SIGKILL)
        result = drain(executor, {"a"})[0]["a"]
        assert (result.state, result.reason) == ("failed", "lost")
        assert result.detail
        assert wait_until_gone([seen["pid"], seen["parent"], guard, *seen["pids"]]) == []
        assert evaluate(executor, "testing.echo", b"next").payload == b"next"


def test_when_the_coordinator_is_killed_nothing_stays(cluster: RayCluster) -> None:
    code = f"""
        import json
        from evodevo.execution.base import Job
        from evodevo.execution.clusters.ray_executor import RayExecutor, RayOptions
        executor = RayExecutor(2, preload=(), options=RayOptions(address={cluster.address!r}))
        for i in range(2):
            executor.submit(Job(str(i), "testing.fork_grandchild", b"hang"))
        seen = []
        while len(seen) < 10:
            for event in executor.poll(1.0):
                seen += [event.payload["pid"], event.payload["parent"], *event.payload["pids"]]
        print(json.dumps(seen), flush=True)
        executor.poll(3600)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        family = json.loads(process.stdout.readline())
        assert all(map(alive, family))
        process.kill()
        assert wait_until_gone(family, seconds=20.0) == []


def test_the_settings_of_a_run_make_it() -> None:
    setup = Setup("ray", 2, preload=(), options={"cpus": 0.5})
    with RayExecutor.make(setup) as executor:
        assert executor.workers == 2
        assert evaluate(executor, "testing.echo", b"x").payload == b"x"
    with pytest.raises(UsageError, match=r"options of the executor 'ray'.*adress.*did you mean 'address'"):
        RayExecutor.check(Setup("ray", options={"adress": "auto"}))


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def _taken(expected: dict[str, float]) -> dict[str, float]:
    """What Ray has given away of these resources; its nodes report that with a delay, so it is asked for a while."""
    import ray

    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        total, free = ray.cluster_resources(), ray.available_resources()
        taken = {name: total[name] - free.get(name, 0.0) for name in expected}
        if taken == expected or time.monotonic() > deadline:
            return taken
        time.sleep(0.05)
