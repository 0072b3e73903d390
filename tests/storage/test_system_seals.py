"""No row of a multitask system can be changed, taken away or added without being noticed by whoever reads it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from evodevo.errors import StoreDamagedError
from evodevo.storage import Store, migrations
from evodevo.storage.schema import VERSION_TABLE
from evodevo.storage.systems.status import SystemCounts, SystemMoment
from evodevo.testing.multitask.systems import FIDELITY, new_agent, new_system, uses_of
from storage.test_seals import change

CHANGES = {
    "a name of a system": "UPDATE system SET name = 'other'",
    "settings of an agent": "UPDATE run SET settings = '{}' WHERE kind = 'agent'",
    "a name of an agent": "UPDATE agent SET name = 'Vit~other' WHERE name = 'Vit~a'",
    "a class": "UPDATE agent SET class = 'Text'",
    "an agent gone": "DELETE FROM agent WHERE name = 'Vit~b'",
    "a cycle's view": "UPDATE cycle SET view_seq = 0",
    "an end of a cycle": "UPDATE cycle SET state = 'open', closed_seq = NULL WHERE rowid = 1",
    "a cycle gone": "DELETE FROM cycle WHERE rowid = 2",
    "what is retained": "UPDATE cycle SET retained = '[\"x\"]'",
    "a number of a path": "UPDATE path SET number = 9 WHERE rowid = 1",
    "a path in another cycle": "UPDATE path SET cycle = 1 WHERE rowid = 1",
    "a path gone": "DELETE FROM path WHERE rowid = 3",
    "numbers of components": "UPDATE path SET end_component = end_component + 1",
    "a sub-path": "UPDATE subpath SET subpath_id = (SELECT individual_id FROM path WHERE rowid = 3)",
    "a sub-path gone": "DELETE FROM subpath",
    "a role": "UPDATE component SET role = 'head' WHERE rowid = 1",
    "a number of parameters": "UPDATE component SET parameters = 1",
    "other weights": "UPDATE component SET digest = (SELECT max(digest) FROM blob)",
    "a component gone": "DELETE FROM component WHERE rowid = 1",
    "a use": """UPDATE component_use AS u SET component_id = (SELECT max(id) FROM component WHERE id != u.component_id)
        WHERE rowid = 2""",
    "a use gone": "DELETE FROM component_use WHERE rowid = 2",
    "all uses gone": "DELETE FROM component_use",
    "an order of uses": "UPDATE component_use SET place = 9 - place",
    "a publication of another path": "UPDATE publication SET individual_id = NULL WHERE seq = 1",
    "the last publication gone": "DELETE FROM publication WHERE seq = (SELECT max(seq) FROM publication)",
    "weights let go": "UPDATE blob_reference SET released = 1 WHERE owner_kind = 'component'",
    "a reference to weights gone": "DELETE FROM blob_reference WHERE owner_kind = 'component'",
    "seals gone": "DELETE FROM seal WHERE kind = 'uses'",
    "an outcome": "UPDATE evaluation SET state = 'failed', reason = 'oom'",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with a system of two agents that use each other's components, and a multipath individual."""
    folder = tmp_path_factory.mktemp("whole") / "runs"
    with Store.open(folder) as store:
        system = new_system(store)
        a, b = new_agent(store, system, "a"), new_agent(store, system, "b")
        first = a.run_cycle()
        b.run_cycle(others=uses_of(store, first)[:1])
        b.run_cycle(subpaths=[first])
        a.run_cycle()
    return folder


def system_of(store: Store) -> str:
    return store.systems.systems()[0].id


READINGS: dict[str, Callable[[Store], object]] = {
    "the status": lambda store: store.systems.moment(system_of(store), FIDELITY, "agent.withdrawn"),
    "the list": lambda store: store.systems.listing(),
    "the components": lambda store: store.systems.components(system_of(store)),
}


def read(store: Store) -> tuple[SystemMoment, list[SystemCounts], object]:
    return READINGS["the status"](store), READINGS["the list"](store), READINGS["the components"](store)  # type: ignore[return-value]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed_by_readers_and_by_check(whole: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(whole, folder)
    with Store.open(folder, "ro") as store:
        before = read(store)
        assert store.check(deep=True).ok
    change(folder, CHANGES[name])
    with Store.open(folder, "ro") as store:
        with pytest.raises(StoreDamagedError, match="evodevo"):
            assert read(store) == before, "read without an error"
        assert not store.check(deep=True).ok


@pytest.mark.parametrize(
    "script",
    [
        "UPDATE event SET payload = '{}' WHERE type = 'publication'",
        "UPDATE event SET type = 'other' WHERE type = 'publication'",
        "DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)",
    ],
)
def test_events_of_several_agents_are_those_of_each_and_a_change_is_noticed(
    whole: Path, tmp_path: Path, script: str
) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(whole, folder)
    with Store.open(folder, "ro") as store:
        names = [agent.id for agent in store.systems.agents(system_of(store))]
        each = [event for name in names for event in store.events(name, type="publication")]
        assert store.systems.events_of(names, "publication") == sorted(each, key=lambda event: event.seq)
        assert {event.run_id for event in each} == set(names)
        assert store.systems.events_of(names[1:], "publication") == store.events(names[1], type="publication")
        assert store.systems.events_of([], "publication") == []
    change(folder, script)
    with Store.open(folder, "ro") as store, pytest.raises(StoreDamagedError, match="evodevo"):
        store.systems.events_of(names, "cycle.begun")


def test_garbage_is_not_collected_by_changed_rows(whole: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("a publication of another path", "all uses gone", "a sub-path gone")):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        change(folder, CHANGES[name])
        with Store.open(folder) as store:
            blobs = set(store.blobs.digests())
            with pytest.raises(StoreDamagedError):
                store.gc(grace_seconds=0)
            assert set(store.blobs.digests()) == blobs


@pytest.fixture
def third(whole: Path, tmp_path: Path) -> Path:
    """The store as schema 0003 left it: without these seals."""
    folder = tmp_path / "runs"
    shutil.copytree(whole, folder)
    kinds = "', '".join(migrations.UNSEALED["0003"])
    with closing(sqlite3.connect(folder / "store.db", isolation_level=None)) as database:
        assert database.execute(f"DELETE FROM seal WHERE kind IN ('{kinds}')").rowcount > 20
        database.execute(f"UPDATE {VERSION_TABLE} SET version_num = '0003'")
    return folder


def test_a_store_without_them_is_read_as_it_is_and_sealed_when_it_is_written(third: Path, whole: Path) -> None:
    with Store.open(whole, "ro") as store:
        before = read(store)
    with Store.open(third, "ro") as store:
        assert read(store) == before
        report = store.check(deep=True)
        assert (report.ok, report.sealed) == (True, False)
    with Store.open(third) as store, Store.open(whole, "ro") as other:
        assert read(store) == before
        report = store.check(deep=True)
        assert (report.ok, report.sealed) == (True, True)
        query = text("SELECT * FROM seal ORDER BY run_id, kind, key")
        with store._database.reading() as ours, other._database.reading() as theirs:
            assert ours.execute(query).all() == theirs.execute(query).all(), "as if it had had them always"
    change(third, CHANGES["a use"])
    with Store.open(third, "ro") as store, pytest.raises(StoreDamagedError):
        read(store)
