"""No row can be changed, taken away or added without being noticed by whoever reads it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from evodevo.errors import StoreDamagedError
from evodevo.storage import Evaluation, Score, Store
from evodevo.testing.storages import FIDELITY, grown, newborn

CHANGES = {
    "a score": "UPDATE score SET value = value / 2 WHERE rowid = 2",
    "a score gone": "DELETE FROM score WHERE rowid = 1",
    "a score more": "INSERT INTO score SELECT evaluation_id, 'speed', 1.0, 'ok' FROM score LIMIT 1",
    "a score's meaning": "UPDATE score SET objective = 'lost' WHERE rowid = 1",
    "a state": "UPDATE evaluation SET state = 'failed', reason = 'oom' WHERE rowid = 1",
    "a cost": "UPDATE evaluation SET cost = '{\"parameters\":1}' WHERE rowid = 2",
    "seconds": "UPDATE evaluation SET seconds = seconds + 1",
    "an order": "UPDATE evaluation SET finished_seq = finished_seq + 1 WHERE rowid = 1",
    "an evaluation gone": "DELETE FROM evaluation WHERE rowid = 3",
    "a genome": "UPDATE individual SET genome_envelope = '{}' WHERE rowid = 1",
    "a birth's generation": "UPDATE individual SET generation = 7 WHERE rowid = 1",
    "a parent": "UPDATE parentage SET parent_id = (SELECT id FROM individual WHERE rowid = 3) WHERE rowid = 1",
    "a parent gone": "DELETE FROM parentage WHERE rowid = 1",
    "an individual gone": "DELETE FROM individual WHERE birth = '1/0'",
    "a payload": "UPDATE event SET payload = '{}' WHERE seq = 2",
    "an event gone": "DELETE FROM event WHERE seq = 3",
    "two events in another order": "UPDATE event SET seq = 99 WHERE seq = 3",
    "settings": "UPDATE run SET settings = '{}'",
    "a seed": "UPDATE run SET seed = 3",
    "a run's state": "UPDATE run SET state = 'failed'",
    "a run gone": "DELETE FROM run",
    "a curve": "UPDATE series SET points = zeroblob(32) WHERE rowid = 1",
    "a curve gone": "DELETE FROM series WHERE rowid = 1",
    "weights let go": "UPDATE blob_reference SET released = 1 WHERE rowid = 1",
    "weights of another": "UPDATE blob_reference SET digest = (SELECT max(digest) FROM blob) WHERE rowid = 1",
    "a reference gone": "DELETE FROM blob_reference WHERE rowid = 2",
    "a seal": "UPDATE seal SET digest = digest || '0' WHERE kind = 'evaluation'",
    "a seal gone": "DELETE FROM seal WHERE kind = 'individual'",
    "bytes for text": "UPDATE individual SET operation = x'ff00' WHERE rowid = 1",
    "text that is none": "UPDATE individual SET operation = CAST(x'ff' AS TEXT) WHERE rowid = 1",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with four individuals, three of them scored, with curves and weights."""
    folder = tmp_path_factory.mktemp("whole") / "runs"
    with Store.open(folder) as store:
        lease, individuals = grown(store, 3)
        store.add_individuals(lease, [newborn(lease.run_id, "1/0", [one.id for one in individuals[:2]])])
        for place, one in enumerate(individuals):
            digest = store.blobs.put_bytes(bytes([place + 1]) * 50)
            store.start_evaluation(lease, one.id, FIDELITY, 0)
            outcome = Evaluation(
                one.id,
                FIDELITY,
                0,
                scores={"loss": Score(1.0 + place), "size": Score(3.0)},
                blobs={"weights": digest},
                series={"loss": [(0.0, 1.0), (1.0, 0.5)]},
            )
            store.finish_evaluation(lease, outcome)
        store.attach_blobs(lease, {"tokenizer": store.blobs.put_bytes(b"tokens")})
        store.finish_run(lease, "finished")
    return folder


def change(folder: Path, statement: str) -> None:
    """Change a database behind the back of its triggers, keys and constraints."""
    with closing(sqlite3.connect(folder / "store.db", isolation_level=None)) as database:
        triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        database.execute("PRAGMA ignore_check_constraints=ON")
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
        database.text_factory = lambda raw: raw.decode(errors="backslashreplace")
        before = list(database.iterdump())
        database.execute(statement)
        assert list(database.iterdump()) != before, "a statement that changes nothing proves nothing"
        for _, sql in triggers:
            database.execute(sql)


def read_all(store: Store) -> object:
    """All that pages and commands read."""
    return [
        (
            store.run(run.id),
            store.individuals(run.id),
            evaluations := store.evaluations(run.id),
            [store.series(evaluation.id) for evaluation in evaluations],
            store.events(run.id),
            store.run_blobs(run.id),
        )
        for run in store.runs()
    ]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_row_is_noticed_by_readers_and_by_check(whole: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(whole, folder)
    with Store.open(folder, "ro") as store:
        before = read_all(store)
        assert store.check(deep=True).ok
    change(folder, CHANGES[name])
    with Store.open(folder, "ro") as store:
        with pytest.raises(StoreDamagedError, match="evodevo"):
            assert read_all(store) == before, "read without an error"
        assert not store.check(deep=True).ok


def test_readings_of_one_row_notice_its_changes(whole: Path, tmp_path: Path) -> None:
    def after(statement: str, read: Callable[[Store], object]) -> None:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(whole, folder)
        change(folder, statement)
        with Store.open(folder, "ro") as store, pytest.raises(StoreDamagedError):
            read(store)

    with Store.open(whole, "ro") as store:
        (run,) = store.runs()
        first, *_, child = store.individuals(run.id)
    after(CHANGES["a genome"], lambda store: store.individual(first.id))
    after(CHANGES["a parent"], lambda store: store.lineage(child.id))
    after(CHANGES["a parent"], lambda store: store.parents(child.id))
    after(CHANGES["a parent gone"], lambda store: store.children(store.parents(child.id)[0].parent_id))
    after(CHANGES["seconds"], lambda store: store.evaluations(individual_id=first.id))
    after(CHANGES["a payload"], lambda store: store.events(since_seq=1))


def test_a_changed_score_is_repeated_after_a_repair(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(whole, folder)
    change(folder, CHANGES["a score"])
    with Store.open(folder) as store:
        (run,) = store.runs()
        repaired = store.repair()
        assert len(repaired.lost_evaluations) == 1
        assert repaired.remaining == ()
        states = {row.id: (row.state, row.reason) for row in store.evaluations(run.id)}
        assert states[repaired.lost_evaluations[0]] == ("failed", "lost")
        assert sorted(states.values()) == [("done", None), ("done", None), ("failed", "lost")]
        assert store.events(run.id)[-1].type == "evaluation.lost"


def test_nothing_is_collected_where_a_reference_was_changed(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(whole, folder)
    change(folder, CHANGES["weights let go"])
    with Store.open(folder) as store:
        held = set(store.blobs.digests())
        with pytest.raises(StoreDamagedError):
            store.gc(grace_seconds=0)
        assert set(store.blobs.digests()) == held


def test_a_damaged_row_is_never_sealed_anew(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(whole, folder)
    change(folder, CHANGES["settings"])
    with Store.open(folder) as store:
        (run_id,) = [line for (line,) in _select(folder, "SELECT id FROM run")]
        lease = store.acquire(run_id)
        with pytest.raises(StoreDamagedError):
            store.finish_run(lease, "interrupted")
        with pytest.raises(StoreDamagedError):
            store.change_settings(lease, {})


HOSTILE = {
    "trigger": "CREATE TRIGGER seal_no_update BEFORE UPDATE ON run BEGIN UPDATE score SET value = 0; END",
    "view": "CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    "table": "CREATE TABLE more (name TEXT)",
    "index": "CREATE INDEX more ON score (objective)",
    "column": "ALTER TABLE score ADD COLUMN more TEXT",
    "changed trigger": "DROP TRIGGER event_no_update",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_a_schema_that_is_not_ours_is_refused_before_anything_is_read(
    whole: Path, tmp_path: Path, name: str, mode: str
) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(whole, folder)
    with closing(sqlite3.connect(folder / "store.db")) as database:
        database.execute(HOSTILE[name])
        database.commit()
    with pytest.raises(StoreDamagedError, match=r"not evodevo's|was changed|is missing"):
        Store.open(folder, mode)  # type: ignore[arg-type]


def test_an_endless_read_is_stopped(whole: Path) -> None:
    with Store.open(whole, "ro") as store, pytest.raises(StoreDamagedError, match="did not end"):  # noqa: SIM117
        with store._database.reading(0.2) as connection:
            connection.exec_driver_sql(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
            ).all()


def _select(folder: Path, query: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(folder / "store.db")) as database:
        return database.execute(query).fetchall()


def test_a_schema_whose_text_is_no_text_is_damage(whole: Path, tmp_path: Path) -> None:
    """SQLite quotes the malformed statement in its message; found by ``benchmarks/faults/damage.py``, seed 1."""
    folder = tmp_path / "runs"
    shutil.copytree(whole, folder)
    with closing(sqlite3.connect(folder / "store.db", isolation_level=None)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = (folder / "store.db").read_bytes()
    assert data.count(b"CREATE TABLE score") == 1
    (folder / "store.db").write_bytes(data.replace(b"CREATE TABLE score", b"CREATE T\xc5BLE score"))
    for mode in ("ro", "rw"):
        with pytest.raises(StoreDamagedError):
            Store.open(folder, mode)  # type: ignore[arg-type]


def test_a_size_that_is_no_number_is_damage(whole: Path, tmp_path: Path) -> None:
    """Found by ``benchmarks/faults/damage.py``, seed 0."""
    folder = tmp_path / "runs"
    shutil.copytree(whole, folder)
    change(folder, "UPDATE blob SET bytes = '' WHERE rowid = 1")
    with Store.open(folder) as store:
        assert [problem.kind for problem in store.check(deep=True).problems] == ["database"]
        with pytest.raises(StoreDamagedError, match="size of blob"):
            store.gc()
