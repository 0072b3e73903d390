"""The driver over real training: tasks of the digits, paths of a few hundred parameters, evaluated in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.evaluate import open_path
from evodevo.multitask.evaluate_settings import PathRequest
from evodevo.multitask.measure import measure
from evodevo.multitask.settings import AgentSettings, CycleSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.multitask.training.values import data_values
from evodevo.settings import validate
from evodevo.storage import Store

SIZES = {"num_layers": {"values": [0, 1, 2], "default": 1}, "ds_image_size": {"values": [8, 16], "default": 8}}
ROOT = {"structure": {"width": 16, "heads": 2, "hidden": 32}, "hyperparameters": SIZES}
TRAINING = {"validations": 2, "most_between": 600, "device": "cpu"}
TASKS: dict[str, tuple[int, dict[str, Any]]] = {"digits": (10, {}), "parity": (2, {"question": "parity"})}


def new_system(store: Store) -> System:
    cycle = CycleSettings(samples=2, generation_size=2)
    system = System.create(store, "digits", seed=3, settings=SystemSettings(cycle=cycle, training=TRAINING))
    system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options=ROOT))
    for name, (count, source) in TASKS.items():
        own = {"hyperparameters": SIZES}
        system.add_agent("VitTiny", name, AgentSettings(classes=count, task=source, options=own))
    return system


def run(system: System, cycles: int, folder: Path) -> None:
    agents = [one for one in system.agents() if not one.settings["root"]]
    with SerialExecutor() as executor:
        assert system.run(agents, cycles, executor, cache=str(folder / "cache")).state == "finished"


def logits(system: System, known: PublishedPath, folder: Path) -> torch.Tensor:
    """What a published path answers to fixed images, built from the blobs as a worker builds it."""
    agent = system.agent(known.path.agent)
    request = {
        "path": known.path.model_dump(mode="json"),
        "components": {part.role: {"digest": part.digest} for part in known.components},
        "supports": [
            {"path": sub.path.model_dump(mode="json"), "components": {p.role: p.digest for p in sub.components}}
            for sub in (system.library.by_number(one.agent, one.number) for one in known.path.paths)
        ],
        "task": agent.task,
        "task_settings": agent.settings["task"],
        "blobs": str(system.store.blobs_folder),
        "cache": str(folder / "cache"),
    }
    built, task, _ = open_path(validate(PathRequest, request, what="request"))
    read = built.reader(task, "test", data_values({}), 0)
    built.model.eval()
    with torch.no_grad():
        return built.model(read(np.arange(16), None))


@pytest.mark.slow
def test_published_paths_answer_alike_for_ever(store: Store, tmp_path: Path) -> None:
    system = new_system(store)
    run(system, 1, tmp_path)
    before = {name: logits(system, one, tmp_path) for name, one in system.view().offers.items() if one.path.classes}
    old = {one.path.agent: one for one in system.view().offers.values()}
    system.add_agent("MultiVitTiny", "digits", AgentSettings(classes=10))
    run(system, 2, tmp_path)
    assert set(before) == {"VitTiny~digits", "VitTiny~parity"}
    for name, answer in before.items():
        assert torch.equal(logits(system, old[name], tmp_path), answer), name
    assert store.check(deep=True).ok
    multi = system.view().offers["MultiVitTiny~digits"]
    assert logits(system, multi, tmp_path).shape == (16, 10)
    distinct = {part.id: part.parameters for one in system.view().offers.values() for part in one.components}
    assert sum(system.accounts().values()) == pytest.approx(sum(distinct.values()))
    with SerialExecutor() as executor:
        accuracy = measure(system, system.best("digits"), executor, cache=str(tmp_path / "cache"))
    assert 0.05 < accuracy <= 1
    with SerialExecutor(evaluators={"path_test": lambda payload, report: 1 / 0}) as executor:
        assert measure(system, system.best("digits"), executor) == accuracy, "it is measured once"
