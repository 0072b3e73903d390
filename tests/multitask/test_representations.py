"""A cycle of a multipath agent from kept representations is the same cycle."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from evodevo.multitask.hyperparameters import DATA, multipath_hyperparameters
from evodevo.multitask.paths.weights import load_state
from evodevo.multitask.report.outcomes import fates
from evodevo.multitask.settings import AgentSettings, CycleSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from fixtures.real_system import run_real

PINNED = {
    row.key: {"values": [row.default], "default": row.default, "tuned": False}
    for row in multipath_hyperparameters().rows
    if row.key.startswith(DATA)
}


def cycle(trained: Path, folder: Path, hyperparameters: dict[str, Any], *, kept: bool) -> tuple[Any, Any, set[str]]:
    """One cycle in a copy: what is told of its children, what was learned, the splits of which rows were kept."""
    shutil.copytree(trained, folder)
    with Store.open(folder / "runs") as store:
        system = System.open(store, "real")
        settings = AgentSettings(
            classes=10,
            cycle=CycleSettings(samples=4, generation_size=2),
            training={"representations": kept},
            options={"hyperparameters": hyperparameters},
        )
        agent = system.add_agent("MultiVitTiny", "digits", settings)
        run_real(system, 1, folder, only=agent.name)
        ids = [one.id for one in store.systems.paths(agent.id)]
        told = [{key: one[key] for key in ("path", "parent_path", "fate", "applied")} for one in fates(store, ids)]
        parts = {part.id: part for found in store.systems.components_of(ids).values() for part in found}
        learned = {name: load_state(store.blobs, part.digest, part.role) for name, part in parts.items()}
    return told, learned, {one.parent.name for one in (folder / "cache" / "paths").rglob("*.rows")}


@pytest.mark.slow
def test_a_whole_cycle_is_the_same_with_and_without(trained_folder: Path, tmp_path: Path) -> None:
    told, learned, rows = cycle(trained_folder, tmp_path / "kept", PINNED, kept=True)
    same, live, none = cycle(trained_folder, tmp_path / "live", PINNED, kept=False)
    assert told == same
    assert len(told) == 4
    assert {one["fate"] for one in told} >= {"kept"}
    assert set(learned) == set(live)
    for name, state in learned.items():
        for key, value in state.items():
            torch.testing.assert_close(value, live[name][key], rtol=0, atol=1e-4)
    assert any(float(value.abs().max()) > 1e-3 for state in learned.values() for value in state.values()), "it learned"
    assert len(rows) == 3 * 2, "of the main path, the other one and the root, for both splits"
    assert none == set()


@pytest.mark.slow
def test_what_chance_changes_is_not_kept(trained_folder: Path, tmp_path: Path) -> None:
    flips = {"ds_flip_left_right": {"values": [True], "default": True, "tuned": False}}
    _, _, rows = cycle(trained_folder, tmp_path / "flipped", PINNED | flips, kept=True)
    assert len(rows) == 3, "of the validation split alone"
