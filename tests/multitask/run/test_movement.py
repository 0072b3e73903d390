"""Movement of training images by chance: who begins with it, and that it is the task's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.agent import path_of
from evodevo.multitask.hyperparameters import SHIFT
from evodevo.multitask.paths.convolution.kind import SHIFTS
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.run.movement import MOST_SAMPLES, moved_by_size
from evodevo.multitask.system import System
from evodevo.storage import Store

TINY: dict[str, Any] = {
    "cycle": {"samples": 1, "generation_size": 1},
    "training": {"steps": 2, "validations": 1, "validation_cap": 32, "device": "cpu"},
}


def test_many_samples_are_not_moved_and_what_a_user_set_stays() -> None:
    usual = {"version": "paper", "hyperparameters": {SHIFT: SHIFTS, "opt_lr": {"default": 0.1}}}
    for samples in (None, 1, MOST_SAMPLES):
        assert moved_by_size(usual, samples) == usual
    still = moved_by_size(usual, MOST_SAMPLES + 1)
    assert still["hyperparameters"] == {**usual["hyperparameters"], SHIFT: {**SHIFTS, "default": 0.0}}
    assert SHIFTS["default"] == 0.1, "not changed in place"
    own = {"hyperparameters": {SHIFT: {"values": [0.0, 0.2], "default": 0.2}}}
    assert moved_by_size(own, 10 * MOST_SAMPLES) == own
    assert moved_by_size({}, 10 * MOST_SAMPLES) == {}


def test_a_task_s_first_children_begin_with_its_own_movement(tmp_path: Path) -> None:
    folders: dict[str, Any] = {"store": tmp_path / "runs", "cache_folder": tmp_path / "cache"}
    rng, count = np.random.default_rng(0), 12000
    data = tmp_path / "many.npz"
    np.savez(data, x=rng.integers(0, 256, (count, 8, 8), np.uint8), y=np.arange(count) % 2)
    create_system("zoo", kind="ConvTiny", root="random_init", overrides=TINY, **folders)
    add_task("zoo", "many", data=data, **folders)
    add_task("zoo", "digits", **folders)
    add_task("zoo", "told", data=data, overrides={"hyperparameters": {SHIFT: {**SHIFTS, "default": 0.2}}}, **folders)
    with Store.open(tmp_path / "runs") as store, SerialExecutor() as executor:
        system = System.open(store, "zoo")
        system.run(system.agents(), 1, executor, cache=str(tmp_path / "cache"))
        found = {}
        for agent in system.agents():
            (row,) = store.individuals(agent.id)
            found[agent.task] = path_of(row).hparams[SHIFT]
    assert found == {"root_model/random_init": 0.1, "many": 0.0, "digits": 0.1, "told": 0.2}
