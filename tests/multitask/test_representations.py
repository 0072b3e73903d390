"""A cycle of a multipath agent from kept representations is the same cycle."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.hyperparameters import DATA, multipath_hyperparameters
from evodevo.multitask.paths.weights import load_state
from evodevo.multitask.report.outcomes import child_records
from evodevo.multitask.settings import AgentSettings, CycleSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.storage.blobs import FolderPool

SIZES = {"num_layers": {"values": [1], "default": 1}, "ds_image_size": {"values": [8, 16], "default": 8}}
ROOT = {"structure": {"width": 16, "heads": 2, "hidden": 16}, "hyperparameters": SIZES}
TRAINING = {"validations": 2, "most_between": 400, "batch": 64, "device": "cpu"}
TASKS: dict[str, tuple[int, dict[str, Any]]] = {"digits": (10, {}), "parity": (2, {"question": "parity"})}
NAME = "MultiVitTiny~digits"
PINNED = {
    row.key: {"values": [row.default], "default": row.default, "tuned": False}
    for row in multipath_hyperparameters().rows
    if row.key.startswith(DATA)
}


@pytest.fixture(scope="module")
def singles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system in which a path answers each of two tasks."""
    folder = tmp_path_factory.mktemp("singles")
    with Store.open(folder / "runs") as store, SerialExecutor() as executor:
        cycle = CycleSettings(samples=2, generation_size=2)
        system = System.create(store, "zoo", seed=4, settings=SystemSettings(cycle=cycle, training=TRAINING))
        system.add_root("VitTiny", "random_init", AgentSettings(classes=0, options=ROOT))
        for name, (count, source) in TASKS.items():
            settings = AgentSettings(classes=count, task=source, options={"hyperparameters": SIZES})
            system.add_agent("VitTiny", name, settings)
        agents = [one for one in system.agents() if not one.settings["root"]]
        system.run(agents, 1, executor, cache=str(folder / "cache"))
    return folder


def cycle(singles: Path, folder: Path, hyperparameters: dict[str, Any], *, kept: bool) -> tuple[Any, Any, set[str]]:
    """One cycle in a copy: what is told of its children, what was learned, the splits of which rows were kept."""
    shutil.copytree(singles, folder)
    with Store.open(folder / "runs") as store, SerialExecutor() as executor:
        system = System.open(store, "zoo")
        settings = AgentSettings(
            classes=10,
            cycle=CycleSettings(samples=8, generation_size=4),
            training={"representations": kept},
            options={"hyperparameters": hyperparameters},
        )
        agent = system.add_agent("MultiVitTiny", "digits", settings)
        system.run([agent], 1, executor, cache=str(folder / "cache"))
        ids = [one.id for one in store.systems.paths(agent.id)]
        told = [
            {key: one[key] for key in ("path", "parent_path", "fate", "applied")} for one in child_records(store, ids)
        ]
        pool = FolderPool(folder / "runs" / "blobs")
        parts = {part.id: part for found in store.systems.components_of(ids).values() for part in found}
        learned = {name: load_state(pool, part.digest, part.role) for name, part in parts.items()}
    return told, learned, {one.parent.name for one in (folder / "cache" / "paths").rglob("*.rows")}


@pytest.mark.slow
def test_a_whole_cycle_is_the_same_with_and_without(singles: Path, tmp_path: Path) -> None:
    told, learned, rows = cycle(singles, tmp_path / "kept", PINNED, kept=True)
    same, live, none = cycle(singles, tmp_path / "live", PINNED, kept=False)
    assert told == same
    assert len(told) == 8
    assert {one["fate"] for one in told} >= {"kept"}
    assert set(learned) == set(live)
    for name, state in learned.items():
        for key, value in state.items():
            torch.testing.assert_close(value, live[name][key], rtol=0, atol=1e-4)
    assert any(float(value.abs().max()) > 1e-3 for state in learned.values() for value in state.values()), "it learned"
    assert len(rows) == 3 * 2, "of the main path, the other one and the root, for both splits"
    assert none == set()


@pytest.mark.slow
def test_what_chance_changes_is_not_kept(singles: Path, tmp_path: Path) -> None:
    flips = {"ds_flip_left_right": {"values": [True], "default": True, "tuned": False}}
    _, _, rows = cycle(singles, tmp_path / "flipped", PINNED | flips, kept=True)
    assert len(rows) == 3, "of the validation split alone"
