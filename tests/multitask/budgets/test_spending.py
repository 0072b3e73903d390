"""A system under a budget: what it may use, that it keeps to it, and that the record alone decides when it goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.budgets.budget import FEWEST, PERIODS, read_budget
from evodevo.multitask.budgets.spending import Spending, course_of, recorded
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.search.problem import read_answer, write_answer
from evodevo.storage import Store, database
from evodevo.storage.systems import store as systems
from evodevo.testing.multitask.paths import PathTrainer, executor_of, new_system, tasks_of, told


class Killed(BaseException):
    """In the place of a SIGKILL."""


class Counting(PathTrainer):
    """Children make the steps that they are allowed; every third one is flat before."""

    def __init__(self, store: Store, after: Callable[[int], None] = lambda steps: None) -> None:
        super().__init__(store)
        self.after = after

    def __call__(self, payload: bytes, report: object) -> bytes:
        training = canonical.loads(payload)["training"]
        answer = read_answer(super().__call__(payload, report))
        if "root" not in canonical.loads(payload):
            flat = canonical.loads(payload)["seed"] % 3 == 0
            answer.extra["steps"] = training["steps" if flat else "most_steps"]
            self.after(answer.extra["steps"])
        return write_answer(answer)


def go(
    system: System,
    given: str,
    *,
    cycles: int | None = None,
    workers: int = 1,
    pace: float = 0.01,
    clock: Callable[[], float] = lambda: 0.0,
    after: Callable[[int], None] = lambda steps: None,
) -> Spending:
    every, agents = system.agents(), tasks_of(system)
    course = course_of(system.store, system.row.id, every, agents, given, cycles)
    paces = {agent.id: pace for agent in every}
    spending = Spending(
        system.store, system.row.id, every, agents, read_budget(given), course, pace=paces, workers=1, clock=clock
    )
    spending.schedule()
    trainer = Counting(system.store, after)
    system.run(agents, course.target, executor_of(trainer, workers), spending=spending)
    return spending


def steps(system: System) -> list[int]:
    rows = [row.id for agent in tasks_of(system) for row in system.store.individuals(agent.id)]
    found = system.store.systems.evaluations_of(rows)
    return [result.extra["answer"]["steps"] for results in found.values() for result in results]


def made(given: str, **other: Any) -> System:
    system = new_system(Store.memory())
    go(system, given, **other)
    return system


@pytest.mark.parametrize(("given", "cycles"), [("1000steps", 1), ("4700steps", 2), ("30000steps", 2)])
def test_a_budget_in_steps_is_kept_and_no_child_is_too_short(given: str, cycles: int) -> None:
    system = made(given, cycles=cycles)
    found = steps(system)
    assert sum(found) <= read_budget(given).amount
    assert min(found) >= FEWEST
    ended = [cycle for cycle in system.store.systems.cycles(system_id=system.row.id) if cycle.state != "open"]
    assert len(ended) == 1 + 2 * cycles, "the root's, and each agent's"
    assert all(f"VitTiny~{task}" in system.view().offers for task in "ab")


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize("given", [n * PERIODS * FEWEST + more for n in (1, 2, 3) for more in (-1, 0)])
def test_what_begins_differently_is_tried_as_far_as_each_gets_its_periods(
    given: int, moved: bool, trained: bool
) -> None:
    shift = {"hyperparameters": {"ds_shift": {"values": [0.0, 0.1], "default": 0.1 if moved else 0.0}}}
    system = System.create(Store.memory(), "zoo")
    options = {"root": "checkpoint", "checkpoint": "builtin:characters"} if trained else {"root": "random_init"}
    root = AgentSettings(classes=0, root=True, options=options)
    system.add_root("ConvSmall", str(options["root"]), root)
    system.add_agent("ConvSmall", "a", AgentSettings(classes=3, options=shift))
    go(system, f"{given}steps")
    (allowed,) = [
        one for (name, _), (_, one) in recorded(system.store, system.agents()).of_cycle.items() if "~a" in name
    ]
    differently = 1 + moved + trained
    assert allowed.children == max(1, min(differently, given // (PERIODS * FEWEST)))
    assert allowed.generation_size == allowed.children, "none goes on with another one"
    assert allowed.children == 1 or allowed.most_steps >= PERIODS * FEWEST


def test_what_a_flat_child_leaves_goes_to_later_cycles() -> None:
    system = made("30000steps", cycles=2)
    known = recorded(system.store, system.agents()).of_cycle
    first, second = (sum(known[f"VitTiny~{task}", number][1].total for task in "ab") for number in (0, 1))
    assert second > first


def test_the_shortest_budget_that_is_named_suffices_and_one_step_less_does_not() -> None:
    with pytest.raises(UsageError) as caught:
        made("700steps", cycles=2)
    named = re.search(r"the shortest one is (\d+)steps", str(caught.value))
    assert named is not None
    assert "\n" not in str(caught.value)
    shortest = int(named[1])
    assert shortest == 4 * FEWEST
    assert len(steps(made(f"{shortest}steps", cycles=2))) == 4
    with pytest.raises(UsageError, match=f"too short for one child.*{shortest}steps"):
        made(f"{shortest - 1}steps", cycles=2)
    with pytest.raises(UsageError, match="the shortest one is 10s"):
        made("1s", pace=0.01)


@pytest.mark.parametrize(
    ("what", "passing"), [("event", 1), ("cycle", 2), ("cycle", 3), ("tell", 4), ("publish", 2), ("event", 2)]
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_wherever_it_is_killed_it_goes_on_as_if_it_had_not_been(
    monkeypatch: pytest.MonkeyPatch, when: str, what: str, passing: int
) -> None:
    whole = told(made("9000steps", cycles=2))
    system, left = new_system(Store.memory()), passing

    def failpoint(name: str) -> None:
        nonlocal left
        left -= name == f"{when}_{what}_commit"
        if left == 0:
            left = -1
            raise Killed

    monkeypatch.setattr(systems, "failpoint", failpoint)
    monkeypatch.setattr(database, "failpoint", failpoint)
    with pytest.raises(Killed):
        go(system, "9000steps", cycles=2)
    go(System.open(system.store, "zoo"), "9000steps", cycles=2)
    assert told(system) == whole


def test_workers_change_nothing() -> None:
    assert told(made("9000steps", cycles=2, workers=2)) == told(made("9000steps", cycles=2))


@pytest.mark.parametrize(
    ("tasks", "workers", "allowed"), [("a", 1, (1, 1, 1_000)), ("a", 2, (2, 2, 1_000)), ("ab", 2, (1, 1, 1_000))]
)
def test_a_time_gives_every_worker_a_child_and_no_agent_more_than_that_needs(
    tasks: str, workers: int, allowed: tuple[int, int, int]
) -> None:
    system = new_system(Store.memory(), tuple(tasks))
    every, agents = system.agents(), tasks_of(system)
    course = course_of(system.store, system.row.id, every, agents, "10s", None)
    paces = {agent.id: 0.01 for agent in every}
    budget, clock = read_budget("10s"), lambda: 0.0
    spending = Spending(
        system.store, system.row.id, every, agents, budget, course, pace=paces, workers=workers, clock=clock
    )
    found = {(one.children, one.generation_size, one.most_steps) for _, _, one in spending.schedule()}
    assert found == {allowed}


def test_the_same_command_begins_one_cycle_more_once_it_is_finished() -> None:
    system = made("4000steps")
    go(system, "4000steps")
    known = recorded(system.store, system.agents())
    assert known.last is not None
    assert (known.last.number, known.last.target) == (2, 2)
    assert sum(steps(system)) <= 8_000


def test_a_time_decides_about_children_and_its_record_is_replayed_whatever_the_clock_says() -> None:
    now = 0.0

    def later(count: int) -> None:
        nonlocal now
        now += 0.015 * count  # half as slow again as was measured

    system = new_system(Store.memory())
    go(system, "100s", cycles=2, clock=lambda: now, after=later)
    known = recorded(system.store, system.agents()).of_cycle
    first, second = ([known[f"VitTiny~{task}", number][1] for task in "ab"] for number in (0, 1))
    assert {(one.children, one.most_steps) for one in first} == {(1, 2_500)}
    assert max(one.total for one in second) < min(one.total for one in first), "the time that is left is shared"
    assert {one.steps for one in (*first, *second)} == {FEWEST}
    other = new_system(Store.memory())
    other.replay(system, executor_of(Counting(other.store)))
    first, again = told(system), told(other)
    for facts in (first, again):  # a replay has no rounds
        facts["cycles"] = [[agent, number, view, state] for agent, number, _, view, state in facts["cycles"]]
    assert again == first


def test_an_agent_without_a_path_has_a_child_whatever_others_took() -> None:
    now = 0.0

    def later(count: int) -> None:
        nonlocal now
        now += 1_000.0

    system = new_system(Store.memory())
    go(system, "60s", cycles=2, clock=lambda: now, after=later)
    assert {f"VitTiny~{task}" for task in "ab"} <= set(system.view().offers)
    cycles = [cycle.number for cycle in system.store.systems.cycles(system_id=system.row.id)]
    assert max(cycles) == 0, "no cycle begins when the time is over"
