"""What a database on a server can do to a run: die, be cut off, lose an answer, be asked by many at once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from evodevo.errors import EvodevoError, RunOwnedError
from evodevo.storage import Evaluation, Score, Store
from evodevo.storage.blobs import FolderPool
from evodevo.storage.dialects.postgres import connecting as postgres_connecting
from evodevo.storage.dialects.postgres import database as dialect
from evodevo.testing.storages import FIDELITY, new_run, newborn
from evodevo.testing.stores import postgres
from evodevo.testing.stores.proxy import Loss, Proxy
from evodevo.testing.stores.searches import EVALUATIONS, record, search, write
from storage.coordinator import hold
from storage.coordinator import search as coordinate
from storage.forks import forked

pytestmark = pytest.mark.slow


@pytest.fixture
def proxy(postgres_server: postgres.Server) -> Iterator[Proxy]:
    with Proxy(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def address(postgres_server: postgres.Server, tmp_path: Path) -> str:
    """A store that knows where its blobs are: the server of forks keeps the environment that it was started with."""
    address = postgres_server.address(postgres_server.schema())
    Store.open(address, blobs=tmp_path / "blobs").close()
    return address


@pytest.fixture
def schema(address: str) -> str:
    return address.partition("csearch_path%3D")[2].partition("&")[0]


@pytest.fixture
def through(schema: str, proxy: Proxy) -> str:
    """The address of a store through a proxy."""
    return f"postgresql://{postgres.USER}@127.0.0.1:{proxy.port}/postgres?options=-csearch_path%3D{schema}"


@pytest.fixture
def own_server() -> Iterator[postgres.Server]:
    """A server that may be killed."""
    if reason := postgres.reason_to_skip():
        pytest.skip(reason)
    with postgres.server() as server:
        yield server


@pytest.mark.parametrize("what", ["request", "answer"])
def test_a_client_that_wrote_nothing_for_a_day_writes_once_too(through: str, proxy: Proxy, what: Loss) -> None:
    """Its row is swept away by whoever comes after a day; without it, it would not know what was committed."""
    import psycopg

    with Store.open(through) as store:
        lease = store.acquire(new_run(store))
        with psycopg.connect(through, autocommit=True) as beside:
            beside.execute("UPDATE client SET seen = seen - interval '25 hours'")
        with Store.open(through) as other:
            new_run(other)
        proxy.lose_commit(what)
        store.add_event(lease, "tick", "0", {})
        assert [event.type for event in store.events(lease.run_id)].count("tick") == 1


@pytest.mark.parametrize("what", ["request", "answer"])
def test_a_commit_without_an_answer_is_done_once(through: str, proxy: Proxy, what: Loss) -> None:
    with Store.open(through) as store:

        def losing(write: Callable[[], object]) -> object:
            before = proxy.lost
            proxy.lose_commit(what)
            answer = write()
            assert proxy.lost == before + 1
            return answer

        run_id = losing(lambda: new_run(store))
        assert [run.id for run in store.runs()] == [run_id]
        assert isinstance(run_id, str)
        lease = store.acquire(run_id)
        store.release(lease)
        proxy.lose_commit(what)
        lease = store.acquire(run_id)
        assert lease.token == 2
        born = newborn(run_id, "0/0")
        assert losing(lambda: store.add_individuals(lease, [born])) == 1
        assert losing(lambda: store.start_evaluation(lease, born.id, FIDELITY, 0)) == 1
        outcome = Evaluation(born.id, FIDELITY, 0, scores={"loss": Score(1.0)})
        assert losing(lambda: store.finish_evaluation(lease, outcome)) is True
        losing(lambda: store.add_event(lease, "tick", "0", {}))
        kinds = Counter(event.type for event in store.events(run_id))
        assert kinds == {
            "run.created": 1,
            "individuals.added": 1,
            "evaluation.started": 1,
            "evaluation.finished": 1,
            "tick": 1,
        }
        assert store.check(deep=True).ok


def test_a_cut_connection_is_made_anew_for_reading_and_writing(through: str, proxy: Proxy) -> None:
    with Store.open(through) as store:
        lease = store.acquire(new_run(store))
        for number in range(3):
            proxy.cut()
            store.add_event(lease, "tick", str(number), {})
            proxy.cut()
            assert [event.subject for event in store.events(lease.run_id)[1:]] == [
                str(each) for each in range(number + 1)
            ]


def test_a_network_that_swallows_everything_is_noticed(
    through: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connecting, "ANSWER_SECONDS", 0.3)
    with Store.open(through) as store:
        lease = store.acquire(new_run(store))
        proxy.stalled = True

        def recover() -> None:
            proxy.cut()
            proxy.stalled = False

        timer = threading.Timer(1.0, recover)
        timer.start()
        store.add_event(lease, "tick", "0", {})
        timer.join()
        assert [event.subject for event in store.events(lease.run_id)[1:]] == ["0"]


def test_a_server_that_stays_away_ends_with_a_sentence(
    through: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect, "LOST_SECONDS", 0.3)
    with Store.open(through) as store:
        lease = store.acquire(new_run(store))
        proxy.refusing = True
        proxy.cut()
        for ask in (store.runs, lambda: store.heartbeat(lease)):
            with pytest.raises(EvodevoError, match="cannot be reached"):
                ask()
        proxy.refusing = False
        store.heartbeat(lease)


def test_a_lease_that_was_lost_while_the_server_was_away_stays_lost(address: str, through: str, proxy: Proxy) -> None:
    with Store.open(through) as store, Store.open(address) as other:
        lease = store.acquire(new_run(store))
        proxy.cut()
        with other._database.writing() as connection:
            connection.exec_driver_sql("UPDATE lease SET pid = 4194305")  # beyond any pid: the holder is dead
        other.acquire(lease.run_id)
        with pytest.raises(RunOwnedError, match="no longer owns"):
            store.add_event(lease, "tick", "0", {})


def test_gc_that_loses_its_connection_asks_anew_before_the_next_blob(
    address: str, through: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(address) as other, Store.open(through) as store:
        lease = other.acquire(new_run(other))
        blobs = sorted(other.blobs.put_bytes(bytes([number])) for number in range(4))
        deleted: list[str] = []

        def remove(digest: str) -> None:
            FolderPool.remove(store.blobs, digest)  # type: ignore[arg-type]
            deleted.append(digest)
            if len(deleted) == 1:
                proxy.cut()
                other.attach_blobs(lease, {"tokenizer": blobs[1]})  # waits until the server has ended the transaction

        monkeypatch.setattr(store.blobs, "remove", remove)
        report = store.gc(grace_seconds=0)
        assert other.blobs.get(blobs[1])
        assert report.blobs == tuple(deleted) == (blobs[0], blobs[2], blobs[3])
        assert report.bytes == 3
        assert other.check(deep=True).ok


def test_repair_that_loses_its_connection_moves_no_blob(
    address: str, through: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(through) as store:
        lease = store.acquire(new_run(store))
        digest = store.blobs.put_bytes(b"weights")
        store.attach_blobs(lease, {"tokenizer": digest})
        store.release(lease)
        path = store.blobs.path(digest)
        path.write_bytes(b"damaged")

        def verify(digest: str) -> str | None:
            wrong = FolderPool.verify(store.blobs, digest)  # type: ignore[arg-type]
            if not store.run_blobs(lease.run_id):  # the last look, after the reference was released
                proxy.cut()
            return wrong

        monkeypatch.setattr(store.blobs, "verify", verify)
        with pytest.raises(EvodevoError):
            store.repair()
        assert path.exists()


def test_a_killed_server_costs_a_search_nothing(own_server: postgres.Server, tmp_path: Path) -> None:
    Store.open(tmp_path / "runs").close()
    with Store.open(tmp_path / "runs") as store:
        expected = record(store, search(str(tmp_path / "runs"), 3))
    address = own_server.address(own_server.schema())
    Store.open(address, blobs=tmp_path / "blobs").close()
    with forked(search_slowly, address, 3) as process:
        run_id = process.out.readline().split()[1]
        finished = [process.out.readline().split()[1] for _ in range(5)]
        own_server.kill()
        time.sleep(0.3)
        own_server.start()
        code, rest = process.end()
        assert code == 0, rest
    finished += [line.split()[1] for line in rest.splitlines() if line.startswith("finished")]
    with Store.open(address) as store:
        assert store.check(deep=True).ok
        assert record(store, run_id) == expected
        done = [row.individual_id for row in store.evaluations(run_id, state="done")]
        assert sorted(done) == sorted(set(done)) == sorted(finished)
        assert len(done) == EVALUATIONS


def search_slowly(place: str, seed: int) -> None:
    """The search, in a process of its own."""
    search(place, seed, pause=0.05)


@pytest.mark.parametrize("point", ["before_individuals", "after_individuals", "before_evaluation_commit"])
def test_a_killed_coordinator_loses_nothing(address: str, point: str) -> None:
    with Store.open(address) as store:
        run_id = new_run(store)
    with forked(coordinate, address, run_id, failpoint=f"{point}:kill@2") as process:
        code, out = process.end()
        assert code == -9, out
    told = [line.split()[1] for line in out.splitlines() if line.startswith("finished")]
    with Store.open(address, "ro") as store:
        assert set(told) <= {row.individual_id for row in store.evaluations(run_id, state="done")}
    with forked(coordinate, address, run_id) as process:
        code, out = process.end()
        assert (code, out.endswith("end\n")) == (0, True), out
    with Store.open(address) as store:
        store.check(deep=True).require()
        done = store.evaluations(run_id, state="done")
        assert len(done) == len({row.individual_id for row in done}) == 9


def test_of_two_coordinators_one_works_and_the_other_is_refused(address: str) -> None:
    with Store.open(address) as store:
        run_id = new_run(store)
    with ExitStack() as stack:
        processes = [stack.enter_context(forked(hold, address, run_id)) for _ in range(2)]
        answers = [process.out.readline() for process in processes]
        assert answers.count("held 1\n") == 1
        (refused,) = (process for process, answer in zip(processes, answers, strict=True) if answer != "held 1\n")
        assert "is open in process" in refused.out.read()


def test_eight_clients_write_beside_each_other(address: str) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(forked(write, address, 4)) for _ in range(8)]
        assert [process.end() for process in processes] == [(0, "")] * 8
    with Store.open(address) as store:
        assert store.check(deep=True).ok
        runs = store.runs()
        assert [run.state for run in runs] == ["finished"] * 8
        for run in runs:
            values = [row.scores["loss"].value for row in store.evaluations(run.id)]
            assert values == [float(number) for number in range(4)]
        assert [event.seq for event in store.events()] == sorted({event.seq for event in store.events()})
