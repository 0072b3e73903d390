"""A Ray cluster of several nodes on this machine, whose nodes can be killed; for tests and benchmarks."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from evodevo.execution.clusters.ray_executor import USAGE_STATISTICS
from evodevo.execution.family import descendants

STORE_BYTES = 80 * 2**20
"""Memory of each node's object store in bytes, about the least that Ray accepts."""


class RayCluster:
    """A head without CPUs, and nodes with one CPU each; as a context manager, this process is connected to it.

    Args:
        nodes: Number of nodes beside the head.
    """

    def __init__(self, nodes: int = 2) -> None:
        os.environ[USAGE_STATISTICS] = "0"
        from ray.cluster_utils import Cluster

        head = {
            "num_cpus": 0,
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
            # A dead node is found within seconds rather than in half a minute.
            "_system_config": {"health_check_period_ms": 500, "health_check_failure_threshold": 4},
        }
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self.nodes: list[Any] = []
        for _ in range(nodes):
            self.add()

    @property
    def address(self) -> str:
        """``host:port`` of its head."""
        return str(self._cluster.address)

    def connect(self) -> None:
        """Connect this process."""
        import ray

        ray.init(self.address, log_to_driver=False, logging_level="ERROR")

    def add(self) -> Any:
        """A further node."""
        node = self._cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
        self.nodes.append(node)
        return node

    def kill(self, node: Any) -> None:
        """End a node as a lost machine does: none of its processes says anything."""
        self.nodes.remove(node)
        for pid in _processes(node):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()

    def node_of(self, pid: int) -> Any:
        """The node that a process belongs to."""
        return next(node for node in self.nodes if pid in _processes(node))

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import ray

        ray.shutdown()
        self.close()


def _processes(node: Any) -> list[int]:
    """All processes of a node: those that Ray started for it, and below them workers, guards and evaluations."""
    started = [info.process.pid for infos in node.all_processes.values() for info in infos]
    return [pid for one in started for pid in descendants(one)]
