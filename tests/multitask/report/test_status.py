"""How a system stands: its numbers are those that the driver itself goes by, and they cost a few questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event

from evodevo.errors import NotFoundError
from evodevo.multitask.recorded import ACCURACY, TEST
from evodevo.multitask.report.history import course
from evodevo.multitask.report.outcomes import child_record, child_records
from evodevo.multitask.report.status import SystemStatus, status_of
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.storage import Evaluation, Score, Store
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of

TASKS = ("a", "b", "c")


def grown(cycles: int = 1, *, fail: Callable[[dict[str, Any]], bool] | None = None) -> System:
    """Three tasks, on one of which two agents compete."""
    store = Store.memory()
    system = new_system(store, TASKS)
    system.add_agent("MultiVitTiny", "a", AgentSettings(classes=3))
    trainer = PathTrainer(store)
    trainer.fail = fail or trainer.fail
    system.run(tasks_of(system), cycles, executor_of(trainer))
    return system


def of(system: System) -> SystemStatus:
    return status_of(system.store, system.row)


@pytest.fixture(scope="module")
def system() -> System:
    return grown(3, fail=lambda job: job["seed"] % 5 == 0)


@pytest.mark.slow
def test_accounts_are_the_drivers_and_add_up_to_the_distinct_parameters(system: System) -> None:
    found, accounts = of(system), system.accounts()
    assert {one.name: one.offer.accounted for one in found.agents if one.offer} == pytest.approx(accounts)
    assert sum(accounts.values()) == pytest.approx(found.distinct)
    sizes = {part.id: part.parameters for one in system.view().offers.values() for part in one.components}
    assert found.distinct == sum(sizes.values())
    assert found.per_task == found.distinct / len(TASKS)
    assert found.view == system.view().seq


def test_the_leader_of_a_task_is_who_answers_for_it(system: System) -> None:
    for one in of(system).tasks:
        best = system.best(one.name)
        assert one.best == best.path.agent
        assert one.offer is not None
        assert (one.offer.path, one.offer.quality) == (best.path.id, best.quality)


def test_what_an_offer_is_made_of(system: System) -> None:
    found, view = of(system), system.view()
    for name, known in view.offers.items():
        offer = found.agent(name).offer
        assert offer is not None
        row = system.store.systems.individuals([known.id])[known.id]
        assert offer.parameters == known.parameters == row.details["parameters"]
        assert offer.trained == row.details["trainable"], "what was trained for a path is what learned in it"
        assert offer.trained <= offer.made <= offer.parameters <= offer.activated
        assert offer.inside == tuple(f"{sub.agent}/{sub.number}" for sub in known.path.paths)
        mine = [one for one in found.sharing if one.user == name]
        assert sum(one.components for one in mine) == len(known.components)
        assert sum(one.parameters for one in mine) == offer.parameters
        assert sum(one.parameters for one in mine if one.maker == name) == offer.made
    multi = found.agent("MultiVitTiny~a").offer
    assert multi is not None
    inside = [system.library.by_number(*_split(one)) for one in multi.inside]
    parts = {part.id: part.parameters for one in inside for part in one.components}
    assert multi.activated == multi.parameters + sum(parts.values())


def test_tasks_are_charged_for_what_their_agents_made(system: System) -> None:
    found = of(system)
    (a,) = (one for one in found.tasks if one.name == "a")
    assert a.agents == ("VitTiny~a", "MultiVitTiny~a")
    names = {one.id: one.name for one in system.agents()}
    view = system.view()
    paths = [view.offers[one] for one in a.agents]
    paths += [system.library.by_number(sub.agent, sub.number) for sub in paths[1].path.paths]
    parts = {part.id: part for one in paths for part in one.components}.values()
    assert a.added == sum(part.parameters for part in parts if names[part.agent_id] in a.agents)
    assert a.added + a.shared == sum(part.parameters for part in parts)


def test_children_are_counted_by_the_fates_that_are_told(system: System) -> None:
    seen: Counter[str] = Counter()
    for one in of(system).agents:
        paths = system.store.systems.paths(one.id)
        every = child_records(system.store, [path.id for path in paths])
        assert every[0] == child_record(system.store, paths[0].id), "read together or one by one"
        for number, children in one.by_cycle.items():
            told = Counter(child["fate"] for child in every if child["cycle"] == number)
            counted = {"kept": children.kept, "discarded": children.discarded, "failed": children.failed}
            assert counted == {name: told[name] for name in counted}
            assert children.finished == children.created == sum(told.values())
            seen += told
    assert set(seen) == {"kept", "discarded", "failed"}, "all of them happened"


def test_every_child_can_be_explained(system: System) -> None:
    paths = system.store.systems.paths(system.agent("VitTiny~a").id)
    for one in child_records(system.store, [path.id for path in paths]):
        if one["fate"] != "failed":
            assert (one["fate"] == "kept") == (one["bar"] is None or one["score"] > one["bar"])
        assert one["why"].startswith(one["fate"])
        assert one["chosen"]["parent"] == one["parent"]
        fresh = {part["role"]: part["how"] for part in one["components"]}
        assert "clone:encoder_norm" in one["applied"] or fresh["encoder_norm"] == "clone"
    with pytest.raises(NotFoundError):
        child_record(system.store, "nobody")


def test_the_course_of_an_agent_is_what_it_published(system: System) -> None:
    for one in of(system).agents:
        rows = [row for row in system.store.systems.publications(system.row.id) if row.agent_id == one.id]
        cycles = course(system.store, system.row, one)
        assert [cycle.number for cycle in cycles] == [row.cycle for row in rows]
        for cycle, row in zip(cycles, rows, strict=True):
            known = system.library.one(row.path_id or "")
            assert (cycle.path, cycle.quality, cycle.state) == (known.path.id, known.quality, "closed")
        assert one.cycles == len(cycles)
        assert cycles[-1].path == (one.offer.path if one.offer else None)


@pytest.mark.slow
def test_a_measurement_on_test_data_is_shown_and_decides_nothing() -> None:
    system = grown()
    before = of(system)
    worse = next(one for one in before.agents if one.task == "a" and one.name != before.tasks[0].best)
    for one in before.agents:
        if one.offer is not None and not one.root:
            known = system.view().offers[one.name]
            lease = system.store.acquire(one.id)
            value = 1.0 if one is worse else 0.25
            system.store.finish_evaluation(
                lease, Evaluation(known.id, TEST, 0, 1, scores={ACCURACY: Score(value)}, extra={"samples": 9})
            )
            system.store.release(lease)
    after = of(system)
    assert [one.best for one in after.tasks] == [one.best for one in before.tasks]
    assert [one.offer.test for one in after.tasks if one.offer] == [0.25] * 3
    found = after.agent(worse.name)
    assert found.offer is not None
    assert found.offer.test == 1.0
    assert course(system.store, system.row, found)[-1].test == 1.0
    assert found.by_cycle == worse.by_cycle, "it is no child"


def test_a_cycle_that_was_stopped_is_open_and_says_how_far_it_is() -> None:
    store = Store.memory()
    system = new_system(store, ("a", "b"))
    stopped: list[str] = []

    def listen(kind: str, facts: dict[str, Any]) -> None:
        if kind == "child" and facts["agent"] == "VitTiny~b" and not stopped:
            stopped.append(facts["individual"])
            held = {one.name: one.holder for one in of(running).agents}
            assert held["VitTiny~a"] == held["VitTiny~b"]
            assert "process" in str(held["VitTiny~a"])
            running.stop()

    running = System.open(store, "zoo", listener=listen)
    assert running.run(tasks_of(running), 1, executor_of(PathTrainer(store))).state == "interrupted"
    b = of(system).agent("VitTiny~b")
    assert (b.state, b.open, b.cycles, b.holder) == ("new", 0, 0, None)
    assert 0 < b.last.finished < b.last.created
    (cycle,) = course(store, system.row, b)
    assert (cycle.state, cycle.path, cycle.quality) == ("open", None, None)
    waiting = [
        one for one in child_records(store, [row.id for row in store.systems.paths(b.id)]) if one["fate"] == "waiting"
    ]
    assert len(waiting) == b.last.created - b.last.finished


def test_who_withdrew_is_told_from_who_never_had_anything() -> None:
    store = Store.memory()
    system = new_system(store, ("a", "b", "c"))
    trainer = PathTrainer(store)
    trainer.fail = lambda job: job["path"]["task"] == "c"
    with pytest.raises(Exception, match="children failed"):
        system.run([system.agent("VitTiny~a"), system.agent("VitTiny~c")], 1, executor_of(trainer))
    system.withdraw("VitTiny~a")
    found = of(system)
    states = {one.name: one.state for one in found.agents if not one.root}
    assert states == {"VitTiny~a": "withdrawn", "VitTiny~b": "new", "VitTiny~c": "new"}
    assert [(one.name, one.best) for one in found.tasks] == [("a", None), ("b", None), ("c", None)]
    assert found.per_task is None
    c = found.agent("VitTiny~c")
    assert (c.cycles, c.offer) == (0, None)
    assert c.last.failed == c.last.created == 4


@pytest.mark.slow
def test_paths_that_were_replaced_stay_pinned_by_those_that_run_through_them() -> None:
    system = grown()
    assert of(system).pinned == 0
    singles = [one for one in tasks_of(system) if one.kind == "VitTiny"]
    system.run(singles, 4, executor_of(PathTrainer(system.store)))
    found, view = of(system), system.view()
    multi = view.offers["MultiVitTiny~a"]
    published = {part.id for one in view.offers.values() for part in one.components}
    inside = {
        part.id: part.parameters
        for sub in multi.path.paths
        for part in system.library.by_number(sub.agent, sub.number).components
        if part.id not in published
    }
    assert found.pinned == sum(inside.values()) > 0


@pytest.mark.slow
def test_a_larger_system_costs_no_further_questions() -> None:
    counts = []
    for tasks, cycles in ((1, 1), (4, 2)):
        store = Store.memory()
        system = new_system(store, tuple(f"t{number}" for number in range(tasks)))
        system.run(tasks_of(system), cycles, executor_of(PathTrainer(store)))
        asked: list[str] = []
        engine = store._database.engine
        listen = lambda *arguments, asked=asked: asked.append(arguments[2])  # noqa: E731
        event.listen(engine, "before_cursor_execute", listen)
        of(system)
        event.remove(engine, "before_cursor_execute", listen)
        counts.append((len(asked), sum("FROM seal" not in statement for statement in asked)))
    assert counts[0] == counts[1]
    assert counts[0][1] <= 20, "without those that compare seals"


def _split(name: str) -> tuple[str, int]:
    agent, _, number = name.rpartition("/")
    return agent, int(number)
