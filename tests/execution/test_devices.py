"""A device for each worker, on a machine without one: a made-up list of devices, and the variable that torch reads."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.execution.devices import VISIBLE, next_device, outer_devices, visible_values
from evodevo.execution.processes import ProcessExecutor
from evodevo.runs.drive import check_machine, create_executor
from evodevo.runs.recipe import ExecutionSettings
from evodevo.runs.resolve import resolve
from evodevo.testing.executors import evaluate


def test_the_devices_of_this_process_are_those_of_the_variable_else_of_the_driver(tmp_path: Path) -> None:
    assert outer_devices({}, tmp_path / "none") == ()
    for number in range(3):
        (tmp_path / "gpus" / f"0000:0{number}:00.0").mkdir(parents=True)
    assert outer_devices({}, tmp_path / "gpus") == ("0", "1", "2")
    for value, wanted in (("4,7", ("4", "7")), ("GPU-1a, GPU-2b", ("GPU-1a", "GPU-2b")), ("", ()), ("-1", ())):
        assert outer_devices({VISIBLE: value}, tmp_path / "gpus") == wanted


def test_names_count_what_this_process_sees() -> None:
    outer = ("4", "7", "GPU-1a")
    assert visible_values(["auto"], outer) == outer
    assert visible_values(["auto"], ()) == ()
    assert visible_values([], outer) == ()
    assert visible_values(["cuda:2", "cuda:0"], outer) == ("GPU-1a", "4")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (["cuda"], "unknown device 'cuda'"),
        (["cpu"], "unknown device 'cpu'"),
        (["auto", "cuda:0"], "unknown device 'auto'"),
        (["cuda:2"], "has 2 CUDA devices"),
        (["cuda:1", "cuda:1"], "'cuda:1' twice"),
    ],
)
def test_what_cannot_be_is_refused(wanted: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        visible_values(wanted, ("0", "1"))


@given(st.integers(1, 5), st.integers(1, 20), st.data())
def test_workers_are_spread_evenly_whichever_end(devices: int, workers: int, data: st.DataObject) -> None:
    names = [str(number) for number in range(devices)]
    taken: list[str | None] = []
    for _ in range(workers):
        taken.append(next_device(names, taken))
    assert taken == [names[number % devices] for number in range(workers)], "round robin"
    # A worker that died is replaced on the device that lost it, or on one that has as few.
    lost = data.draw(st.integers(0, workers - 1))
    rest = taken[:lost] + taken[lost + 1 :]
    counts = [[*rest, next_device(names, rest)].count(name) for name in names]
    assert max(counts) - min(counts) <= 1
    assert next_device([], taken) is None


def seen_by(pid: int) -> str | None:
    """The variable as a process has it."""
    while not (text := Path(f"/proc/{pid}/environ").read_text()):
        time.sleep(0.01)  # ``Popen`` returns within exec, a moment before the kernel shows the new variables
    variables = dict(item.split("=", 1) for item in text.split("\0") if item)
    return variables.get(VISIBLE)


def test_each_worker_sees_its_device_from_its_start_and_so_does_the_one_that_replaces_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VISIBLE, "4,7")
    with ProcessExecutor(3, preload=(), devices=("cuda:1", "cuda:0")) as executor:
        assert [seen_by(pid) for pid in executor.pids()] == ["7", "4", "7"]
        description = canonical.loads(evaluate(executor, "testing.describe").payload or b"", what="a description")
        assert description["environment"][VISIBLE] in ("4", "7"), "and its evaluations do"
        lost = executor.pids()[1]
        os.kill(lost, signal.SIGKILL)
        while lost in executor.pids() or len(executor.pids()) < 3:
            executor.poll(0.05)
        assert evaluate(executor, "testing.echo", b"x").payload == b"x"
        assert sorted(str(seen_by(pid)) for pid in executor.pids()) == ["4", "7", "7"]
    with ProcessExecutor(1, preload=()) as executor:
        assert seen_by(executor.pids()[0]) == "4,7", "all of them where none is named"
    with pytest.raises(UsageError, match="has 2 CUDA devices"):
        ProcessExecutor(1, preload=(), devices=("cuda:2",))


def test_settings_lead_to_the_workers_and_replicas_need_all_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "4,7")
    with create_executor(ExecutionSettings(workers=1, devices=("cuda:1",)), ()) as executor:
        assert seen_by(executor.pids()[0]) == "7"  # type: ignore[attr-defined]
    changes = {"execution": {"devices": ["auto"]}, "evaluation": {"training": {"replicas": 2}}}
    with pytest.raises(UsageError, match="one each; leave"):
        check_machine(resolve("backbone.demo", overrides=changes))
    named = {"execution": {"devices": ["auto"]}, "evaluation": {"training": {"device": "cuda:1"}}}
    with pytest.raises(UsageError, match=r"each worker sees one device, as cuda:0"):
        check_machine(resolve("backbone.demo", overrides=named))
    assert "devices" not in ExecutionSettings().model_dump()
