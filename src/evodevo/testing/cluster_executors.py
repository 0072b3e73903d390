"""The laws of executors on the nodes of a cluster, as a test class to inherit.

class TestMyExecutor(ClusterExecutorTests):
    def make(self, workers: int = 1, preload: Sequence[str] = ()) -> Executor:
        return MyExecutor(workers, preload=preload)

A fixture ``cluster`` is the cluster (``ray_cluster``, ``slurm_cluster``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Protocol

from evodevo.execution.base import Executor, Job
from evodevo.execution.processes import ProcessExecutor
from evodevo.search.members import Listener
from evodevo.search.settings import StudySettings
from evodevo.search.study import Study
from evodevo.storage import Store
from evodevo.testing.evaluations.sleeping import SleepingProblem
from evodevo.testing.executors import SpawnedExecutorTests, drain, evaluate
from evodevo.testing.histories import Birth, difference, evaluated_twice, history, hypervolumes
from evodevo.testing.real_vector import RealVectorSpace

PRELOAD = ("sleeping",)
SETTINGS = StudySettings(population=6, generations=3, seed=7)


class Cluster(Protocol):
    """A cluster of a test, with nodes that can be killed."""

    def node_of(self, pid: int) -> Any:
        """The node that a process belongs to."""
        ...

    def kill(self, node: Any) -> None:
        """End a node as a lost machine does."""
        ...

    def add(self) -> Any:
        """A node in the place of one that was killed."""
        ...


class ClusterExecutorTests(SpawnedExecutorTests):
    """Laws of executors whose evaluations run on other machines."""

    def make(self, workers: int = 1, preload: Sequence[str] = ()) -> Executor:
        """A new executor."""
        raise NotImplementedError

    def test_messages_wait_for_a_coordinator_that_does_not_poll(self) -> None:
        with self.make() as executor:
            executor.submit(Job("a", "testing.progress", b"3000"))
            while not executor.poll(1.0):
                pass
            time.sleep(1.0)
            results, progress = drain(executor, {"a"})
        assert results["a"].payload == b"done"
        steps = [message.payload["step"] for message in progress]
        assert steps == list(range(3000))[-len(steps) :]

    def test_large_payloads_travel_both_ways(self) -> None:
        payload = os.urandom(2**22)
        with self.make() as executor:
            assert evaluate(executor, "testing.echo", payload).payload == payload

    def test_a_search_in_which_a_node_dies_is_that_of_one_local_worker(self, cluster: Cluster) -> None:
        expected = _search(ProcessExecutor(1, preload=PRELOAD))
        restarts: list[str] = []
        killed: list[Any] = []
        evaluated = 0

        def listen(kind: str, facts: dict[str, Any]) -> None:
            nonlocal evaluated
            evaluated += kind == "evaluated"
            if kind == "progress" and "restarted" in facts:
                restarts.append(facts["restarted"])
            elif kind == "progress" and evaluated >= 4 and not killed:
                killed.append(cluster.node_of(facts["pid"]))
                cluster.kill(killed[0])

        ours = _search(self.make(2, preload=PRELOAD), listen)
        cluster.add()
        assert killed
        assert len(restarts) == 1, "one attempt of the one evaluation that ran there"
        assert not difference(ours[0], expected[0]), difference(ours[0], expected[0])
        assert ours[1] == expected[1]


def _search(executor: Executor, listener: Listener | None = None) -> tuple[list[Birth], list[str]]:
    """History and hypervolumes of a search."""
    with executor, Store.memory() as store:
        study = Study(
            RealVectorSpace(3),
            SleepingProblem(0.2, 0.3),
            settings=SETTINGS,
            store=store,
            executor=executor,
            listener=listener,
        )
        result = study.run()
        assert result.state == "finished"
        assert evaluated_twice(store, result.run) == []
        return history(store, result.run), hypervolumes(store, result.run)
