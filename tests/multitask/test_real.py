"""Laws of docs/spec/munet.md#laws over real training: what is frozen stays, bit by bit, whoever works and wherever."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.fork import fork
from evodevo.multitask.hyperparameters import DATA, multipath_hyperparameters
from evodevo.multitask.measure import measure
from evodevo.multitask.paths.multipath_spec import ABLATIONS
from evodevo.multitask.paths.weights import load_state
from evodevo.multitask.report.outcomes import child_records
from evodevo.multitask.settings import AgentSettings, CycleSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from fixtures.real_system import SIZES, agents_of, logits, run_real

MULTI = "MultiVitTiny~digits"


@pytest.mark.slow
def test_published_paths_answer_alike_for_ever(real: System, tmp_path: Path) -> None:
    old = {name: one for name, one in real.view().offers.items() if one.path.classes}
    before = {name: logits(real, one, tmp_path) for name, one in old.items()}
    real.add_agent("MultiVitTiny", "digits", AgentSettings(classes=10))
    run_real(real, 2, tmp_path)
    assert set(before) == {"VitTiny~digits", "VitTiny~parity"}
    for name, answer in before.items():
        assert torch.equal(logits(real, old[name], tmp_path), answer), name
    assert real.store.check(deep=True).ok
    assert logits(real, real.view().offers[MULTI], tmp_path).shape == (64, 10)
    distinct = {part.id: part.parameters for one in real.view().offers.values() for part in one.components}
    assert sum(real.accounts().values()) == pytest.approx(sum(distinct.values()))
    with SerialExecutor() as executor:
        accuracy = measure(real, real.best("digits"), executor, cache=str(tmp_path / "cache"))
    assert 0.05 < accuracy <= 1
    with SerialExecutor(evaluators={"path_test": lambda payload, report: 1 / 0}) as executor:
        assert measure(real, real.best("digits"), executor) == accuracy, "it is measured once"


def stripes(file: Path, classes: int, pixels: int, channels: int) -> str:
    """Images whose brightest column says their class; height and width differ."""
    rng = np.random.default_rng(classes)
    labels = np.tile(np.arange(classes), 60)
    images = rng.integers(0, 90, (len(labels), pixels, pixels + 2, channels)).astype(np.uint8)
    for row, label in enumerate(labels):
        images[row, :, 2 * label : 2 * label + 2] = 250
    np.savez(file, x=images, y=labels)
    return str(file)


@pytest.mark.slow
def test_tasks_of_other_sizes_classes_and_channels_stand_side_by_side(real: System, tmp_path: Path) -> None:
    """Each path reads images as it was trained to."""
    for name, classes, pixels, channels in (("grey", 3, 11, 1), ("colour", 5, 14, 3)):
        task = {"data": stripes(tmp_path / f"{name}.npz", classes, pixels, channels)}
        own = {"hyperparameters": SIZES}
        real.add_agent("VitTiny", name, AgentSettings(classes=classes, task=task, options=own))
        real.add_agent("MultiVitTiny", name, AgentSettings(classes=classes, task=task))
    run_real(real, 1, tmp_path)
    offers = real.view().offers
    assert {one.path.classes for one in offers.values()} == {0, 2, 3, 5, 10}
    inside = {one.agent for name in ("grey", "colour") for one in offers[f"MultiVitTiny~{name}"].path.paths}
    assert len(inside) > 2, "paths of other sizes and classes are supports"
    with SerialExecutor() as executor:
        for name, classes in (("grey", 3), ("colour", 5)):
            for kind in ("VitTiny", "MultiVitTiny"):
                accuracy = measure(real, offers[f"{kind}~{name}"], executor, cache=str(tmp_path / "cache"))
                assert accuracy > 1 / classes


@pytest.mark.slow
def test_training_a_child_leaves_its_parents_weights_as_they_are(real: System, tmp_path: Path) -> None:
    """Of own parents and of others, frozen or copied; what was copied has changed."""
    store = real.store
    seen: dict[str, dict[str, torch.Tensor]] = {}
    for cycles in (1, 2, 3):
        run_real(real, cycles, tmp_path)
        for part in store.systems.components(real.row.id):
            seen.setdefault(part.id, load_state(store.blobs, part.digest, part.role, part.id))
    for part in store.systems.components(real.row.id):
        state = load_state(store.blobs, part.digest, part.role, part.id)
        assert all(torch.equal(value, seen[part.id][name]) for name, value in state.items()), part.id
    changed = 0
    for agent in agents_of(real):
        for row in store.individuals(agent.id):
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


@pytest.mark.slow
def test_a_multipath_model_begins_with_w_times_what_its_main_path_says(real: System, tmp_path: Path) -> None:
    """Of the model that a system made: untrained it is 0.8 of the main path, trained it is not."""
    real.add_agent("MultiVitTiny", "digits", AgentSettings(classes=10))
    run_real(real, 1, tmp_path, only=MULTI)
    offers = real.view().offers
    main, first = logits(real, offers["VitTiny~digits"], tmp_path), logits(real, offers[MULTI], tmp_path, fresh=True)
    torch.testing.assert_close(first, 0.8 * main, rtol=1e-5, atol=1e-6)
    assert torch.equal(first.argmax(1), main.argmax(1))
    assert not torch.allclose(logits(real, offers[MULTI], tmp_path), first)


@pytest.mark.slow
def test_every_ablation_is_a_switch_of_an_agent(real: System, tmp_path: Path) -> None:
    """Each trains beside the same paths; which is better is not asserted."""
    found = set()
    for name, structure in ABLATIONS.items():
        copy = fork(real, name)
        options = {"structure": structure.model_dump(mode="json")}
        copy.add_agent("MultiVitTiny", "digits", AgentSettings(classes=10, options=options))
        run_real(copy, 1, tmp_path, only=MULTI)
        known = copy.view().offers[MULTI]
        assert ("router" in {part.role for part in known.components}) == structure.has_router
        found.add(tuple(part.digest for part in known.components))
    assert len(found) == len(ABLATIONS), "no two of them learn alike"


# Kept representations

PINNED = {
    row.key: {"values": [row.default], "default": row.default, "tuned": False}
    for row in multipath_hyperparameters().rows
    if row.key.startswith(DATA)
}


def cycle_of(trained: Path, folder: Path, hyperparameters: dict[str, Any], *, kept: bool) -> tuple[Any, Any, set[str]]:
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
        told = [
            {key: one[key] for key in ("path", "parent_path", "fate", "applied")} for one in child_records(store, ids)
        ]
        parts = {part.id: part for found in store.systems.components_of(ids).values() for part in found}
        learned = {name: load_state(store.blobs, part.digest, part.role) for name, part in parts.items()}
    return told, learned, {one.parent.name for one in (folder / "cache" / "paths").rglob("*.rows")}


@pytest.mark.slow
def test_a_whole_cycle_is_the_same_with_and_without(trained_folder: Path, tmp_path: Path) -> None:
    told, learned, rows = cycle_of(trained_folder, tmp_path / "kept", PINNED, kept=True)
    same, live, none = cycle_of(trained_folder, tmp_path / "live", PINNED, kept=False)
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
    _, _, rows = cycle_of(trained_folder, tmp_path / "flipped", PINNED | flips, kept=True)
    assert len(rows) == 3, "of the validation split alone"
