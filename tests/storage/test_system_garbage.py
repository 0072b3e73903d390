"""Weights that something can still reach stay; others may go; lost ones are named, and can be made again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from evodevo.errors import StoreDamagedError
from evodevo.randomness import generator
from evodevo.storage import NewComponent, Store, Use
from evodevo.storage.base import sha256
from evodevo.storage.blobs import FolderPool
from evodevo.testing.multitask.systems import HeldAgent, new_agent, new_system, result, uses_of
from evodevo.testing.stores.sealing import seal_anew


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs") if getattr(request, "param", "") == "folder" else Store.memory() as store:
        yield store


both = pytest.mark.parametrize("store", ["folder", "memory"], indirect=True)


def there(store: Store) -> set[str]:
    """Components whose weights can still be read, in all systems."""
    found = set()
    for system in store.systems.systems():
        for one in store.systems.components(system.id):
            assert one.held == (store.blobs.verify(one.digest) is None)
            if one.held:
                found.add(one.id)
    return found


def gc(store: Store) -> set[str]:
    store.gc(grace_seconds=0)
    assert store.check(deep=True).ok
    return there(store)


def test_a_better_path_replaces_what_only_the_old_one_used(store: Store) -> None:
    system = new_system(store)
    agent = new_agent(store, system, "a")
    first = agent.run_cycle(components=3)
    agent.run_cycle(others=uses_of(store, first)[:1], components=2)
    assert there(store) == {f"Vit~a:{number}" for number in range(5)}
    assert gc(store) >= {"Vit~a:0", "Vit~a:3", "Vit~a:4"}
    agent.begin()  # from now on nobody looks at the first publication any more
    assert gc(store) == {"Vit~a:0", "Vit~a:3", "Vit~a:4"}
    assert len(store.systems.components(system)) == 5  # rows stay


def test_what_others_use_stays_when_its_maker_goes_on_or_withdraws(store: Store) -> None:
    system = new_system(store)
    a, b = new_agent(store, system, "a"), new_agent(store, system, "b")
    b.run_cycle(others=uses_of(store, a.run_cycle())[:1], components=1)
    a.run_cycle()
    a.begin()
    assert gc(store) == {"Vit~a:0", "Vit~b:0", "Vit~a:2", "Vit~a:3"}
    store.systems.withdraw(a.lease)
    b.begin()
    assert gc(store) == {"Vit~a:0", "Vit~b:0"}


def test_what_a_multipath_path_runs_through_stays(store: Store) -> None:
    system = new_system(store)
    a, multi = new_agent(store, system, "a"), new_agent(store, system, "c", kind="MultiVit")
    multi.run_cycle(subpaths=[a.run_cycle()], components=1)
    for _ in range(2):
        a.run_cycle(components=1)
    a.begin()
    assert gc(store) == {"Vit~a:0", "Vit~a:1", "Vit~a:3", "MultiVit~c:0"}


@both
def test_what_an_open_cycle_sees_and_holds_stays(store: Store) -> None:
    system = new_system(store)
    a, b = new_agent(store, system, "a"), new_agent(store, system, "b")
    a.run_cycle(components=1)
    b.begin()
    b.tell(b.ask(components=1))
    for _ in range(2):
        a.run_cycle(components=1)
    a.begin()
    assert gc(store) == {"Vit~a:0", "Vit~b:0", "Vit~a:2"}
    b.publish(None)  # what b kept was not published, and it sees nothing now
    assert gc(store) == {"Vit~a:2"}


def test_what_agents_of_the_same_round_are_going_to_see_stays(store: Store) -> None:
    system = new_system(store)
    a, b = new_agent(store, system, "a"), new_agent(store, system, "b")
    a.run_cycle(components=1)
    view = store.systems.view_now(system)
    a.begin(view=view, round=1)
    a.publish(a.tell(a.ask(components=1)))
    # b's cycle of this round has not begun, and nothing but the round's view names a's first path.
    assert gc(store) == {"Vit~a:0", "Vit~a:1"}
    b.begin(view=view, round=1)
    b.publish(None)
    a.begin()
    assert gc(store) == {"Vit~a:1"}


def test_what_an_agent_retains_stays_until_its_next_cycle_ends(store: Store) -> None:
    agent = new_agent(store, new_system(store), "a")
    agent.begin()
    best, second, third = (agent.tell(agent.ask(components=1)) for _ in range(3))
    agent.publish(best, retained=[second])
    assert store.systems.cycles(agent_id=agent.id)[0].retained == (second,)
    assert gc(store) == {"Vit~a:0", "Vit~a:1"}
    agent.begin()
    assert gc(store) == {"Vit~a:0", "Vit~a:1"}
    agent.publish(best)
    assert gc(store) == {"Vit~a:0"}
    agent.begin()
    with pytest.raises(StoreDamagedError, match="Vit~a:2"):
        agent.publish(third)


def test_a_blob_that_two_components_share_stays_for_one(store: Store) -> None:
    system = new_system(store)
    a, b = new_agent(store, system, "a"), new_agent(store, system, "b")
    for agent in (a, b):
        agent.begin()
        agent.publish(agent.tell(agent.ask(components=1), weights=b"zeros"))
    store.systems.withdraw(a.lease)
    a.begin()
    store.gc(grace_seconds=0)
    held = {one.id: one.held for one in store.systems.components(a.system)}
    assert held == {"Vit~a:0": False, "Vit~b:0": True}
    assert store.blobs.get(sha256(b"zeros")) == b"zeros"


def test_blobs_that_came_after_the_oldest_open_ask_stay(store: Store) -> None:
    system = new_system(store)
    a, b = new_agent(store, system, "a"), new_agent(store, system, "b")
    a.begin()
    path = a.ask(components=1)
    digest = store.blobs.put_bytes(b"put by a worker; its row is on the way")
    b.run_cycle()
    assert store.gc(grace_seconds=0).blobs == ()
    made = [NewComponent("Vit~a:0", "head", 1, digest)]
    assert store.systems.tell(a.lease, result(path), made, [Use("head", "Vit~a:0")])
    a.ask()
    litter = store.blobs.put_bytes(b"of a worker that was killed")
    assert store.gc(grace_seconds=0).blobs == ()
    store.systems.withdraw(a.lease)
    b.begin()
    assert set(store.gc(grace_seconds=0).blobs) == {digest, litter}


@both
def test_looking_first_changes_nothing(store: Store) -> None:
    agent = new_agent(store, new_system(store), "a")
    for _ in range(2):
        agent.run_cycle(components=1)
    agent.begin()
    before = there(store)
    would = store.gc(grace_seconds=0, dry_run=True)
    assert there(store) == before
    assert store.gc(grace_seconds=0) == would
    assert would.blobs == (sha256(b"Vit~a:0"),)


def test_a_collection_that_ends_in_the_middle_deletes_nothing_that_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "runs") as store:
        agent = new_agent(store, new_system(store), "a")
        for _ in range(2):
            agent.run_cycle(components=3)
        agent.begin()
        deleted: list[str] = []

        def remove(digest: str) -> None:
            if deleted:
                raise KeyboardInterrupt
            deleted.append(digest)
            FolderPool.remove(store.blobs, digest)  # type: ignore[arg-type]

        with monkeypatch.context() as patched:
            patched.setattr(store.blobs, "remove", remove)
            with pytest.raises(KeyboardInterrupt):
                store.gc(grace_seconds=0)
        assert deleted
        assert store.check(deep=True).ok
        assert gc(store) == {f"Vit~a:{number}" for number in (3, 4, 5)}


# Any history


class _Model:
    """What must be there, said in the plainest way: sets, no SQL."""

    def __init__(self) -> None:
        self.parts: dict[str, set[str]] = {}
        self.inside: dict[str, list[str]] = {}
        self.published: list[tuple[str, str | None]] = []

    def seen(self, view: int) -> set[str]:
        latest: dict[str, str | None] = {}
        for agent, path in self.published[:view]:
            latest[agent] = path
        return {path for path in latest.values() if path is not None}

    def needed(self, views: set[int], own: set[str]) -> set[str]:
        paths = set(own)
        for view in (*views, len(self.published)):
            paths |= self.seen(view)
        paths |= {inner for path in paths for inner in self.inside[path]}
        return {part for path in paths for part in self.parts[path]}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_gc_takes_nothing_that_is_reachable_in_any_history(seed: int) -> None:
    draw = generator(seed, "systems", "gc")
    with Store.memory() as store:
        system = new_system(store)
        agents = [new_agent(store, system, f"t{number}") for number in range(4)]
        model, views, own = _Model(), {}, {agent.name: set() for agent in agents}  # type: ignore[var-annotated]
        for _ in range(60):
            agent: HeldAgent = agents[int(draw.integers(len(agents)))]
            action = int(draw.integers(5))
            if agent.name not in views:
                agent.begin()
                views[agent.name] = len(model.published)
            elif action == 0:
                waiting = agent.ask(components=1)
                store.systems.tell(agent.lease, result(waiting))
            elif action in (1, 2):
                offered = sorted(model.seen(views[agent.name]))
                parent = offered[int(draw.integers(len(offered)))] if offered else None
                uses = [] if parent is None else uses_of(store, parent)[: int(draw.integers(3))]
                plain = [one for one in offered if not model.inside[one]]
                inside = plain[:1] if action == 2 else []
                path = agent.tell(agent.ask(components=2, subpaths=inside), others=uses)
                model.parts[path] = {one.id for one in uses_of(store, path)}
                model.inside[path] = inside
                own[agent.name].add(path)
            elif action == 3:
                best = max(own[agent.name], default=None)
                agent.publish(best)
                model.published.append((agent.name, best))
                del views[agent.name]
                own[agent.name] = set()
            else:
                store.gc(grace_seconds=0)
                needed = model.needed(set(views.values()), set().union(*own.values()))
                left = there(store)
                assert needed <= left
                newest = max(one.view for one in store.systems.cycles(system_id=system))
                assert left <= model.needed({*views.values(), newest}, set().union(*own.values()))
        assert len(model.published) > 5


# Damage


def _damage(store: Store, component: str) -> str:
    (row,) = [
        one for system in store.systems.systems() for one in store.systems.components(system.id) if one.id == component
    ]
    path = store.blobs.path(row.digest)
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    return row.digest


@pytest.mark.slow
def test_a_damaged_component_is_named_and_withdrawing_its_users_frees_the_rest(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        system = new_system(store)
        a, b, c = (new_agent(store, system, task) for task in "abc")
        b.run_cycle(others=uses_of(store, a.run_cycle())[:1])
        c.run_cycle()
        digest = _damage(store, "Vit~a:0")
        assert [one.subject for one in store.check(deep=True).problems] == [digest]
        for agent in (a, b, c):
            store.release(agent.lease)
        report = store.repair()
        assert report.quarantined == (digest,)
        assert [one.subject for one in report.remaining] == ["component Vit~a:0"]
        assert [one.type for one in store.events(a.id)][-1] == "component.lost"
        for agent in (a, b, c):
            agent.lease = store.acquire(agent.id)
        with pytest.raises(StoreDamagedError, match=r"Vit~a:0 are gone.*withdraw the tasks"):
            c.begin()
        c.cycle -= 1
        store.systems.withdraw(a.lease)
        with pytest.raises(StoreDamagedError, match="Vit~b published"):
            c.begin()
        c.cycle -= 1
        store.systems.withdraw(b.lease)
        c.begin()
        c.publish(c.tell(c.ask()))
        c.begin()
        assert store.check(deep=True).ok


def test_what_an_open_cycle_lost_is_trained_again(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        agent = new_agent(store, new_system(store), "a")
        agent.begin()
        path = agent.ask()
        individual = agent.tell(path)
        _damage(store, "Vit~a:1")
        store.release(agent.lease)
        assert len(store.repair().lost_evaluations) == 1
        agent.lease = store.acquire(agent.id)
        assert [one.id for one in store.systems.open_asks(agent.id)] == [individual]
        with pytest.raises(StoreDamagedError, match="Vit~a:1"):
            agent.publish(individual)
        assert agent.tell(path, attempt=2) == individual
        agent.publish(individual)
        assert store.check(deep=True).ok
        assert [one.held for one in store.systems.components_of([individual])[individual]] == [True, True]


_NO_ID = """
UPDATE component_use SET component_id = 'x' WHERE component_id = (SELECT id FROM component WHERE number = 4);
UPDATE blob_reference SET owner_id = 'x' WHERE owner_id = (SELECT id FROM component WHERE number = 4);
UPDATE component SET id = 'x' WHERE number = 4"""
WRONG_ROWS = {
    "an id that follows from nothing": (
        _NO_ID,
        "its id does not follow",
    ),
    "a number that was not set aside": ("UPDATE path SET end_component = first_component", "not set aside"),
    "a gap": ("UPDATE publication SET seq = 7 WHERE seq = 3", "number 3 is missing"),
    "a foreign path": (
        "UPDATE publication SET individual_id = (SELECT individual_id FROM publication WHERE seq = 1) WHERE seq = 2",
        "belongs to another agent",
    ),
    "a moved agent": (
        "UPDATE agent SET system_id = (SELECT run_id FROM system WHERE name = 'other') WHERE name = 'Vit~a'",
        "its agent belongs to another system",
    ),
    "a stranger": (
        "UPDATE agent SET system_id = (SELECT run_id FROM system WHERE name = 'other') WHERE name = 'Vit~b'",
        "uses what belongs to another system",
    ),
    "no JSON": ("UPDATE cycle SET retained = '['", "does not hold JSON"),
}


@pytest.mark.parametrize("name", WRONG_ROWS)
def test_check_sees_rows_that_do_not_fit_also_where_they_were_sealed_anew(name: str) -> None:
    statement, message = WRONG_ROWS[name]
    with Store.memory() as store:
        system = new_system(store)
        a, b = new_agent(store, system, "a"), new_agent(store, system, "b")
        b.run_cycle(others=uses_of(store, a.run_cycle()))
        a.run_cycle(components=3)
        new_system(store, "other")
        assert store.check().ok
        with store._database.driver() as driver:
            driver.execute("PRAGMA foreign_keys=OFF")
        with store._database.writing() as connection:
            triggers = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars().all()
            for trigger in triggers:
                connection.exec_driver_sql(f"DROP TRIGGER {trigger}")
            for one in statement.split(";"):
                assert connection.exec_driver_sql(one).rowcount > 0
            seal_anew(connection)
        problems = store.check().problems
        assert any(message in problem.message for problem in problems), problems
