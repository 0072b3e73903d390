"""A system that is really trained, in seconds: two tasks of the digits, paths of a few thousand parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evodevo.execution.base import Executor
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.schedule import is_root
from evodevo.multitask.settings import AgentSettings, CycleSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.storage.systems.base import AgentRow

SIZES = {"num_layers": {"values": [0, 1, 2], "default": 1}, "ds_image_size": {"values": [8, 16], "default": 8}}
STRUCTURE = {"width": 16, "heads": 2, "hidden": 32}
TRAINING = {"validations": 2, "most_between": 600, "device": "cpu"}
TASKS: Mapping[str, tuple[int, dict[str, Any]]] = {"digits": (10, {}), "parity": (2, {"question": "parity"})}


def new_real_system(
    store: Store, *, name: str = "real", root: bool = True, tasks: Mapping[str, Any] = TASKS, **cycle: Any
) -> System:
    """A system with a random root and an agent for each task, none of which has run.

    Args:
        store: a store on disk, since workers read blobs.
        name: name of the system.
        root: whether it has a root already.
        tasks: name -> (classes, settings of its data).
        cycle: settings of cycles; two children each, if left out.
    """
    settings = CycleSettings(**{"samples": 2, "generation_size": 2, **cycle})
    system = System.create(store, name, seed=3, settings=SystemSettings(cycle=settings, training=TRAINING))
    if root:
        options = {"structure": STRUCTURE, "hyperparameters": SIZES}
        system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options=options))
    for task, (classes, source) in tasks.items():
        own = {"hyperparameters": SIZES}
        system.add_agent("VitTiny", task, AgentSettings(classes=classes, task=source, options=own))
    return system


def agents_of(system: System) -> list[AgentRow]:
    """All but roots."""
    return [agent for agent in system.agents() if not is_root(agent)]


def run_real(
    system: System, cycles: int, folder: Path, *, only: str | None = None, executor: Executor | None = None
) -> None:
    """Let agents run until each has ended so many cycles.

    Args:
        system: the system of the agents.
        cycles: number of cycles of each agent.
        folder: folder of prepared data.
        only: name of the one agent that runs; None is all.
        executor: None trains in this process.
    """
    agents = agents_of(system) if only is None else [system.agent(only)]
    with executor or SerialExecutor() as used:
        assert system.run(agents, cycles, used, cache=str(folder / "cache")).state == "finished"
