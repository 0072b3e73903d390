"""Several processes at one store, and kill -9 at every named point."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from evodevo.errors import ExitCode, RunOwnedError, UsageError
from evodevo.storage import Evaluation, Store, failpoints, leases, liveness
from evodevo.storage.base import sha256
from evodevo.storage.schema import lease_table
from evodevo.testing.storages import new_run, newborn
from storage.coordinator import hold, search, write
from storage.forks import forked


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def run_id(folder: Path) -> str:
    with Store.open(folder) as store:
        return new_run(store)


def test_the_second_process_is_refused_and_takes_over_at_once_when_the_first_is_killed(
    folder: Path, run_id: str
) -> None:
    with forked(hold, folder, run_id) as first:
        assert first.out.readline() == "held 1\n"
        with forked(hold, folder, run_id) as second:
            assert f"is open in process {first.pid}" in second.refusal()
        with Store.open(folder) as store:
            owner = store.owner(run_id)
            assert owner is not None
            assert owner.pid == first.pid
            with pytest.raises(RunOwnedError, match=f"process {first.pid}") as caught:
                store.acquire(run_id)
            assert caught.value.exit_code == ExitCode.RUN_OWNED
            os.kill(first.pid, signal.SIGSTOP)  # slow is not dead
            with pytest.raises(RunOwnedError):
                store.acquire(run_id)
            first.kill()
            assert store.owner(run_id) is None
            assert store.acquire(run_id).token == 2


@pytest.mark.slow
def test_a_zombie_is_dead(folder: Path, run_id: str) -> None:
    code = "import sys; from evodevo.storage import Store; store = Store.open(sys.argv[1]); store.acquire(sys.argv[2])"
    command = [sys.executable, "-c", f"{code}; print('held', flush=True); sys.stdin.read()", str(folder), run_id]
    pipes: Any = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, **pipes) as first, Store.open(folder) as store:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        os.kill(first.pid, signal.SIGKILL)
        first.stdout.read()  # its end of the pipe has closed; nobody has waited for it yet
        while Path(f"/proc/{first.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)  # it closes its files a moment before it is dead
        assert store.acquire(run_id).token == 2


def test_a_holder_that_was_overtaken_writes_nothing(folder: Path, run_id: str) -> None:
    with Store.open(folder) as store:
        old = store.acquire(run_id)
        with store._database.writing() as connection:
            connection.execute(update(lease_table).values(pid=2**22 + 1))  # beyond any pid: the holder is dead
        new = store.acquire(run_id)
        assert new.token == old.token + 1
        with pytest.raises(RunOwnedError, match="no longer owns"):
            store.add_individuals(old, [newborn(run_id, "0/0")])
        assert store.individuals(run_id) == []
        store.add_individuals(new, [newborn(run_id, "0/0")])


def test_of_many_that_start_at_once_one_works(folder: Path, run_id: str) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(forked(hold, folder, run_id)) for _ in range(4)]
        answers = [process.out.readline() for process in processes]
        assert answers.count("held 1\n") == 1, "the others begin to tell their error"
        assert all(not answer.startswith("held") or answer == "held 1\n" for answer in answers)


@pytest.mark.slow
def test_writers_of_many_runs_wait_for_each_other(folder: Path) -> None:
    # Each of these reads before it writes: with a plain BEGIN, SQLite refuses some of them at once.
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with Store.open(folder) as store:
                for _ in range(12):
                    lease = store.acquire(new_run(store))
                    store.change_settings(lease, {"x": 1})
                    store.release(lease)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with Store.open(folder, "ro") as store:
        assert [run.settings for run in store.runs()] == [{"x": 1}] * 48


# Owners that cannot be judged by pid


def _pretend(store: Store, run_id: str, **columns: Any) -> None:
    with store._database.writing() as connection:
        connection.execute(update(lease_table).where(lease_table.c.run_id == run_id).values(**columns))


def test_an_owner_before_the_last_boot_is_dead_on_a_local_disk(folder: Path, run_id: str) -> None:
    with Store.open(folder) as store:
        store.acquire(run_id)
        _pretend(store, run_id, boot="another boot")
        assert store.acquire(run_id).token == 2


def test_an_owner_with_a_reused_pid_is_dead(folder: Path, run_id: str) -> None:
    with Store.open(folder) as store:
        store.acquire(run_id)
        _pretend(store, run_id, start=1)
        assert store.acquire(run_id).token == 2


@pytest.mark.parametrize("elsewhere", ["container", "machine"])
def test_an_owner_elsewhere_is_judged_by_its_heartbeat(
    folder: Path, run_id: str, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "GLANCE_SECONDS", 0.01)
    with Store.open(folder) as store, Store.open(folder) as other:
        lease = store.acquire(run_id)
        if elsewhere == "container":
            _pretend(store, run_id, namespace="pid:[1]")
        else:
            other._one_kernel = False
            _pretend(store, run_id, boot="another machine")
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(0.005):
                store.heartbeat(lease)

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            with pytest.raises(RunOwnedError):
                other.acquire(run_id, patience=5.0)
        finally:
            stop.set()
            thread.join()
        assert other.acquire(run_id, patience=0.05).token == lease.token + 1


def test_this_process_lives_and_another_start_time_does_not() -> None:
    me = liveness.this_process()
    assert me == liveness.this_process()
    assert liveness.is_alive(me, one_kernel=True) is True
    assert liveness.is_alive(replace(me, start=me.start + 1), one_kernel=True) is False
    assert liveness.is_alive(replace(me, pid=2**22 + 1), one_kernel=True) is False
    assert liveness.is_alive(replace(me, boot="x"), one_kernel=False) is None
    assert liveness.is_alive(replace(me, namespace="x"), one_kernel=True) is None


# Readers beside a writer


def test_readers_see_one_moment_while_a_writer_writes(folder: Path, run_id: str) -> None:
    with forked(write, folder, run_id) as writer:
        writer.out.readline()
        with Store.open(folder, "ro") as store:
            seen = 0
            reads, patience = 0, time.monotonic() + 60
            while reads < 50 or (seen < 2 and time.monotonic() < patience):
                reads += 1
                events = [event for event in store.events(run_id) if event.type == "tick"]
                assert [event.subject for event in events] == [str(number) for number in range(len(events))]
                assert len(events) >= seen
                seen = len(events)
            assert seen > 1
            with pytest.raises(UsageError, match="reading only"):
                store.create_run("evolve", "r", {}, 0)
        writer.kill()
    # A crashed store, its WAL not yet folded in, opens for reading and loses nothing that was seen.
    with Store.open(folder, "ro") as store:
        assert len([event for event in store.events(run_id) if event.type == "tick"]) >= seen
        assert store.check(deep=True).ok


# Kill points

FULL = [f"{generation}/{slot}" for generation in range(3) for slot in range(3)]


def _kill_and_look(folder: Path, run_id: str, failpoint: str) -> list[str]:
    with forked(search, folder, run_id, failpoint=failpoint) as process:
        code, out = process.end()
        assert code == -signal.SIGKILL, out
    with Store.open(folder, "ro") as store:
        store.check(deep=True).require()
        finished = {row.individual_id for row in store.evaluations(run_id, state="done")}
        told = [line.split()[1] for line in out.splitlines() if line.startswith("finished")]
        assert set(told) <= finished
        births = [row.birth for row in store.individuals(run_id)]
        assert len(births) % 3 == 0  # a generation is there whole or not at all
        assert births == FULL[: len(births)]
        return told


@pytest.mark.parametrize("point", failpoints.POINTS)
def test_a_kill_at_any_point_loses_nothing_and_the_search_goes_on_to_the_same_end(
    folder: Path, run_id: str, point: str
) -> None:
    for count in (1, 2):
        # The second process resumes what the first left, and is killed in its turn.
        with Store.open(folder, "ro") as store:
            if len(store.evaluations(run_id, state="done")) < 9:
                _kill_and_look(folder, run_id, f"{point}:kill@{count}")
    with forked(search, folder, run_id) as process:
        code, out = process.end()
        assert code == 0, out
        assert out.endswith("end\n")
    with Store.open(folder) as store:
        store.check(deep=True).require()
        done = store.evaluations(run_id, state="done")
        rows = store.individuals(run_id)
        assert [row.birth for row in rows] == FULL
        assert sorted(row.individual_id for row in done) == sorted(row.id for row in rows)
        assert [store.blobs.get(row.blobs["weights"]) for row in done] == [
            store.individual(row.individual_id).birth.encode() * 50_000 for row in done
        ]
        generations = [event.subject for event in store.events(run_id) if event.type == "generation"]
        assert generations == ["0", "1", "2"]
        # What a kill left half-made is only litter, and gc knows it.
        store.gc(grace_seconds=0)
        assert not list((folder / "blobs" / "temporary").iterdir())
        assert len(list(store.blobs.digests())) == 9
        assert store.check(deep=True).ok


def test_a_row_before_its_blob_would_be_caught(folder: Path, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests above would be worthless if check could not fail: here the wrong order is made on purpose.
    with Store.open(folder) as store:
        lease = store.acquire(run_id)
        store.add_individuals(lease, [newborn(run_id, "0/0")])
        monkeypatch.setattr(store.blobs, "size", lambda digest: 5)
        one = store.individuals(run_id)[0].id
        store.finish_evaluation(lease, Evaluation(one, "quick", 0, blobs={"weights": sha256(b"never")}))
        monkeypatch.undo()
        assert [problem.message for problem in store.check().problems] == ["the file is missing"]


def test_a_failpoint_can_only_kill_and_says_what_it_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_passes", {})
    for value in (None, "after_individuals:kill@2", "after_blob_rename:kill@1"):
        monkeypatch.setattr(failpoints, "_armed", value)
        failpoints.failpoint("after_individuals")
    for value, answer in [
        ("after_individuals:exec@1", "needs name:kill@count"),
        ("after_individuals:kill@0", "needs name:kill@count"),
        ("after_individual:kill@1", "Did you mean 'after_individuals'"),
    ]:
        monkeypatch.setattr(failpoints, "_armed", value)
        with pytest.raises(UsageError, match=answer):
            failpoints.failpoint("after_individuals")
