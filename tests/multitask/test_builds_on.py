"""Agents may be bound to build on named others alone: a task that is learned from the root, whatever else there is."""

from __future__ import annotations

import pytest

from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import ROOT_TASK
from evodevo.storage import Store
from evodevo.testing.multitask.paths import SIZES, PathTrainer, executor_of, new_system, tasks_of


@pytest.mark.slow
def test_whoever_builds_on_roots_alone_has_no_component_of_another_task() -> None:
    system = new_system(Store.memory(), ("a", "b"), samples=8)
    options = {"hyperparameters": SIZES}
    bound = AgentSettings(classes=3, options=options, builds_on=(f"*~{ROOT_TASK}~*",))
    free = AgentSettings(classes=3, options=options)
    for name, settings in (("bound", bound), ("free", free)):
        system.add_agent("VitTiny", name, settings)
    assert system.run(tasks_of(system), 5, executor_of(PathTrainer(system.store))).state == "finished"
    store = system.store
    parents = {
        name: {row.details["parent"] for row in store.individuals(system.agent(f"VitTiny~{name}").id)}
        for name in ("bound", "free")
    }
    owner = {row.id: agent.name for agent in system.agents() for row in store.individuals(agent.id)}
    root = f"VitTiny~{ROOT_TASK}~random_init"
    assert {owner[one] for one in parents["bound"]} == {root, "VitTiny~bound"}
    assert {owner[one] for one in parents["free"]} > {root, "VitTiny~free"}
    makers = {part.id.split(":")[0] for part in system.view().offers["VitTiny~bound"].components}
    assert makers <= {root, "VitTiny~bound"}
