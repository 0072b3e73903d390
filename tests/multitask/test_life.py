"""What a system is for: tasks that build on one another, compete, and go, while nothing that is there is damaged."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.errors import NotFoundError, UsageError
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.agents.singlepath import Singlepath
from evodevo.multitask.settings import AgentSettings, CycleSettings
from evodevo.multitask.system import ROOT_TASK, System
from evodevo.storage import Store
from evodevo.testing.multitask.paths import SIZES, PathTrainer, add, executor_of, new_system, tasks_of, told


def grown(tasks: tuple[str, ...] = ("a", "b"), cycles: int = 1) -> System:
    system = new_system(Store.memory(), tasks)
    go(system, cycles)
    return system


def go(system: System, cycles: int, **other: Any) -> None:
    agents = [one for one in tasks_of(system) if not system.is_withdrawn(one)]
    assert system.run(agents, cycles, executor_of(PathTrainer(system.store), 2), **other).state == "finished"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (AgentSettings(classes=0), "at least 1 class"),
        (AgentSettings(classes=3, options={"root": "random_init"}), "needs its origin"),
        (AgentSettings(classes=3, options={"nonsense": 1}), "unknown key 'nonsense'"),
    ],
)
def test_settings_that_make_no_agent_are_refused_when_it_is_added(settings: AgentSettings, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        new_system(Store.memory()).add_agent("VitTiny", "c", settings)


@pytest.mark.slow
def test_a_later_task_builds_on_earlier_ones_unless_it_is_bound_to_the_root() -> None:
    system = grown(("a",), 2)
    add(system, "free")
    bound = AgentSettings(classes=3, options={"hyperparameters": SIZES}, builds_on=(f"*~{ROOT_TASK}~*",))
    system.add_agent("VitTiny", "bound", bound)
    go(system, 3)
    owner = {row.id: one.name for one in system.agents() for row in system.store.individuals(one.id)}
    parents = {
        name: {owner[row.details["parent"]] for row in system.store.individuals(system.agent(f"VitTiny~{name}").id)}
        for name in ("bound", "free")
    }
    root = f"VitTiny~{ROOT_TASK}~random_init"
    assert parents["bound"] == {root, "VitTiny~bound"}
    assert {"VitTiny~a", "VitTiny~free"} <= parents["free"] <= {root, "VitTiny~a", "VitTiny~free"}
    makers = {part.id.split(":")[0] for part in system.view().offers["VitTiny~bound"].components}
    assert makers <= {root, "VitTiny~bound"}


@pytest.mark.slow
def test_a_withdrawn_task_leaves_what_others_use() -> None:
    system = grown(("a", "b"), 2)
    go(system, 3)
    used = {part.id for name, one in system.view().offers.items() if name != "VitTiny~a" for part in one.components}
    system.withdraw("VitTiny~a")
    assert "VitTiny~a" not in system.view().offers
    system.store.gc(grace_seconds=0)
    held = {one.id for one in system.store.systems.components(system.row.id) if one.held}
    assert used <= held
    assert system.store.check(deep=True).ok
    with pytest.raises(NotFoundError, match=r"no agent .* offers a path for task 'a'"):
        system.best("a")
    with pytest.raises(UsageError, match=r"VitTiny~a.*was withdrawn"):
        system.run(tasks_of(system), 4, executor_of(PathTrainer(system.store)))
    with pytest.raises(UsageError, match="withdrawn already"):
        system.withdraw("VitTiny~a")
    go(system, 4)
    distinct = {c.id: c.parameters for one in system.view().offers.values() for c in one.components}
    assert sum(system.accounts().values()) == pytest.approx(sum(distinct.values()))


def test_withdrawing_the_root_changes_no_score() -> None:
    system = grown(("a",), 1)
    system.withdraw("VitTiny~root_model~random_init")
    go(system, 2)
    factors = [one.details["factor"] for one in system.store.individuals(system.agent("VitTiny~a").id)]
    assert all(0 < factor < 1 for factor in factors), "the base of the scores is still there"


@pytest.mark.slow
def test_agents_of_two_classes_compete_on_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = dict(AGENTS._rows)
    monkeypatch.setattr(AGENTS, "_rows", rows)
    AGENTS.add("VitOther", Singlepath("VitOther", "tiny", "tiny"))
    system = grown(("a",))
    options = {"structure": {"width": 8, "heads": 2, "hidden": 8}, "hyperparameters": SIZES}
    system.add_root("VitOther", "random_init", AgentSettings(classes=0, options=options))
    system.add_agent("VitOther", "a", AgentSettings(classes=3, options={"hyperparameters": SIZES}))
    go(system, 2)
    offers = system.view().offers
    assert {"VitTiny~a", "VitOther~a"} <= set(offers)
    best = max(("VitTiny~a", "VitOther~a"), key=lambda name: offers[name].quality or 0)
    assert system.best("a").path.agent == best
    assert system.best("a", agent="VitOther~a").path.agent == "VitOther~a"
    own = {part.id.split("~")[0] for part in offers["VitOther~a"].components}
    assert own == {"VitOther"}, "classes that do not read each other share nothing"


@pytest.mark.slow
def test_an_asynchronous_run_is_repeated_from_its_views_with_those_who_left_it() -> None:
    first, again = (new_system(Store.memory(), ("a", "b", "c"), samples=2) for _ in range(2))
    go(first, 2, schedule="free")
    first.withdraw("VitTiny~b")
    go(first, 3, schedule="free")
    first.withdraw("VitTiny~a")
    again.replay(first, executor_of(PathTrainer(again.store)))
    assert told(again) == told(first)
    assert [one.name for one in again.agents() if again.is_withdrawn(one)] == ["VitTiny~a", "VitTiny~b"]
    views = [view for agent, _, _, view, _ in told(first)["cycles"] if "root" not in agent]
    assert len(set(views)) > 3, "agents saw what there was at the time, not rounds"
    again.replay(first, executor_of(PathTrainer(again.store)))
    assert told(again) == told(first), "what was repeated whole is not repeated twice"
    go(again, 4)
    with pytest.raises(UsageError, match="empty system"):
        again.replay(first, executor_of(PathTrainer(again.store)))


@pytest.mark.slow
def test_an_agent_that_was_withdrawn_in_the_midst_of_a_cycle_is_withdrawn_there() -> None:
    first, again = new_system(Store.memory()), new_system(Store.memory())
    go(first, 1)
    watched = System(first.store, first.row, listener=lambda kind, facts: watched.stop() if kind == "child" else None)
    assert watched.run(tasks_of(first), 2, executor_of(PathTrainer(first.store))).state == "interrupted"
    first.withdraw("VitTiny~a")
    go(first, 2)
    again.replay(first, executor_of(PathTrainer(again.store)))
    mine, theirs = told(again), told(first)
    assert mine["publications"] != []
    assert [one[:2] + one[3:] for one in mine["publications"]] == [one[:2] + one[3:] for one in theirs["publications"]]
    assert set(again.view().offers) == set(first.view().offers)


@pytest.mark.slow
def test_a_stopped_asynchronous_run_goes_on_with_the_views_that_it_has() -> None:
    system = new_system(Store.memory())
    agents, seen = tasks_of(system), 0

    def count(kind: str, facts: dict[str, Any]) -> None:
        nonlocal seen
        seen += kind == "child"
        if seen == 6:
            watched.stop()

    watched = System(system.store, system.row, listener=count)
    assert watched.run(agents, 2, executor_of(PathTrainer(system.store)), schedule="free").state == "interrupted"
    before = told(system)["cycles"]
    go(system, 2, schedule="free")
    views = {(agent, number): view for agent, number, _, view, _ in told(system)["cycles"]}
    assert all(views[agent, number] == view for agent, number, _, view, _ in before)
    again = new_system(Store.memory())
    again.replay(system, executor_of(PathTrainer(again.store)))
    assert told(again) == told(system)


@pytest.mark.slow
def test_an_agent_keeps_several_paths_where_that_is_asked_for() -> None:
    system = new_system(Store.memory(), ("a",))
    cycle = CycleSettings(samples=4, generation_size=2, retained=3)
    system.add_agent("VitTiny", "wide", AgentSettings(classes=3, cycle=cycle, options={"hyperparameters": SIZES}))
    go(system, 2)
    first = system.store.systems.cycles(agent_id=system.agent("VitTiny~wide").id)[0]
    assert first.retained
    population = system.store.individuals(system.agent("VitTiny~wide").id)[-1].details["story"]["population"]
    assert set(first.retained) <= {one["id"] for one in population}


def test_children_of_convolutions_share_no_root_at_random_and_have_their_own_defaults() -> None:
    store = Store.memory()
    system = System.create(store, "zoo", seed=3)
    system.add_root("ConvTiny", "random_init", AgentSettings(classes=0))
    for task in "ab":
        system.add_agent("ConvTiny", task, AgentSettings(classes=3))
    system.run(system.agents(), 2, executor_of(PathTrainer(store)))
    agent = system.agent("ConvTiny~a")
    assert agent.settings["training"] == {
        "batch": 64,
        "least_between": 8000,
        "least_steps": 500,
        "first_look": True,
    }
    assert agent.settings["cycle"]["samples"] == 8
    root = f"ConvTiny~{ROOT_TASK}~random_init"
    used = {part.id for name, one in system.view().offers.items() if name != root for part in one.components}
    assert used, "there is something to share"
    assert not any(part.startswith(f"{root}:") for part in used)
    shared = [part for row in store.individuals(agent.id) for part in row.details["parts"] if not part["train"]]
    assert shared, "what others have trained is shared"
