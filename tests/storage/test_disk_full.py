"""A full disk: our error, nothing lost, and the work goes on when there is space again."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evodevo.errors import DiskFullError, ExitCode
from evodevo.storage import Evaluation, Store
from evodevo.testing.storages import FIDELITY, grown, newborn

COUNT = 60


def _fill_and_go_on(store: Store, make_room: Callable[[], object]) -> int:
    """Evaluate until the store is full, make room, go on; returns how many were finished before."""
    lease, individuals = grown(store, COUNT)
    finished = []

    def evaluate_all() -> None:
        for one in individuals:
            weights = store.blobs.put_bytes(one.id.encode() * 5_000)
            store.finish_evaluation(
                lease, Evaluation(one.id, FIDELITY, 0, blobs={"weights": weights}, extra={"x": "y" * 8_000})
            )
            finished.append(one.id)

    with pytest.raises(DiskFullError, match="evodevo resume") as caught:
        evaluate_all()
    assert caught.value.exit_code == ExitCode.DISK_FULL
    assert [row.individual_id for row in store.evaluations(state="done")] == finished
    assert store.check(deep=True).ok
    make_room()
    for one in individuals[len(finished) :]:
        weights = store.blobs.put_bytes(one.id.encode() * 5_000)
        assert store.finish_evaluation(lease, Evaluation(one.id, FIDELITY, 0, blobs={"weights": weights}))
    assert len(store.evaluations(state="done")) == COUNT
    assert store.check(deep=True).ok
    return len(finished)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command here")
    if done.returncode != 0:
        pytest.skip(f"a small disk needs the right to mount one: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_on_a_disk_of_three_megabytes(small_disk: Path) -> None:
    def make_room() -> None:
        subprocess.run(["mount", "-o", "remount,size=30m", str(small_disk)], check=True)

    with Store.open(small_disk / "runs") as store:
        assert 0 < _fill_and_go_on(store, make_room) < COUNT


@pytest.mark.parametrize("room", range(0, 400_000, 100_000))
def test_with_any_room_that_is_left(small_disk: Path, room: int) -> None:
    with Store.open(small_disk / "runs") as store:
        lease, (one, *_) = grown(store)
        # What is left on the disk decides which of our writes fails first.
        free = os.statvfs(small_disk)
        (small_disk / "ballast").write_bytes(b"\0" * max(0, free.f_bavail * free.f_frsize - room))

        def add(slot: int) -> int:
            child = newborn(lease.run_id, f"1/{slot}", (one.id,), details={"x": "y" * 5000})
            return store.add_individuals(lease, [child])

        with pytest.raises(DiskFullError):
            sum(add(slot) for slot in range(1000))
        (small_disk / "ballast").unlink()
        assert store.check(deep=True).ok
        assert store.add_individuals(lease, [newborn(lease.run_id, "2/0")]) == 1
    with Store.open(small_disk / "runs", "ro") as store:
        assert store.check(deep=True).ok


def test_with_no_room_to_open_it(small_disk: Path) -> None:
    """Found by ``benchmarks/faults/disk.py``: the index of the write-ahead log takes 32 kB, also of ``store gc``."""
    with Store.open(small_disk / "runs") as store:
        assert store.check().ok
    free = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(b"\0" * (free.f_bavail * free.f_frsize - 4096))
    with pytest.raises(DiskFullError, match="by other means"), Store.open(small_disk / "runs") as store:
        store.gc()
    (small_disk / "ballast").unlink()
    with Store.open(small_disk / "runs") as store:
        assert store.check(deep=True).ok


def test_when_sqlite_may_not_grow(tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs") as store:

        def pages(count: int) -> None:
            # One connection is in the pool; the limit belongs to it.
            with store._database.driver() as driver:
                driver.execute(f"PRAGMA max_page_count = {count}")

        pages(100)
        _fill_and_go_on(store, lambda: pages(100_000))


def test_under_a_limit_of_file_size(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with Store.open(tmp_path / "runs") as store:
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
            _fill_and_go_on(store, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize(("call", "number"), [("fsync", errno.ENOSPC), ("open", errno.EDQUOT), ("mkdir", errno.ENOSPC)])
def test_a_blob_that_does_not_fit_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    with Store.open(tmp_path / "runs") as store:
        # The folders are there, so that a file is the first thing that fails (but for the fan-out folder of mkdir).
        first = store.blobs.put_bytes(b"first")

        def full(*_: object, **__: object) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            with pytest.raises(DiskFullError):
                store.blobs.put_bytes(b"weights")
        assert list(store.blobs.digests()) == [first]
        assert [path.name for path in (tmp_path / "runs/blobs").rglob("*") if path.is_file()] == [first]
        assert store.blobs.get(store.blobs.put_bytes(b"weights")) == b"weights"


def test_any_other_error_of_the_disk_is_not_called_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path / "runs") as store:

        def broken(descriptor: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", broken)
            with pytest.raises(OSError, match="Input/output") as caught:
                store.blobs.put_bytes(b"weights")
        assert not isinstance(caught.value, DiskFullError)
