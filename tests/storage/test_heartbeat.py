"""A lease is held by whoever lives, however busy, and by nobody else."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evodevo.errors import RunOwnedError
from evodevo.storage import Lease, Store, leases
from evodevo.storage.heartbeat import Heartbeat
from evodevo.testing.storages import new_run
from storage.coordinator import hold_alive
from storage.forks import forked

INTERVAL_SECONDS = 0.05
pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs") as store:
        store._heartbeat = Heartbeat(tmp_path / "runs" / "store.db", INTERVAL_SECONDS)
        yield store


def beats(store: Store, lease: Lease) -> int:
    with store._database.reading() as connection:
        row = leases._row(connection, lease.run_id)
    assert row is not None
    return int(row.heartbeat)


def wait_for(store: Store, lease: Lease, number: int) -> None:
    while beats(store, lease) < number:
        time.sleep(0.01)


def test_a_busy_owner_keeps_its_run_and_a_dead_one_loses_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    # As from another machine, which sees the heartbeat alone.
    monkeypatch.setattr(leases, "GLANCE_SECONDS", 0.01)
    monkeypatch.setattr(leases, "is_alive", lambda owner, one_kernel: None)
    run_id = new_run(store)
    with forked(hold_alive, store.folder, run_id, INTERVAL_SECONDS) as first:
        assert first.out.readline() == "held 1\n"
        os.kill(first.pid, signal.SIGSTOP)  # as busy as can be
        with pytest.raises(RunOwnedError):
            store.acquire(run_id, patience=60.0)
        first.kill()
        # Its fork still has the other end of the heartbeat's input.
        assert store.acquire(run_id, patience=3.0).token == 2


def test_the_heartbeat_of_a_released_lease_rests(store: Store) -> None:
    first, second = (store.acquire(new_run(store)) for _ in range(2))
    store.keep_alive(first)
    store.keep_alive(second)
    wait_for(store, first, 2)
    store.release(first)
    first = store.acquire(first.run_id)
    wait_for(store, second, beats(store, second) + 3)
    assert beats(store, first) == 0


def test_a_lease_that_was_taken_over_is_no_longer_advanced(store: Store) -> None:
    old, other = (store.acquire(new_run(store)) for _ in range(2))
    with store._database.writing() as connection:
        connection.execute(leases.lease_table.update().values(pid=2**22 + 1))  # beyond any pid: the holder is dead
    new = store.acquire(old.run_id)
    assert new.token == old.token + 1
    store.keep_alive(old)
    store.keep_alive(other)
    wait_for(store, other, 3)
    assert beats(store, new) == 0


def test_its_process_ends_with_the_last_lease_and_is_replaced_where_it_was_killed(store: Store) -> None:
    first, second = (store.acquire(new_run(store)) for _ in range(2))
    heartbeat = store._heartbeat
    assert heartbeat is not None
    store.keep_alive(first)
    killed = heartbeat._process
    assert killed is not None
    killed.kill()
    killed.wait()
    store.keep_alive(second)
    process = heartbeat._process
    assert process is not None
    wait_for(store, first, 1)
    store.release(first)
    assert heartbeat._process is process
    store.release(second)
    assert heartbeat._process is None
    assert process.returncode is not None


def test_a_store_in_memory_needs_none() -> None:
    with Store.memory() as store:
        store.keep_alive(store.acquire(new_run(store)))
        assert store._heartbeat is None
