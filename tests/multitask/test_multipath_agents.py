"""Multipath agents: which paths they run through, what they inherit, and that they leave all of them as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.testing.multitask.paths import SIZES, PathTrainer, add, executor_of, new_system, tasks_of, told

TASKS = ("a", "b", "c")


def grown(cycles: int, options: dict[str, Any] | None = None, tasks: tuple[str, ...] = TASKS) -> System:
    system = new_system(Store.memory(), tasks)
    system.add_agent("MultiVitTiny", "a", AgentSettings(classes=3, options=options or {}))
    system.run(tasks_of(system), cycles, executor_of(PathTrainer(system.store)))
    return system


@pytest.fixture(scope="module")
def system() -> System:
    """For tests that only look."""
    return grown(4)


def children(system: System) -> Iterator[dict[str, Any]]:
    for row in system.store.individuals(system.agent("MultiVitTiny~a").id):
        yield {**row.genome_envelope["genes"], "details": row.details, "id": row.id, "cycle": row.generation}


@pytest.mark.slow
def test_singlepath_rounds_come_first(system: System) -> None:
    published = [one[1] for one in told(system)["publications"]]
    assert published[-4:] == ["MultiVitTiny~a"] * 4
    assert "MultiVitTiny~a" not in published[:-4]


def test_paths_are_of_distinct_agents_the_main_one_first(system: System) -> None:
    for child in children(system):
        agents = [one["agent"] for one in child["paths"]]
        assert agents[0] == "VitTiny~a"
        assert len(set(agents)) == len(agents)
        assert len(agents) == child["hparams"]["num_paths"]
        assert {part["role"] for part in child["details"]["parts"]} == {
            "router",
            *(f"connector_{number}" for number in range(1, len(agents))),
        }
        assert all(part["train"] for part in child["details"]["parts"])


def test_a_child_keeps_its_parents_supports_and_what_belongs_to_them(system: System) -> None:
    by_id = {one["id"]: one for one in children(system)}
    kept = [one for one in by_id.values() if one["details"]["parent"]]
    assert kept
    for child in kept:
        parent = by_id[child["details"]["parent"]]
        same = child["paths"][1:] == parent["paths"][1:]
        common = min(len(child["paths"]), len(parent["paths"]))
        assert child["paths"][1:common] == parent["paths"][1:common]
        parts = {part["role"]: part for part in child["details"]["parts"]}
        assert (parts["router"]["source"] is not None) == same
        for number in range(1, len(child["paths"])):
            inherited = parts[f"connector_{number}"]["source"] is not None
            assert inherited == (number < len(parent["paths"]))


def test_the_score_is_the_accuracy_and_what_is_run_through_is_not_split(system: System) -> None:
    view = system.view()
    multi = view.offers["MultiVitTiny~a"]
    assert system.accounts()["MultiVitTiny~a"] == multi.parameters
    assert not {part.id for part in multi.components} & {
        part.id for name, one in view.offers.items() if name != "MultiVitTiny~a" for part in one.components
    }
    results = [one for name, one in told(system).items() if name.startswith("MultiVitTiny~a/")]
    assert all(one["results"][0][2]["score"] == one["results"][0][2]["quality"] for one in results)


@pytest.mark.slow
def test_no_singlepath_agent_builds_on_a_multipath_one() -> None:
    system = grown(1, tasks=("a", "b"))
    add(system, "d")
    system.run(tasks_of(system), 2, executor_of(PathTrainer(system.store)))
    multi = {one["id"] for one in children(system)}
    for task in ("a", "b", "d"):
        rows = system.store.individuals(system.agent(f"VitTiny~{task}").id)
        assert not {row.details["parent"] for row in rows} & multi


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uniform", "informed"])
def test_supports_are_readable_paths_of_distinct_agents(kind: str) -> None:
    """Of the class that it reads, of those that can read the task's samples, in view, each agent once."""
    options = {"child": {"supports": {"sampler": {"kind": kind}}}, "most_paths": 3}
    system = new_system(Store.memory(), TASKS)
    system.add_agent("VitTiny", "y", AgentSettings(classes=3, options={"hyperparameters": SIZES}))
    system.add_agent("MultiVitTiny", "a", AgentSettings(classes=3, options=options))
    agents = [one for one in tasks_of(system) if one.task != "y"]  # y never runs, so that nobody sees a path of it
    system.run(agents, 2, executor_of(PathTrainer(system.store)))
    seen: set[str] = set()
    views = {one.number: one.view for one in system.store.systems.cycles(agent_id=system.agent("MultiVitTiny~a").id)}
    for child in children(system):
        inside = [one["agent"] for one in child["paths"]]
        assert inside[0] == "VitTiny~a"
        assert len(set(inside)) == len(inside)
        assert set(inside) <= set(system.view(views[child["cycle"]]).offers)
        assert not any(one.startswith("Multi") for one in inside)
        seen |= set(inside[1:])
    assert "VitTiny~y" not in seen
    assert len(seen) >= 2


@pytest.mark.slow
def test_withdrawn_supports_still_serve_whoever_runs_through_them_and_a_support_may_be_forced() -> None:
    root = "VitTiny~root_model~random_init"
    system = grown(1, {"child": {"supports": {"first": root}}}, ("a", "b"))
    assert {one["paths"][1]["agent"] for one in children(system)} == {root}, "also one that answers no task"
    inside = system.view().offers["MultiVitTiny~a"].path.paths
    for one in inside[1:]:
        system.withdraw(one.agent)
    system.store.gc(grace_seconds=0)
    assert system.store.check(deep=True).ok
    for one in inside:
        assert all(part.held for part in system.library.by_number(one.agent, one.number).components)


def test_a_multipath_agent_needs_a_path_of_its_task_and_another() -> None:
    system = new_system(Store.memory(), ("a",))
    system.add_agent("MultiVitTiny", "z", AgentSettings(classes=3))
    with pytest.raises(UsageError, match="builds on VitTiny~z, which offers no path yet"):
        system.run(tasks_of(system), 1, executor_of(PathTrainer(system.store)))
    with pytest.raises(UsageError, match="makes no roots"):
        system.add_agent("MultiVitTiny", "y", AgentSettings(classes=3, root=True))
