"""What one more task costs does not grow with the tasks that are there: commands ask the store the same for few and
for many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from evodevo.multitask.budgets.spending import recorded
from evodevo.multitask.recorded import WITHDRAWN
from evodevo.multitask.report.picture import SystemFrames
from evodevo.multitask.run.checks import check_root
from evodevo.multitask.run.create import classes_of_roots, withdrawable
from evodevo.multitask.run.run import choose, summaries
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.testing.multitask.paths import PathTrainer, add, executor_of, new_system, tasks_of

FEW, MANY = 2, 9


@contextmanager
def statements(system: System) -> Iterator[list[str]]:
    """The SQL statements of a block."""
    seen: list[str] = []

    def listen(*facts: Any) -> None:
        seen.append(facts[2])

    engine = system.store._database.engine
    event.listen(engine, "before_cursor_execute", listen)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", listen)


def grown(tasks: int, waiting: int = 0) -> System:
    """A system of so many tasks that have run, and others that have not; the first task was withdrawn."""
    system = new_system(Store.memory(), tuple(f"task{number}" for number in range(tasks)), samples=1, size=1)
    system.run(tasks_of(system), 1, executor_of(PathTrainer(system.store)))
    system.withdraw("VitTiny~task0")
    for number in range(waiting):
        add(system, f"waiting{number}")
    return System.open(system.store, "zoo")


@pytest.fixture(scope="module")
def systems() -> tuple[System, System]:
    return grown(FEW, FEW), grown(MANY, MANY)


@pytest.mark.parametrize(
    "act",
    [
        lambda system: system.withdrawn(),
        lambda system: choose(system, ["single"], []),
        lambda system: choose(system, ["VitTiny"], ["waiting1"]),
        lambda system: recorded(system.store, system.agents()),
        lambda system: check_root(system, "VitTiny"),
        lambda system: classes_of_roots(system),
        lambda system: withdrawable(system, "waiting1"),
        lambda system: system.recorded(),
        lambda system: System.open(system.store, "zoo").view(),
        lambda system: summaries(System.open(system.store, "zoo"), system.agents()),
        lambda system: SystemFrames(System.open(system.store, "zoo")).frame(),
    ],
    ids=[
        "withdrawn",
        "choose",
        "choose by class",
        "allowances",
        "add: roots",
        "add: classes",
        "withdraw",
        "replay",
        "view",
        "summaries",
        "graph",
    ],
)
def test_the_statements_of_a_command_do_not_grow_with_the_tasks(
    systems: tuple[System, System], act: Callable[[System], object]
) -> None:
    counts = []
    for system in systems:
        with statements(system) as seen:
            act(system)
        counts.append(len(seen))
    assert counts[0] == counts[1] > 0


def test_withdrawn_are_the_agents_that_offer_nothing_and_have_said_so() -> None:
    system = grown(4, 2)
    lease = system.store.acquire(system.agent("VitTiny~task2").id)
    try:  # as a process that was killed before it withdrew the path
        system.store.add_event(lease, WITHDRAWN, lease.run_id, {"name": "VitTiny~task2"})
    finally:
        system.store.release(lease)
    view = system.view()
    expected = {
        agent.id
        for agent in system.agents()
        if agent.name not in view.offers and any(one.type == WITHDRAWN for one in system.store.events(agent.id))
    }
    assert system.withdrawn() == expected == {system.agent("VitTiny~task0").id}
    assert [agent.id in expected for agent in system.agents()] == [system.is_withdrawn(one) for one in system.agents()]
