"""From the first schema to ours: everything stays, and a kill on the way leaves the first."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from evodevo.errors import UsageError
from evodevo.storage import Evaluation, Score, Store, failpoints, migrations
from evodevo.storage.dialects.sqlite import open_file
from evodevo.storage.schema import VERSION_TABLE
from evodevo.testing.multitask.systems import new_agent, new_system
from evodevo.testing.storages import FIDELITY, SETTINGS, newborn
from storage.coordinator import make
from storage.forks import forked

TABLES = (
    *("property", "event", "run", "lease", "individual", "parentage", "evaluation"),
    *("score", "series", "blob", "blob_reference"),
)


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A store as schema 0001 left it: two runs, ancestry, results, curves, blobs held and released."""
    made, folder = tmp_path / "made", tmp_path / "runs"
    with Store.open(made) as store:
        for seed in (1, 2):
            run_id = store.create_run(kind="evolve", recipe="r", settings=SETTINGS, seed=seed)
            lease = store.acquire(run_id)
            born = [newborn(run_id, "0/0"), newborn(run_id, "0/1")]
            store.add_individuals(lease, born)
            store.add_individuals(lease, [newborn(run_id, "1/0", [one.id for one in born])])
            for one in born:
                blobs = {"weights": store.blobs.put_bytes(one.id.encode())}
                outcome = Evaluation(
                    one.id, FIDELITY, 0, scores={"loss": Score(1.0)}, blobs=blobs, series={"loss": [(0.0, 1.0)]}
                )
                store.finish_evaluation(lease, outcome)
            store.release_blobs(lease, [outcome.id])
            store.attach_blobs(lease, {"tokenizer": store.blobs.put_bytes(b"tokens")})
            store.release(lease)
    (made / "blobs").rename(folder.mkdir(mode=0o700) or folder / "blobs")
    database = open_file(folder / "store.db", mode="rwc")
    with database.driver() as driver:
        driver.execute("PRAGMA journal_mode=WAL")
    with database.writing() as connection:
        migrations.upgrade(connection, "0001")
    with database.driver() as driver:
        # The columns of the first version are those of today's tables.
        driver.execute("ATTACH ? AS made", (str(made / "store.db"),))
        driver.execute("PRAGMA foreign_keys=OFF")
        for table in TABLES[1:]:
            driver.execute(f"INSERT INTO main.{table} SELECT * FROM made.{table}")
    database.close()
    return folder


def rows(folder: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall() for table in TABLES[1:]}


def version(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        return str(connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()[0])


def tables(folder: Path) -> set[str]:
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_the_first_schema_is_still_what_it_was(first: Path) -> None:
    # The rest would prove nothing if the fixture were made with today's tables.
    assert version(first) == "0001"
    assert not tables(first) & {"system", "agent", "path", "component", "publication"}
    with closing(sqlite3.connect(first / "store.db")) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute("INSERT INTO blob_reference SELECT 'component', 'x', 'weights', digest, 0 FROM blob LIMIT 1")


def test_a_store_of_the_first_schema_keeps_every_row_and_takes_systems(first: Path) -> None:
    before = rows(first)
    assert all(before[name] for name in ("run", "parentage", "evaluation", "score", "series", "blob_reference"))
    with Store.open(first) as store:
        assert version(first) == migrations.HEAD
        assert rows(first) == before
        assert store.check(deep=True).ok
        system = new_system(store)
        agent = new_agent(store, system, "mnist")
        agent.run_cycle()
        assert list(store.systems.visible(system, 1)) == ["Vit~mnist"]
        assert store.check(deep=True).ok
        # What was released before may go, and nothing else: one evaluation of each run.
        assert len(store.gc(grace_seconds=0).blobs) == 2
    assert [path.name for path in (first / "backups").iterdir()] == ["0001-1.db"]
    with Store.open(first, "ro") as store:
        assert len(store.runs()) == 4


def test_what_is_kept_for_ever_still_is(first: Path) -> None:
    with Store.open(first) as store:
        for statement in ("DELETE FROM event", "UPDATE individual SET slot = 0", "DELETE FROM evaluation"):
            with pytest.raises(UsageError, match="kept for ever"), store._database.writing() as connection:
                connection.execute(text(statement))


def test_reading_an_old_store_asks_for_one_opening_to_write_and_changes_nothing(first: Path) -> None:
    with pytest.raises(UsageError, match="schema 0001"):
        Store.open(first, "ro")
    assert version(first) == "0001"


@pytest.mark.slow
def test_a_kill_before_the_commit_leaves_the_first_schema_and_the_next_opening_ends_it(first: Path) -> None:
    before = rows(first)
    code = "import sys; from evodevo.storage import Store; Store.open(sys.argv[1])"
    environment = {**os.environ, failpoints.VARIABLE: f"{failpoints.MIGRATION_POINTS[0]}:kill@1"}
    done = subprocess.run([sys.executable, "-c", code, str(first)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert version(first) == "0001"
    assert rows(first) == before
    assert "system" not in tables(first)
    with Store.open(first) as store:
        assert store.check(deep=True).ok
    assert (version(first), rows(first)) == (migrations.HEAD, before)


def test_two_processes_that_meet_an_old_store_migrate_it_once(first: Path) -> None:
    with forked(make, first) as one, forked(make, first) as other:
        assert [one.end(), other.end()] == [(0, ""), (0, "")]
    assert [path.name for path in (first / "backups").iterdir()] == ["0001-1.db"]
    with Store.open(first) as store:
        assert len(store.runs()) == 4
