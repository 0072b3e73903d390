"""Multipath agents: which paths they run through, what they inherit, and that they leave all of them as they are."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.testing.multitask.paths import PathTrainer, add, executor_of, new_system, tasks_of, told

TASKS = ("a", "b", "c")


def grown(cycles: int, options: dict[str, Any] | None = None, workers: int = 1) -> System:
    system = new_system(Store.memory(), TASKS)
    system.add_agent("MultiVitTiny", "a", AgentSettings(classes=3, options=options or {}))
    system.run(tasks_of(system), cycles, executor_of(PathTrainer(system.store), workers))
    return system


def children(system: System) -> list[dict[str, Any]]:
    names = {one.id: one.name for one in system.agents()}
    rows = system.store.individuals(system.agent("MultiVitTiny~a").id)
    assert names
    return [{**row.genome_envelope["genes"], "details": row.details, "id": row.id} for row in rows]


@pytest.mark.slow
def test_singlepath_rounds_come_first_whatever_the_workers() -> None:
    system = grown(2)
    published = [one[1] for one in told(system)["publications"]]
    assert published[-2:] == ["MultiVitTiny~a"] * 2
    assert "MultiVitTiny~a" not in published[:-2]
    assert told(system) == told(grown(2, workers=3))


@pytest.mark.slow
def test_paths_are_of_distinct_agents_the_main_one_first() -> None:
    system = grown(3)
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


@pytest.mark.slow
def test_a_child_keeps_its_parents_supports_and_what_belongs_to_them() -> None:
    system = grown(6)
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


@pytest.mark.slow
def test_the_score_is_the_accuracy_and_what_is_run_through_is_not_split() -> None:
    system = grown(2)
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
    system = grown(1)
    add(system, "d")
    system.run(tasks_of(system), 3, executor_of(PathTrainer(system.store)))
    multi = {one["id"] for one in children(system)}
    for task in (*TASKS, "d"):
        rows = system.store.individuals(system.agent(f"VitTiny~{task}").id)
        assert not {row.details["parent"] for row in rows} & multi


@pytest.mark.slow
def test_a_forced_support_and_an_informed_sampler_are_settings() -> None:
    forced = grown(2, {"child": {"supports": {"first": "VitTiny~c"}}})
    assert {one["paths"][1]["agent"] for one in children(forced)} == {"VitTiny~c"}
    informed = {"child": {"supports": {"sampler": {"kind": "informed"}}}}
    assert told(grown(3, informed)) == told(grown(3, informed, workers=3))


@pytest.mark.slow
def test_withdrawn_supports_still_serve_whoever_runs_through_them() -> None:
    system = grown(1)
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
