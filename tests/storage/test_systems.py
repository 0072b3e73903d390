"""Systems in the store: written as they go, read as they were, never changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, text

from evodevo.errors import NotFoundError, RunOwnedError, UsageError
from evodevo.storage import Counters, NewComponent, Publication, Store, Use, path_id
from evodevo.storage.base import sha256
from evodevo.storage.systems.schema import IMMUTABLE
from evodevo.testing.multitask.systems import HeldAgent, new_agent, new_system, path_of, result, uses_of


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs") if getattr(request, "param", "") == "folder" else Store.memory() as store:
        yield store


both = pytest.mark.parametrize("store", ["folder", "memory"], indirect=True)


def said(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Every row about systems, individuals, evaluations, events and blobs."""
    tables = (*IMMUTABLE, "cycle", "individual", "evaluation", "event", "blob_reference")
    with store._database.reading() as connection:
        return {name: [tuple(row) for row in connection.execute(text(f"SELECT * FROM {name}"))] for name in tables}


# Systems and agents


@both
def test_a_system_is_read_as_it_was_written(store: Store) -> None:
    system = new_system(store)
    root, child = new_agent(store, system, "root"), new_agent(store, system, "mnist")
    assert [(one.name, one.seed, one.settings) for one in store.systems.systems()] == [
        ("zoo", 7, {"generation_size": 4})
    ]
    assert [(one.name, one.kind, one.task, one.seed) for one in store.systems.agents(system)] == [
        ("Vit~root", "Vit", "root", 3),
        ("Vit~mnist", "Vit", "mnist", 3),
    ]
    assert store.systems.agent(root.id).settings == {"samples": 16}
    assert [run.kind for run in store.runs()] == ["system", "agent", "agent"]
    first = root.run_cycle(components=3)
    child.begin(round=0)
    (cycle,) = store.systems.cycles(agent_id=child.id)
    assert store.systems.open_cycle(child.id) == cycle
    assert (cycle.number, cycle.round, cycle.view, cycle.state, cycle.retained) == (0, 0, 1, "open", ())
    discarded, asked = child.ask(components=1), child.ask(components=2)
    assert [one.number for one in store.systems.open_asks(child.id)] == [0, 1]
    second = child.tell(asked, others=uses_of(store, first)[:1])
    assert [one.id for one in store.systems.open_asks(child.id)] == [discarded.individual.id]
    assert store.systems.tell(child.lease, result(discarded))
    child.publish(second)
    assert store.systems.open_cycle(child.id) is None
    assert [(one.id, one.role) for one in store.systems.components_of([second])[second]] == [
        ("Vit~root:0", "role_0"),
        ("Vit~mnist:1", "role_1"),
        ("Vit~mnist:2", "role_2"),
    ]
    made = store.systems.components(system)
    assert [one.id for one in made] == ["Vit~mnist:1", "Vit~mnist:2", "Vit~root:0", "Vit~root:1", "Vit~root:2"]
    assert [one.path_id for one in made] == [second, second, first, first, first]
    assert [one.parameters for one in made] == [11, 12, 10, 11, 12]
    assert made[0].digest == sha256(b"Vit~mnist:1")
    assert store.systems.publications(system) == [
        Publication(1, root.id, "Vit~root", 0, first),
        Publication(2, child.id, "Vit~mnist", 0, second),
    ]
    assert [one.number for one in store.systems.paths(child.id)] == [0, 1]
    assert store.systems.path(second).id == path_id(child.id, 1)
    assert store.systems.individuals([second])[second].details == {"bar": None, "offspring": 1}
    assert [one.extra for one in store.systems.evaluations_of([second])[second]] == [{"fate": "kept"}]
    assert store.check(deep=True).ok


def test_a_name_stands_for_one_system(store: Store) -> None:
    one, other = new_system(store, "characters"), new_system(store, "char")
    assert store.systems.find_system("char").id == other  # a whole name before the beginning of one
    assert store.systems.find_system("charac").id == one
    assert store.systems.find_system(one[:8]).id == one
    with pytest.raises(UsageError, match="characters, char"):
        store.systems.find_system("cha")
    for wrong in ("x", "", "characters2"):
        with pytest.raises(NotFoundError, match="characters, char"):
            store.systems.find_system(wrong)
    with pytest.raises(UsageError, match="already"):
        new_system(store, "char")
    for wrong in ("", " a", "a\nb", "x" * 501):
        with pytest.raises(UsageError, match="printable"):
            new_system(store, wrong)
    assert len(store.runs()) == 2


def test_an_agent_is_added_once(store: Store) -> None:
    system, other = new_system(store), new_system(store, "other")
    new_agent(store, system, "mnist")
    new_agent(store, other, "mnist")
    new_agent(store, system, "mnist", kind="MultiVit")
    with pytest.raises(UsageError, match="already"):
        new_agent(store, system, "mnist")
    with pytest.raises(UsageError, match="no ':'"):
        store.systems.add_agent(system, "Vit~a:b", "Vit", "a:b", 0, {})
    with pytest.raises(NotFoundError, match="no system"):
        store.systems.add_agent("r000000000000", "Vit~a", "Vit", "a", 0, {})
    assert len(store.runs()) == 5


# Cycles and views


def test_a_cycle_sees_what_was_published_before_its_view(store: Store) -> None:
    system = new_system(store)
    first, second = new_agent(store, system, "a"), new_agent(store, system, "b")
    assert store.systems.view_now(system) == 0
    assert store.systems.visible(system, 0) == {}
    old = first.run_cycle()
    second.begin()
    new = first.run_cycle()
    assert store.systems.open_cycle(second.id).view == 1  # type: ignore[union-attr]
    assert store.systems.visible(system, 1)["Vit~a"].path_id == old
    assert store.systems.visible(system, 2)["Vit~a"].path_id == new
    second.tell(second.ask())
    assert list(store.systems.visible(system, store.systems.view_now(system))) == ["Vit~a"]  # nothing half-finished
    other = new_system(store, "other")
    assert store.systems.view_now(other) == 0
    assert new_agent(store, other, "a").run_cycle()
    assert [one.seq for one in store.systems.publications(other)] == [1]
    store.systems.withdraw(first.lease)
    assert store.systems.visible(system, 3) == {}  # whatever the other system has at seq 1


def test_a_cycle_begins_once_and_one_at_a_time(store: Store) -> None:
    system = new_system(store)
    agent = new_agent(store, system, "a")
    systems = store.systems
    begun = systems.begin_cycle(agent.lease, 0, round=0, view=0)
    before = said(store)
    for view in (0, None):
        assert systems.begin_cycle(agent.lease, 0, round=0, view=view) == begun == systems.open_cycle(agent.id)
    for number, round, view in ((1, 0, 0), (0, 1, 0), (0, None, 0)):
        with pytest.raises(UsageError, match="is in cycle 0"):
            systems.begin_cycle(agent.lease, number, round=round, view=view)
    assert said(store) == before
    systems.publish(agent.lease, 0, None)
    with pytest.raises(UsageError, match="greater number"):
        systems.begin_cycle(agent.lease, 0, round=0, view=0)
    for view in (-1, 2):
        with pytest.raises(UsageError, match="from 0 to 1"):
            systems.begin_cycle(agent.lease, 1, round=1, view=view)


def test_locks_follow_from_the_view(store: Store) -> None:
    system = new_system(store)
    root, a, b = (new_agent(store, system, task) for task in ("root", "a", "b"))
    base = root.run_cycle(components=2)
    shared = uses_of(store, base)
    first = a.run_cycle(others=shared[:1], components=1)
    b.run_cycle(others=[*shared[:1], *uses_of(store, first)[1:]], components=1)
    b.begin()
    b.tell(b.ask(), others=shared)  # told, not published: locks nothing
    assert store.systems.locks(system, 0) == {}
    assert store.systems.locks(system, 1) == {
        "Vit~root:0": frozenset({"Vit~root"}),
        "Vit~root:1": frozenset({"Vit~root"}),
    }
    assert store.systems.locks(system, 3) == {
        "Vit~a:0": frozenset({"Vit~a", "Vit~b"}),
        "Vit~b:0": frozenset({"Vit~b"}),
        "Vit~root:0": frozenset({"Vit~root", "Vit~a", "Vit~b"}),
        "Vit~root:1": frozenset({"Vit~root"}),
    }
    a.begin()
    assert store.systems.withdraw(a.lease) == 4
    assert store.systems.open_cycle(a.id) is None
    assert store.systems.locks(system, 4)["Vit~a:0"] == frozenset({"Vit~b"})
    assert store.systems.locks(system, 3)["Vit~a:0"] == frozenset({"Vit~a", "Vit~b"})  # what was seen stays seen
    assert "Vit~a" not in store.systems.visible(system, 4)
    a.run_cycle()
    assert "Vit~a" in store.systems.visible(system, 5)


def test_a_path_inside_another_is_not_locked(store: Store) -> None:
    system = new_system(store)
    a, b, multi = (new_agent(store, system, task) for task in ("a", "b", "c"))
    main, support = a.run_cycle(), b.run_cycle()
    individual = multi.run_cycle(subpaths=[main, support], components=1)
    assert store.systems.subpaths_of([individual, main]) == {individual: [main, support], main: []}
    assert store.systems.locks(system, 3)["Vit~a:0"] == frozenset({"Vit~a"})


def test_a_sub_path_was_published_at_the_view(store: Store) -> None:
    system, other = new_system(store), new_system(store, "other")
    a, multi, stranger = new_agent(store, system, "a"), new_agent(store, system, "c"), new_agent(store, other, "a")
    foreign = stranger.run_cycle()
    multi.begin()
    late = a.run_cycle()
    for inside in (late, foreign, "nobody"):
        with pytest.raises(UsageError, match="not published at view 0"):
            multi.ask(subpaths=[inside])
    assert store.systems.paths(multi.id) == []
    assert store.individuals(multi.id) == []


# Numbers and ids


def test_no_number_is_given_twice(store: Store) -> None:
    system = new_system(store)
    agent = new_agent(store, system, "a")
    agent.begin()
    discarded = agent.ask(components=3)
    store.systems.tell(agent.lease, result(discarded))
    agent.publish(None)
    assert store.systems.counters(agent.id) == Counters(1, 3)  # the discarded child's numbers are gone, too
    agent.begin()
    before = said(store)
    for number, first in ((0, 3), (1, 2), (1, 0)):
        with pytest.raises(UsageError):
            store.systems.ask(agent.lease, 1, [path_of(agent.id, number, first)])
    with pytest.raises(UsageError, match="used twice"):
        store.systems.ask(agent.lease, 1, [path_of(agent.id, 1, 3, 2), path_of(agent.id, 2, 4, 2)])
    assert said(store) == before
    assert store.systems.ask(agent.lease, 1, [path_of(agent.id, 1, 3, 2), path_of(agent.id, 2, 5, 2)]) == 2
    assert store.systems.counters(agent.id) == Counters(3, 7)


def test_asking_again_in_the_same_words_changes_nothing(store: Store) -> None:
    system = new_system(store)
    agent = new_agent(store, system, "a")
    agent.begin()
    asked = [path_of(agent.id, 0, 0, 2), path_of(agent.id, 1, 2, 2)]
    assert store.systems.ask(agent.lease, 0, asked) == 2
    before = said(store)
    assert store.systems.ask(agent.lease, 0, asked) == 0
    assert store.systems.ask(agent.lease, 0, asked[:1]) == 0
    for other in (path_of(agent.id, 0, 0, 3), path_of(agent.id, 0, 1, 2)):
        with pytest.raises(UsageError, match="something else"):
            store.systems.ask(agent.lease, 0, [other])
    assert said(store) == before


def _a_told_path(store: Store) -> tuple[HeldAgent, HeldAgent, str]:
    system = new_system(store)
    agent, other = new_agent(store, system, "a"), new_agent(store, system, "b")
    agent.begin()
    other.run_cycle()
    return agent, other, agent.tell(agent.ask())


WRONG_TELLS: dict[str, tuple[list[str], list[str], str]] = {
    "of another agent": (["Vit~b:9"], ["Vit~b:9"], "not set aside"),
    "of another path": (["Vit~a:0"], ["Vit~a:0"], "not set aside"),
    "beyond those set aside": (["Vit~a:4"], ["Vit~a:4"], "not set aside"),
    "without uses": (["Vit~a:2"], [], "come with the uses"),
    "unknown": (["Vit~a:2"], ["Vit~a:2", "Vit~b:7"], "does not have"),
    "of nobody": (["Vit~a:2"], ["Vit~a:2", "Vit~x:0"], "does not have"),
    "without a name": (["2"], ["2"], "named agent:number"),
}


def test_a_component_that_was_not_set_aside_is_refused_and_nothing_is_written(store: Store) -> None:
    agent, _, _ = _a_told_path(store)
    path = agent.ask()
    digest = store.blobs.put_bytes(b"w")
    before = said(store)
    for name, (made, used, message) in WRONG_TELLS.items():
        parts, uses = [NewComponent(one, one, 1, digest) for one in made], [Use(one, one) for one in used]
        with pytest.raises(UsageError, match=message):
            store.systems.tell(agent.lease, result(path), parts, uses)
        assert said(store) == before, name
    assert store.systems.open_asks(agent.id)[0].id == path.individual.id


def test_a_component_without_its_blob_is_refused(store: Store) -> None:
    agent, _, _ = _a_told_path(store)
    path = agent.ask()
    before = said(store)
    made = [NewComponent("Vit~a:2", "head", 1, sha256(b"never put"))]
    with pytest.raises(NotFoundError, match="not in the pool"):
        store.systems.tell(agent.lease, result(path), made, [Use("head", "Vit~a:2")])
    assert said(store) == before


def test_a_path_that_failed_is_made_of_nothing(store: Store) -> None:
    agent, _, _ = _a_told_path(store)
    path = agent.ask()
    failed = replace(result(path), state="failed", reason="diverged", scores={})
    before = said(store)
    made = [NewComponent("Vit~a:2", "head", 1, store.blobs.put_bytes(b"w"))]
    with pytest.raises(UsageError, match=r"failed \(diverged\)"):
        store.systems.tell(agent.lease, failed, made, [Use("head", "Vit~a:2")])
    assert said(store) == before
    assert store.systems.tell(agent.lease, failed)
    assert store.systems.open_asks(agent.id) == []
    with pytest.raises(UsageError, match="no recorded components"):
        agent.publish(path.individual.id)


def test_a_path_is_told_once_and_never_changes(store: Store) -> None:
    agent, _, individual = _a_told_path(store)
    (path,) = store.systems.paths(agent.id)
    digest = store.blobs.put_bytes(b"other weights")
    before = said(store)
    asked = path_of(agent.id, path.number, path.first_component)
    uses = uses_of(store, individual)
    same = [NewComponent(one.id, one.role, 10 + place, sha256(one.id.encode())) for place, one in enumerate(uses)]
    assert not store.systems.tell(agent.lease, result(asked), same, uses)
    changed = [NewComponent(uses[0].id, uses[0].role, 10, digest)]
    with pytest.raises(UsageError, match="never changes"):
        store.systems.tell(agent.lease, result(asked, attempt=2), changed, uses)
    with pytest.raises(UsageError, match="never changes"):
        store.systems.tell(agent.lease, result(asked, attempt=2), [], uses[:1])
    assert said(store) == before


def test_a_component_has_the_role_that_a_path_gives_it(store: Store) -> None:
    agent, other, _ = _a_told_path(store)
    moved = agent.tell(agent.ask(components=1), others=[Use("moved", "Vit~b:0")])
    assert uses_of(store, moved)[0] == Use("moved", "Vit~b:0")
    assert uses_of(store, other.told[0])[0] == Use("role_0", "Vit~b:0")


@both
def test_two_components_may_share_one_blob(store: Store) -> None:
    agent, other, _ = _a_told_path(store)
    first = agent.tell(agent.ask(), weights=b"zeros")
    second = agent.tell(agent.ask(), weights=b"zeros")
    rows = [row for rows in store.systems.components_of([first, second]).values() for row in rows]
    assert len({row.id for row in rows}) == 4
    assert {row.digest for row in rows} == {sha256(b"zeros")}
    assert other.id != agent.id


# Publishing


def test_only_a_finished_path_of_its_own_is_published(store: Store) -> None:
    agent, other, individual = _a_told_path(store)
    waiting = agent.ask()
    before = said(store)
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: agent.publish(individual), "waits for the results of paths 1"),
        (lambda: agent.publish(waiting.individual.id), "no recorded components"),
        (lambda: agent.publish(other.told[0]), "its own paths"),
        (lambda: agent.publish(individual, retained=[other.told[0]]), "its own paths"),
        (lambda: store.systems.publish(agent.lease, 3, individual), "not open"),
        (lambda: store.systems.publish(other.lease, 0, other.told[0]), "not open"),
    ]
    for publish, message in refused:
        with pytest.raises(UsageError, match=message):
            publish()
    assert said(store) == before
    store.systems.tell(agent.lease, result(waiting))
    assert agent.publish(individual, retained=[]) == 2
    with pytest.raises(UsageError, match="not open"):
        agent.ask()
    agent.begin()
    assert agent.publish(individual) == 3  # nothing better was found: the best stays what it was


# What is kept for ever


def test_rows_of_a_system_can_be_neither_changed_nor_deleted(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        system = new_system(store)
        main = new_agent(store, system, "a").run_cycle()
        new_agent(store, system, "b").run_cycle(subpaths=[main])
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        for table in IMMUTABLE:
            before = connection.execute(f"SELECT * FROM {table}").fetchall()
            assert before
            column = connection.execute(f"PRAGMA table_info({table})").fetchone()[1]
            for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET {column} = {column}"):
                with pytest.raises(sqlite3.IntegrityError, match=f"rows of {table} are kept for ever"):
                    connection.execute(statement)
            assert connection.execute(f"SELECT * FROM {table}").fetchall() == before
        with pytest.raises(sqlite3.IntegrityError, match="kept for ever"):
            connection.execute("DELETE FROM cycle")


@both
def test_a_stale_token_writes_nothing(store: Store) -> None:
    agent, _, individual = _a_told_path(store)
    waiting = agent.ask()
    store.release(agent.lease)
    current = store.acquire(agent.id)
    before = said(store)
    writes: list[Callable[[], object]] = [
        lambda: agent.begin(),
        lambda: store.systems.ask(agent.lease, 0, [agent.new_path()]),
        lambda: store.systems.tell(agent.lease, result(waiting)),
        lambda: store.systems.publish(agent.lease, 0, None),
        lambda: store.systems.publish(agent.lease, 0, individual),
        lambda: store.systems.withdraw(agent.lease),
    ]
    for write in writes:
        with pytest.raises(RunOwnedError, match="Nothing was written"):
            write()
    assert said(store) == before
    assert store.systems.tell(current, result(waiting))


def test_an_agent_writes_only_what_is_its_own(store: Store) -> None:
    agent, other, _ = _a_told_path(store)
    path = agent.ask()
    other.begin()
    before = said(store)
    with pytest.raises(UsageError, match="no path of Vit~b"):
        store.systems.tell(other.lease, result(path))
    with pytest.raises(UsageError, match="must have id"):
        store.systems.ask(other.lease, other.cycle, [agent.new_path()])
    assert said(store) == before


# How much is asked


def test_reading_a_large_system_asks_a_fixed_number_of_questions(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        system = new_system(store)
        asked: list[str] = []
        counts = []

        @event.listens_for(store._database.engine, "before_cursor_execute")
        def count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            asked.append(statement)

        for task in range(6):
            new_agent(store, system, f"task{task}").run_cycle()
            asked.clear()
            view = store.systems.view_now(system)
            store.systems.agents(system)
            store.systems.locks(system, view)
            offered = [one.path_id or "" for one in store.systems.visible(system, view).values()]
            store.systems.components(system)
            store.systems.evaluations_of(offered)
            store.systems.individuals(offered)
            counts.append(len(asked))
        assert len(set(counts)) == 1


def test_a_told_path_is_one_transaction(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        agent = new_agent(store, new_system(store), "a")
        agent.begin()
        path = agent.ask()
        digest = store.blobs.put_bytes(b"w")
        commits: list[object] = []
        event.listen(store._database.engine, "commit", commits.append)
        made = [NewComponent("Vit~a:0", "head", 1, digest)]
        store.systems.tell(agent.lease, result(path), made, [Use("head", "Vit~a:0")])
        assert len(commits) == 1
