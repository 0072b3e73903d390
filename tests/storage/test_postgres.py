"""Stores in PostgreSQL: the conformance suite, a schema that is ours, addresses without passwords, copies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from evodevo.errors import (
    EvodevoError,
    ExitCode,
    MissingExtraError,
    NotFoundError,
    RunOwnedError,
    StoreDamagedError,
    StoreVersionError,
    UsageError,
)
from evodevo.storage import Evaluation, Score, Store, leases, moving
from evodevo.storage.addresses import ServerAddress, place
from evodevo.storage.dialects.postgres import schema as postgres_schema
from evodevo.storage.dialects.postgres.database import PostgresDatabase
from evodevo.storage.schema import VERSION_TABLE, metadata
from evodevo.testing.multitask.systems import new_agent, new_system
from evodevo.testing.storages import FIDELITY, StoreTests, grown, new_run
from evodevo.testing.stores import postgres

pytestmark = pytest.mark.slow
SECRET = "s3cret-W0rd"


class TestPostgresStore(StoreTests):
    @pytest.fixture(autouse=True)
    def _server(self, new_address: Callable[[], str]) -> None:
        self.new_address = new_address

    def make(self, folder: Path) -> Store:
        return Store.open(self.new_address(), blobs=folder / "blobs")


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    with Store.open(address) as store:
        yield store


def filled(store: Store) -> None:
    """Results, weights that are held and let go, a system with a cycle."""
    lease, individuals = grown(store, 3)
    for number, one in enumerate(individuals):
        blobs = {"weights": store.blobs.put_bytes(bytes([number]) * 3_000)}
        scores = {"loss": Score(0.1 * number), "cache": Score(None, "nan")}
        outcome = Evaluation(one.id, FIDELITY, 0, scores=scores, blobs=blobs, series={"loss": [(0.0, float("inf"))]})
        store.finish_evaluation(lease, outcome)
    store.release_blobs(lease, [outcome.id])
    store.release(lease)
    new_agent(store, new_system(store), "mnist").run_cycle()


def contents(store: Store) -> object:
    """What readers answer, for all runs."""
    assert store.check(deep=True).problems == ()
    runs = store.runs()
    rows = [
        (store.individuals(run.id), store.evaluations(run.id), store.events(run.id), store.run_blobs(run.id))
        for run in runs
    ]
    held = {digest: store.blobs.get(digest) for _, each, *_ in rows for row in each for digest in row.blobs.values()}
    curves = [store.series(row.id) for _, each, *_ in rows for row in each]
    return runs, rows, held, curves, store.systems.listing()


@contextmanager
def behind(address: str) -> Iterator[Any]:
    """A connection of another program."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


# Schema


def test_the_schema_is_the_recorded_one_and_that_of_the_tables(
    address: str, store: Store, postgres_server: postgres.Server
) -> None:
    recorded = json.loads(postgres_schema.EXPECTED.read_text(encoding="utf-8"))
    assert postgres.description(address) == recorded, "write it anew: python -m evodevo.testing.stores.postgres"
    other = postgres_server.address(postgres_server.schema())
    database = PostgresDatabase(ServerAddress(other), writable=True)
    with database.transaction("BEGIN") as connection:
        metadata.create_all(connection)
    database.close()
    kinds = ("table", "column", "index")  # constraints are written with or without needless brackets
    of_servers = ("client", "lease.renewed", VERSION_TABLE)
    made = {key: facts for key, facts in postgres.description(other).items() if key.startswith(kinds)}
    expected = {
        key: facts
        for key, facts in recorded.items()
        if key.startswith(kinds) and not key.split(" ", 1)[1].startswith(of_servers)
    }
    assert made == expected


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("CREATE VIEW v AS SELECT 1", "view v"),
        ("CREATE TABLE extra (x int)", "extra"),
        ("CREATE RULE r AS ON UPDATE TO score DO INSTEAD NOTHING", "score"),
        ("ALTER TABLE score DISABLE TRIGGER ALL", "foreign key"),
        ("DROP TRIGGER event_no_update ON event", "event_no_update"),
        ("ALTER TABLE event DISABLE TRIGGER event_no_delete", "event_no_delete"),
        ("CREATE TRIGGER t BEFORE INSERT ON score FOR EACH ROW EXECUTE FUNCTION evodevo_keep()", "score.t"),
        (
            "CREATE OR REPLACE FUNCTION evodevo_keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
            "evodevo_keep",
        ),
        ("CREATE FUNCTION abs(text) RETURNS int LANGUAGE sql AS 'SELECT 1'", "function abs"),
        ("ALTER TABLE score ENABLE ROW LEVEL SECURITY", "table score"),
        ("CREATE TABLE child () INHERITS (score)", "child"),
        ("ALTER TABLE score ALTER COLUMN value TYPE real", "score.value"),
        ("ALTER TABLE evaluation DROP CONSTRAINT evaluation_run_id_fkey", "evaluation FOREIGN KEY"),
        ("DROP INDEX evaluation_by_order", "evaluation_by_order"),
    ],
)
def test_a_schema_that_is_not_ours_is_refused(address: str, store: Store, statement: str, named: str) -> None:
    with behind(address) as connection:
        connection.execute(statement)
    for mode in ("ro", "rw"):
        with pytest.raises(StoreDamagedError) as caught:
            Store.open(address, mode)  # type: ignore[arg-type]
        assert named in str(caught.value)


def test_a_place_that_is_another_s_is_not_used(address: str, tmp_path: Path) -> None:
    with behind(address) as connection:
        connection.execute("CREATE TABLE theirs (x int)")
    for mode in ("rw", "ro"):
        with pytest.raises(StoreDamagedError, match="not an evodevo store"):
            Store.open(address, mode)  # type: ignore[arg-type]
    with behind(address) as connection:
        connection.execute("DROP TABLE theirs")
        connection.execute("CREATE FUNCTION theirs() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    with pytest.raises(UsageError, match="theirs"):
        Store.open(address)
    assert not (tmp_path / "shared blobs").exists()


def test_a_newer_store_is_refused(address: str, store: Store) -> None:
    with behind(address) as connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(StoreVersionError, match="9999"):
        Store.open(address)


def test_rows_are_kept_for_ever_and_changed_ones_are_noticed(address: str, store: Store) -> None:
    filled(store)
    for statement in ("DELETE FROM event", "UPDATE individual SET slot = 0", "TRUNCATE evaluation CASCADE"):
        with pytest.raises(UsageError, match="kept for ever"), store._database.writing() as connection:
            connection.execute(text(statement))
    with behind(address) as other:
        other.execute("UPDATE score SET value = 3.44 WHERE value = 0.1")
    (run, *_) = store.runs()
    with pytest.raises(StoreDamagedError, match="is not what evodevo wrote"):
        store.evaluations(run.id)
    assert not store.check(deep=True).ok
    assert len(store.repair().lost_evaluations) == 1
    assert store.check(deep=True).ok


def test_reading_ends_in_time(store: Store) -> None:
    with pytest.raises(StoreDamagedError, match="did not end"), store._database.reading(0.05) as connection:
        connection.execute(text("SELECT pg_sleep(30)"))
    assert store.runs() == []


# Places


def test_blobs_lie_where_the_store_says_and_in_no_other_s_folder(
    new_address: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVODEVO_BLOBS")
    address = new_address()
    with pytest.raises(UsageError, match="--blobs"):
        Store.open(address)
    with pytest.raises(NotFoundError, match="no store"):
        Store.open(address, create=False)
    Store.open(tmp_path / "runs").close()
    with pytest.raises(UsageError, match="not empty"):
        Store.open(address, blobs=tmp_path / "runs")
    with Store.open(address, blobs=tmp_path / "one") as store:
        filled(store)
        assert store.blobs_folder == tmp_path / "one"
    with Store.open(address, "ro") as store:
        assert store.check(deep=True).ok
    (tmp_path / "one").rename(tmp_path / "moved")
    with pytest.raises(NotFoundError, match="does not hold the blobs"):
        Store.open(address)
    with Store.open(new_address(), blobs=tmp_path / "other"), pytest.raises(NotFoundError, match="does not hold"):
        Store.open(address, blobs=tmp_path / "other")
    with Store.open(address, blobs=tmp_path / "moved") as store:
        assert store.check(deep=True).ok


def test_a_password_is_never_printed_nor_stored(
    postgres_server: postgres.Server, new_address: Callable[[], str], capfd: pytest.CaptureFixture[str]
) -> None:
    address = new_address().replace("evodevo@/", f"evodevo:{SECRET}@/")  # trusted: any password will do
    with Store.open(address) as store:
        filled(store)
        store.keep_alive(store.acquire(new_run(store)))
        shown = [str(store.place), repr(store.place), store._database.place]
        with behind(address) as connection:
            for table in metadata.sorted_tables:
                shown += map(str, connection.execute(f'SELECT * FROM "{table.name}"').fetchall())
            shown += map(str, connection.execute("SELECT query, application_name FROM pg_stat_activity").fetchall())
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                shown.append(process.read_bytes().decode(errors="replace"))
            except OSError:
                continue
    port = postgres_server.port
    for wrong in (
        f"postgresql://evodevo:{SECRET}@127.0.0.1:1/postgres",
        f"postgresql://evodevo:{SECRET}@127.0.0.1:{port}/nowhere",
        f"postgresql://evodevo:{SECRET}@127.0.0.1:x{SECRET}/postgres",
        f"postgresql://evodevo:a@{SECRET}@127.0.0.1:{port}/postgres",
        f"postgresql://evodevo:{SECRET}/postgres",
        f"postgresql://evodevo@127.0.0.1:{port}/nowhere?password={SECRET}",
        f"postgresql://evodevo@127.0.0.1:{port}/nowhere?passwort={SECRET}",
    ):
        with pytest.raises((EvodevoError, MissingExtraError)) as caught:
            Store.open(wrong)
        shown += [str(caught.value), repr(caught.value), str(place(wrong))]
    out = capfd.readouterr()
    assert [each for each in [*shown, out.out, out.err] if SECRET in each] == []


def test_an_address_that_became_a_path_is_refused() -> None:
    with pytest.raises(UsageError, match="as text"):
        place(Path("postgresql://user@host/base"))
    assert place("runs") == Path("runs")
    address = ServerAddress("postgresql://user:word@host:5432/base?password=x&sslmode=require")
    assert address == "postgresql://user@host:5432/base?password=***&sslmode=require"
    assert address.whole.count("word") == 2
    assert place(address) is address


# Copies


def test_a_store_moves_to_a_server_and_back(address: str, new_address: Callable[[], str], tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs") as store:
        filled(store)
        before = contents(store)
    to_server = moving.copy(tmp_path / "runs", place(address))
    with Store.open(address) as store:
        assert contents(store) == before
        last = store.events()[-1].seq
        lease = store.acquire(store.runs()[0].id)
        assert store.add_event(lease, "x", "y", {}) > last, "numbers go on"
        after = contents(store)
    back = moving.copy(place(address), tmp_path / "again")
    assert to_server.blobs == back.blobs
    with Store.open(tmp_path / "again") as store:
        assert contents(store) == after
        assert store.acquire(store.runs()[0].id).token > lease.token
    moving.pack(place(address), tmp_path / "runs.evo")
    moving.unpack(tmp_path / "runs.evo", tmp_path / "unpacked")
    with Store.open(tmp_path / "unpacked", "ro") as store:
        assert contents(store) == after
    other = place(new_address())
    moving.copy(place(address), other, blobs=tmp_path / "other blobs")
    with Store.open(other, blobs=tmp_path / "other blobs") as store:
        assert contents(store) == after
    with pytest.raises(UsageError, match="holds runs already"):
        moving.copy(tmp_path / "runs", other, blobs=tmp_path / "other blobs")


def test_a_damaged_store_is_not_copied(address: str, tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs") as store:
        filled(store)
        with store._database.driver() as driver:  # type: ignore[attr-defined]
            driver.execute("UPDATE score SET value = 9.0 WHERE value IS NOT NULL")
    with pytest.raises(StoreDamagedError, match="damaged"):
        moving.copy(tmp_path / "runs", place(address))
    with Store.open(address) as store:
        assert store.events() == []


# Leases


def test_an_owner_elsewhere_is_judged_by_the_server_s_clock(
    address: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "GLANCE_SECONDS", 0.01)
    monkeypatch.setattr(leases, "is_alive", lambda owner, one_kernel: None)
    run_id = new_run(store)
    lease = store.acquire(run_id)
    with Store.open(address) as other:
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(0.005):
                store.heartbeat(lease)

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            with pytest.raises(RunOwnedError):
                other.acquire(run_id, patience=10.0)
        finally:
            stop.set()
            thread.join()
        time.sleep(0.1)
        # It has not been confirmed for longer than this: nothing is waited for.
        monkeypatch.setattr(leases.time, "sleep", lambda seconds: pytest.fail("the server's clock says enough"))
        taken = other.acquire(run_id, patience=0.05)
        assert taken.token == lease.token + 1
        with pytest.raises(RunOwnedError, match="no longer owns"):
            store.heartbeat(lease)


# Command line


def test_commands_take_the_address_and_show_no_password(
    new_address: Callable[[], str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from evodevo.cli.application import run

    with Store.open(tmp_path / "runs") as store:
        filled(store)
    address = new_address().replace("evodevo@/", f"evodevo:{SECRET}@/")
    blobs = str(tmp_path / "shared blobs")
    assert run(["store", "copy", str(tmp_path / "runs"), address, "--blobs", blobs, "--json"]) == ExitCode.SUCCESS
    for command in (["store", "check"], ["store", "gc"], ["store", "repair"], ["extend", "status"]):
        assert run([*command, "--store", address, "--json"]) == ExitCode.SUCCESS, command
    assert run(["store", "backup", "--store", address]) == ExitCode.USAGE
    assert run(["front", "last", "--store", address.replace("csearch", "cno_search")]) != ExitCode.SUCCESS
    assert run(["store", "copy", address, str(tmp_path / "again")]) == ExitCode.SUCCESS
    out = capfd.readouterr()
    assert "postgresql://evodevo@/postgres" in out.out + out.err
    assert SECRET not in out.out + out.err
