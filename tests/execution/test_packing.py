"""Evaluations that share a device, on a machine without one: the rule by itself, and workers on a pretended device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import UsageError
from evodevo.execution.base import Job, Setup
from evodevo.execution.device_memory import DeviceUse, device_use
from evodevo.execution.devices import VISIBLE
from evodevo.execution.packing import FILLED, REMEMBERED, Packing
from evodevo.execution.processes import ProcessExecutor, ProcessOptions
from evodevo.testing.executors import collect

GIGABYTE = 2**30


def use(peak: int, total: int, around: int) -> DeviceUse:
    """The use of a device by an evaluation that has freed its tensors."""
    return DeviceUse(peak, 0, total - around, total)


@given(
    most=st.integers(1, 64),
    peaks=st.lists(st.integers(1, 4 * GIGABYTE), min_size=1, max_size=20),
    around=st.integers(0, GIGABYTE),
    stay=st.booleans(),
)
def test_the_largest_evaluations_fit_together_with_all_processes(
    most: int, peaks: list[int], around: int, stay: bool
) -> None:
    total = 8 * GIGABYTE
    packing = Packing(most, processes_stay=stay)
    assert packing.slots == 1, "nothing is known yet"
    for number, peak in enumerate(peaks):
        packing.ended(use(peak, total, around), alone=number == 0)
        slots = packing.slots
        assert 1 <= slots <= most
        if slots > 1:
            processes = most if stay else slots
            assert slots * max(peaks[: number + 1]) + processes * around <= FILLED * total


def test_small_evaluations_fill_the_device_up_to_the_workers() -> None:
    packing = Packing(32)
    packing.ended(use(GIGABYTE // 4, 80 * GIGABYTE, GIGABYTE // 2), alone=True)
    assert packing.slots == 32
    packing = Packing(200)
    packing.ended(use(GIGABYTE, 80 * GIGABYTE, GIGABYTE // 2), alone=True)
    assert packing.slots == 44, "72 gigabytes, and for each a little over 1.6: 1.1 for tensors and 0.5 around them"


def test_a_refusal_lowers_the_number_for_a_while() -> None:
    packing = Packing(8)
    packing.ended(use(1000, GIGABYTE, 0), alone=True)
    assert packing.slots == 8
    packing.refused(8)
    assert packing.slots == 7
    packing.refused(2)
    packing.refused(1)
    assert packing.slots == 1, "one always runs"
    for _ in range(REMEMBERED):
        packing.ended(use(1000, GIGABYTE, 0), alone=False)
    assert packing.slots == 8


def test_what_does_not_touch_the_device_is_not_counted() -> None:
    packing = Packing(5)
    packing.ended(None, alone=True)
    assert packing.slots == 5
    packing.ended(use(GIGABYTE, GIGABYTE, 0), alone=True)
    assert packing.slots == 1


def test_without_cuda_there_is_no_use() -> None:
    assert device_use() is None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a pretended device, which is the only one of this machine."""
    monkeypatch.setenv(VISIBLE, "0")
    (tmp_path / "device").mkdir()
    return tmp_path / "device"


def jobs(folder: Path, peaks: list[int], *, seconds: float = 0.2, total: int = 1000, around: int = 50) -> list[Job]:
    wanted = {"folder": str(folder), "total": total, "around": around, "seconds": seconds}
    return [
        Job(f"job {number}", "testing.pretend_device", json.dumps({**wanted, "peak": peak}).encode())
        for number, peak in enumerate(peaks)
    ]


def packed(workers: int) -> ProcessExecutor:
    return ProcessExecutor(workers, preload=(), devices=("auto",), options=ProcessOptions(packing=True))


def test_workers_share_a_device_as_far_as_its_memory_goes(folder: Path) -> None:
    with packed(4) as executor:
        results, _ = collect(executor, jobs(folder, [200] * 7))
    together = [int(results[f"job {number}"].payload or b"0") for number in range(7)]
    assert together[0] == 1, "the first is measured alone"
    assert max(together) == 3, "900 of 1000 for 220 and 50 each"
    assert {(result.device.peak, result.device.around) for result in results.values() if result.device} >= {(200, 50)}


def test_who_is_refused_memory_on_a_shared_device_is_repeated_alone(folder: Path) -> None:
    # Small ones first: then a large one comes that has no room beside them, and one that has none anywhere.
    with packed(3) as executor:
        results, _ = collect(executor, jobs(folder, [50, 50, 50, 900, 50, 50, 980, 50]))
    states = [results[f"job {number}"].state for number in range(8)]
    assert states == ["done"] * 6 + ["failed", "done"]
    assert results["job 3"].payload == b"1", "beside others there is no room for it, nor for them"
    assert results["job 6"].reason == "memory"
    assert "out of memory" in results["job 6"].detail


def test_without_packing_all_workers_begin_and_a_refusal_is_a_result(folder: Path) -> None:
    with ProcessExecutor(3, preload=(), devices=("auto",)) as executor:
        results, _ = collect(executor, jobs(folder, [600, 600], seconds=1.0))
    assert sorted(result.reason or "none" for result in results.values()) == ["memory", "none"]


@pytest.mark.gpu
@pytest.mark.skipif(not Path("/proc/driver/nvidia/gpus").is_dir(), reason="no CUDA device")
def test_small_products_share_a_real_device_in_processes_that_last() -> None:
    options = ProcessOptions(evaluations=4, packing=True)
    with ProcessExecutor(3, preload=("torch",), devices=("cuda:0",), options=options) as executor:
        given = [Job(str(number), "testing.use_cuda", b"1024") for number in range(9)]
        results, _ = collect(executor, given)
    answers = [json.loads(result.payload or b"{}") for result in results.values()]
    assert {answer["sum"] for answer in answers} == {answers[0]["sum"]}, "the same numbers in every process and turn"
    assert len({answer["pid"] for answer in answers}) < 9, "processes were used again"
    for result in results.values():
        assert result.device is not None
        assert result.device.peak >= 2 * 4 * 1024**2


def test_packing_needs_devices() -> None:
    with pytest.raises(UsageError, match=r"set execution\.devices"):
        ProcessExecutor(2, preload=(), options=ProcessOptions(packing=True))
    with pytest.raises(UsageError, match=r"set execution\.devices"):
        ProcessExecutor.check(Setup("processes", options={"packing": True}))
    with pytest.raises(UsageError, match="packign"):
        ProcessExecutor.check(Setup("processes", options={"packign": True}))
