"""The end of a cluster's task on its node, called as a cluster system would."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from evodevo.errors import EvodevoError, MissingExtraError, UsageError
from evodevo.execution.base import Event, Job, Progress, Result, Setup
from evodevo.execution.clusters import node
from evodevo.execution.clusters.node import NodeSetup
from evodevo.execution.clusters.ray_executor import RayExecutor, RayOptions
from evodevo.testing.executors import wait_until_gone


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    node.close()


def setup(**more: Any) -> NodeSetup:
    return NodeSetup(**{"threads": 1, "preload": (), "packages": (), "environment": (), "folder": os.getcwd(), **more})


def described(given: NodeSetup) -> dict[str, Any]:
    first, *others = node.evaluate(Job("a", "testing.describe"), given)
    events: list[Event] = [event for batch in others for event in batch]
    assert first == [], "it tells that it has begun"
    assert [type(event) for event in events] == [Progress, Result]
    assert isinstance(events[1], Result)
    seen: dict[str, Any] = json.loads(events[1].payload or b"")
    return seen


def test_the_worker_stays_for_the_next_evaluation_unless_the_device_or_the_settings_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = setup(environment=(("OF_MINE", "1"),))
    first, second = described(given), described(given)
    assert first["parent"] == second["parent"]
    assert first["pid"] != second["pid"]
    assert second["environment"]["OF_MINE"] == "1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    third = described(given)
    assert third["environment"]["CUDA_VISIBLE_DEVICES"] == "5"
    assert third["parent"] != first["parent"]
    fourth = described(setup(threads=2))
    assert fourth["environment"]["OMP_NUM_THREADS"] == "2"
    assert wait_until_gone([first["parent"], third["parent"]]) == []


def test_a_task_that_is_dropped_ends_its_evaluation() -> None:
    stream = node.evaluate(Job("a", "testing.fork_grandchild", b"hang"), setup())
    next(stream)
    (message,) = next(stream)
    assert isinstance(message, Progress)
    pids = [message.payload["pid"], message.payload["parent"], *message.payload["pids"]]
    stream.close()  # type: ignore[attr-defined]
    assert wait_until_gone(pids, seconds=0.1) == []


def test_a_folder_that_the_node_does_not_have_is_passed_over() -> None:
    assert described(setup(folder="/no/such/folder"))["folder"] == os.getcwd()


@pytest.mark.parametrize(
    ("given", "words"),
    [({"version": "0.0.1"}, "coordinator has 0.0.1"), ({"packages": ("no-such-package",)}, "no-such")],
)
def test_a_node_that_cannot_evaluate_says_so_with_its_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(EvodevoError, match=f"node {os.uname().nodename}: .*{words}"):
        list(node.evaluate(Job("a", "testing.echo"), setup(**given)))


# What needs no cluster of the executor


def test_without_ray_the_error_has_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'evodevo\[ray\]'"):
        RayExecutor.check(Setup("ray"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"adress": "auto"}, r"options of the executor 'ray'.*adress.*did you mean 'address'"),
        ({"gpus": -1}, "gpus"),
        ({"memory_bytes": 0}, "memory_bytes"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RayExecutor.check(Setup("ray", options=options))


def test_devices_of_local_workers_are_not_for_a_cluster() -> None:
    with pytest.raises(UsageError, match=r"set execution\.options\.gpus"):
        RayExecutor.check(Setup("ray", devices=("auto",)))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:99999", "no such host:6379"])
def test_where_nobody_listens_is_said_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"(?s)no Ray cluster answers.*ray start --head"):
        RayExecutor(preload=(), options=RayOptions(address=address))


def test_the_address_of_a_client_is_refused() -> None:
    with pytest.raises(UsageError, match="without 'ray://'"):
        RayExecutor(preload=(), options=RayOptions(address="ray://somewhere:10001"))
