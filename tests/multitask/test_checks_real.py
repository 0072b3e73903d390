"""docs/spec/munet.md#laws over real training: what is frozen stays, bit by bit, whoever works and wherever."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.measure import measure
from evodevo.multitask.paths.weights import load_state
from evodevo.multitask.settings import AgentSettings
from evodevo.storage import Store
from fixtures.real_system import SIZES, new_real_system, run_real


def stripes(folder: Path, classes: int, pixels: int, channels: int) -> Path:
    """Images whose brightest column says their class; height and width differ."""
    rng = np.random.default_rng(classes)
    labels = np.tile(np.arange(classes), 60)
    images = rng.integers(0, 90, (len(labels), pixels, pixels + 2, channels)).astype(np.uint8)
    for row, label in enumerate(labels):
        images[row, :, 2 * label : 2 * label + 2] = 250
    folder.mkdir()
    np.savez(folder / "set.npz", x=images, y=labels)
    return folder / "set.npz"


@pytest.mark.slow
def test_tasks_of_other_sizes_classes_and_channels_stand_side_by_side(store: Store, tmp_path: Path) -> None:
    """Each path reads images as it was trained to."""
    system = new_real_system(store, samples=4)
    grey, colour = stripes(tmp_path / "grey", 3, 11, 1), stripes(tmp_path / "colour", 5, 14, 3)
    for name, classes, data in (("grey", 3, grey), ("colour", 5, colour)):
        own = {"hyperparameters": SIZES}
        system.add_agent("VitTiny", name, AgentSettings(classes=classes, task={"data": str(data)}, options=own))
        system.add_agent("MultiVitTiny", name, AgentSettings(classes=classes, task={"data": str(data)}))
    run_real(system, 1, tmp_path)
    offers = system.view().offers
    assert {one.path.classes for one in offers.values()} == {0, 2, 3, 5, 10}
    inside = {one.agent for name in ("grey", "colour") for one in offers[f"MultiVitTiny~{name}"].path.paths}
    assert len(inside) > 2, "paths of other sizes and classes are supports"
    with SerialExecutor() as executor:
        for name, classes in (("grey", 3), ("colour", 5)):
            for kind in ("VitTiny", "MultiVitTiny"):
                accuracy = measure(system, offers[f"{kind}~{name}"], executor, cache=str(tmp_path / "cache"))
                assert accuracy > 1 / classes


@pytest.mark.slow
def test_training_a_child_leaves_its_parents_weights_as_they_are(store: Store, tmp_path: Path) -> None:
    """Of own parents and of others, frozen or copied; what was copied has changed."""
    system = new_real_system(store)
    seen: dict[str, dict[str, torch.Tensor]] = {}

    def remember() -> None:
        for part in store.systems.components(system.row.id):
            seen.setdefault(part.id, load_state(store.blobs, part.digest, part.role, part.id))

    for cycles in (1, 2, 3):
        run_real(system, cycles, tmp_path)
        remember()
    changed = 0
    for part in store.systems.components(system.row.id):
        state = load_state(store.blobs, part.digest, part.role, part.id)
        assert all(torch.equal(value, seen[part.id][name]) for name, value in state.items()), part.id
    for agent in ("VitTiny~digits", "VitTiny~parity"):
        for row in store.individuals(system.agent(agent).id):
            made = {part.role: part for part in store.systems.components_of([row.id])[row.id]}
            for one in row.details["parts"]:
                if not made or one["source"] is None:
                    continue
                before, after = seen[one["source"]], seen[made[one["role"]].id]
                same = all(torch.equal(before[name], value) for name, value in after.items() if name in before)
                if not one["train"]:
                    assert same
                elif one["how"] == "clone":
                    changed += not same
    assert changed > 4
