"""A system in rounds is what its seed says: whatever the kills, and the order of results.

Workers, stops and seeds: ``testing.multitask.agents``, for each class of agents.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

from evodevo.errors import EvaluationsFailedError, UsageError
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.storage.systems import store as systems
from evodevo.testing.multitask.paths import PathTrainer, add, executor_of, new_system, small, tasks_of, told


class Killed(BaseException):
    """In the place of a SIGKILL: nothing catches it, and what was not committed is gone."""


def run(workers: int = 1, cycles: int = 2, tasks: tuple[str, ...] = ("a", "b")) -> System:
    store = Store.memory()
    system = new_system(store, tasks)
    assert system.run(tasks_of(system), cycles, executor_of(PathTrainer(store), workers)).state == "finished"
    return system


@functools.cache
def facts_of(cycles: int = 2) -> dict[str, Any]:
    """What ``run`` leads to, for tests that only look."""
    return told(run(cycles=cycles))


@pytest.mark.parametrize(
    ("what", "passing", "cycles"), [("cycle", 3, 1), ("ask", 5, 1), ("tell", 12, 2), ("publish", 2, 1)]
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_wherever_it_is_killed_it_goes_on_as_if_it_had_not_been(
    monkeypatch: pytest.MonkeyPatch, when: str, what: str, passing: int, cycles: int
) -> None:
    """At each kind of commit, early and late in a cycle, in the first and in a later one."""
    store, left = Store.memory(), passing
    system = new_system(store)

    def failpoint(name: str) -> None:
        nonlocal left
        left -= name == f"{when}_{what}_commit"
        if left == 0:
            left = -1
            raise Killed

    monkeypatch.setattr(systems, "failpoint", failpoint)
    with pytest.raises(Killed):
        system.run(tasks_of(system), cycles, executor_of(PathTrainer(store), 2))
    again = System.open(store, "zoo")
    assert again.run(tasks_of(again), cycles, executor_of(PathTrainer(store), 2)).state == "finished"
    assert told(again) == facts_of(cycles)


@pytest.mark.slow
def test_running_again_changes_nothing_and_more_cycles_go_on_where_the_last_one_ended() -> None:
    system = run(cycles=1)
    before = {one.id: (one.digest, one.role) for one in system.store.systems.components(system.row.id)}
    trainer = PathTrainer(system.store)
    system.run(tasks_of(system), 1, executor_of(trainer))
    assert not trainer.calls
    assert told(system) == facts_of(cycles=1)
    system.run(tasks_of(system), 2, executor_of(trainer))
    assert told(system) == facts_of(cycles=2)
    after = {one.id: (one.digest, one.role) for one in system.store.systems.components(system.row.id)}
    assert before.items() < after.items(), "what was published never changes"


@pytest.mark.slow
def test_a_round_has_one_view_and_its_publications_keep_the_order_of_agents() -> None:
    system = run(3, tasks=("c", "a", "b"))
    facts = told(system)
    views: dict[int, set[int]] = {}
    for _, _, number, view, _ in facts["cycles"]:
        views.setdefault(number, set()).add(view)
    assert all(len(one) == 1 for one in views.values())
    order = [one.name for one in system.agents()]
    published = [one[1] for one in facts["publications"]]
    assert published == [order[0], *order[1:], *order[1:]]
    for seq in range(1, system.store.systems.view_now(system.row.id) + 1):
        distinct = {c.id: c.parameters for one in system.view(seq).offers.values() for c in one.components}
        assert sum(system.accounts(seq).values()) == pytest.approx(sum(distinct.values())), "all is accounted for"


def test_nothing_of_an_unfinished_cycle_is_visible() -> None:
    system = new_system(Store.memory())
    offered: list[set[str]] = []

    def watch(kind: str, facts: dict[str, Any]) -> None:
        if kind == "child":
            offered.append({one.path.agent for one in system.view().offers.values()})

    watched = System(system.store, system.row, listener=watch)
    watched.run(tasks_of(system), 1, executor_of(PathTrainer(system.store)))
    # The root, then four children of each of two agents: all see the root alone until the round ends.
    assert offered[0] == set()
    assert offered[1:5] == [{"VitTiny~root_model~random_init"}] * 4


@pytest.mark.slow
def test_the_test_metric_never_matters() -> None:
    system = new_system(Store.memory())
    trainer = PathTrainer(system.store)
    trainer.test_metric = lambda: 1.0
    system.run(tasks_of(system), 2, executor_of(trainer))
    assert told(system) == facts_of()


@pytest.mark.parametrize("how", ["it raises", "it contradicts itself"])
def test_a_child_that_fails_is_a_result_of_its_own(how: str) -> None:
    class Liar(PathTrainer):
        def __call__(self, payload: bytes, report: object) -> bytes:
            answer = super().__call__(payload, report)
            return answer.replace(b'"quality":0.', b'"quality":0.9') if chosen(self.calls[-1]) else answer

    def chosen(job: dict[str, Any]) -> bool:
        return (job["path"]["agent"], job["path"]["number"]) == ("VitTiny~a", 1)

    system = new_system(Store.memory())
    trainer = Liar(system.store) if how == "it contradicts itself" else PathTrainer(system.store)
    if how == "it raises":
        trainer.fail = chosen
    system.run(tasks_of(system), 1, executor_of(trainer))
    failed = [one for one in told(system).items() if "/" in one[0] and one[1]["results"][0][0] == "failed"]
    assert [name for name, _ in failed] == ["VitTiny~a/1"]
    assert failed[0][1]["results"][0][1] == "exception"
    assert set(system.view().offers) == {one.name for one in system.agents()}


def test_an_agent_all_of_whose_children_fail_ends_the_run_and_may_try_again() -> None:
    system = new_system(Store.memory())
    trainer = PathTrainer(system.store)
    trainer.fail = lambda job: job["path"]["agent"] == "VitTiny~a"
    with pytest.raises(EvaluationsFailedError, match=r"(?s)VitTiny~a: 4 of 4 children failed.*out of luck"):
        system.run(tasks_of(system), 1, executor_of(trainer))
    assert "VitTiny~b" in system.view().offers, "the others' work is not lost"
    trainer.fail = lambda job: False
    system.run(tasks_of(system), 1, executor_of(trainer))
    assert system.best("a").path.number >= 4


def test_agents_need_a_root() -> None:
    store = Store.memory()
    system = System.create(store, "bare")
    add(system, "a")
    with pytest.raises(UsageError, match="needs a root of class VitTiny"):
        system.run(tasks_of(system), 1, executor_of(PathTrainer(store)))


def test_generations_are_full() -> None:
    assert small(5, 2).children == 6
    assert small(16, 4).generations == 4
