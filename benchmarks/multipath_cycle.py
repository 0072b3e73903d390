"""What kept representations save in a whole cycle of a multipath agent, as the agent runs it.

Run: python benchmarks/multipath_cycle.py [--json PATH] [--samples 2000 --children 16]

A system of three tasks, each with a path of ViT-Ti/16, 3 layers, 32 x 32 pixels, made of noisy images of 10 classes.
Its store is copied; in each copy an agent of class MultiVitT3 runs one cycle, in this process and in one thread:
children are planned, built from the pool, trained for four passes, looked at after each, told and published. One agent
keeps representations (``representations``, the default), the other does not; filling the cache is part of its time.
Values that change images by chance are pinned to change nothing. CPU time.

Both cycles must tell of the same children and lead to the same weights, within 1e-4 (the agent computes in float32;
for float64 see ``multipath_cache.py`` and ``tests/multitask/paths/test_multipath_cache.py``).
"""

from __future__ import annotations

import cProfile
import pstats
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.hyperparameters import DATA, multipath_hyperparameters
from evodevo.multitask.paths.weights import load_state
from evodevo.multitask.report.outcomes import child_records
from evodevo.multitask.settings import AgentSettings, CycleSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.storage.blobs import FolderPool
from measuring import Report, arguments

CLASSES, SIDE, NOISE = 10, 28, 64.0
TASKS = ("first", "second", "third")
FASTER, EQUAL = 10.0, 1e-4
MULTI = f"MultiVitT3~{TASKS[0]}"
PINNED = {
    row.key: {"values": [row.default], "default": row.default, "tuned": False}
    for row in multipath_hyperparameters().rows
    if row.key.startswith(DATA)
}


def images(path: Path, count: int) -> None:
    """A set of noisy images with train and test splits."""
    rng = np.random.default_rng(0)
    looks = rng.uniform(0, 255, (CLASSES, SIDE, SIDE))
    for part, size in (("train", count), ("test", CLASSES * 2)):
        labels = np.arange(size) % CLASSES
        pixels = looks[labels] + rng.normal(0, NOISE, (size, SIDE, SIDE))
        np.savez(path / f"{part}.npz", x=pixels.clip(0, 255).astype(np.uint8), y=labels)


def task(folder: Path, number: int) -> dict[str, Any]:
    """Where a task comes from; each calls the classes otherwise."""
    return {"data": str(folder / "train.npz"), "rotate": number}


def make(folder: Path, count: int) -> None:
    """A system with a path for each task, which learned next to nothing: that takes no less time to run."""
    images(folder, count)
    with Store.open(folder / "runs") as store, SerialExecutor() as executor:
        once = CycleSettings(samples=1, generation_size=1)
        training = {"device": "cpu", "batch": 64}
        system = System.create(store, "zoo", settings=SystemSettings(cycle=once, training=training))
        system.add_root("VitT3", "random_init", AgentSettings(classes=0))
        for number, name in enumerate(TASKS):
            brief = {"validations": 1, "most_between": 256}
            settings = AgentSettings(classes=CLASSES, task=task(folder, number), training=brief)
            system.add_agent("VitT3", name, settings)
        agents = [one for one in system.agents() if not one.settings["root"]]
        system.run(agents, 1, executor, cache=str(folder / "cache"))


def cycle(folder: Path, data: Path, children: int, *, kept: bool, profile: bool) -> dict[str, float]:
    """One cycle of the multipath agent in a copy of the system; its seconds."""
    with Store.open(folder / "runs") as store, SerialExecutor() as executor:
        system = System.open(store, "zoo")
        settings = AgentSettings(
            classes=CLASSES,
            task=task(data, 0),
            cycle=CycleSettings(samples=children, generation_size=min(4, children)),
            training={"representations": kept},
            options={"hyperparameters": PINNED},
        )
        agent = system.add_agent("MultiVitT3", TASKS[0], settings)
        profiler = cProfile.Profile(time.process_time)
        begin, clock = time.process_time(), time.perf_counter()
        if profile:
            profiler.enable()
        system.run([agent], 1, executor, cache=str(folder / "cache"))
        profiler.disable()
        taken = {"cpu": time.process_time() - begin, "wall": time.perf_counter() - clock}
        if profile:
            pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)
        return taken


def learned(folder: Path) -> tuple[list[Any], dict[str, Any]]:
    """What is told of the children, and the weights of those that were kept, by component."""
    with Store.open(folder / "runs", "ro") as store:
        agent = System.open(store, "zoo").agent(MULTI)
        ids = [one.id for one in store.systems.paths(agent.id)]
        told = [(one["path"], one["parent_path"], one["fate"], one["applied"]) for one in child_records(store, ids)]
        pool = FolderPool(folder / "runs" / "blobs")
        parts = {part.id: part for found in store.systems.components_of(ids).values() for part in found}
        return told, {name: load_state(pool, part.digest, part.role) for name, part in parts.items()}


def difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest one between weights of the same name; infinite where names differ."""
    if set(one) != set(other):
        return float("inf")
    return max(
        float((value - other[part][name]).abs().max()) for part, state in one.items() for name, value in state.items()
    )


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, samples=2000, children=16, profile=0)
    settings = {
        "paths": f"2 or 3 of ViT-Ti/16, 3 layers, 32 x 32, C={CLASSES}",
        "run": f"N={options.samples} with validation, {options.children} children, 4 passes each, B=64 at most",
    }
    report = Report("A cycle of a multipath agent from kept representations", settings=settings)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make(folder, options.samples)
        taken = {}
        for name, kept in (("live", False), ("kept, with its fill", True)):
            copy = folder / name
            copy.mkdir()
            for part in ("runs", "cache"):
                shutil.copytree(folder / part, copy / part)
            found = taken[name] = cycle(copy, folder, options.children, kept=kept, profile=bool(options.profile))
            row = {"what": f"cycle, {name}", "CPU s": f"{found['cpu']:.4g}", "wall s": f"{found['wall']:.4g}"}
            report.rows.append({**row, "times as fast": ""})
        faster = taken["live"]["cpu"] / taken["kept, with its fill"]["cpu"]
        report.rows[-1]["times as fast"] = f"{faster:.3g}"
        report.at_least(f"a cycle of {options.children} children, times as fast", faster, FASTER)
        (first, one), (second, other) = (learned(folder / name) for name in taken)
        report.at_most("children that are told otherwise", sum(a != b for a, b in zip(first, second, strict=True)), 0)
        report.at_most(f"difference of {len(one)} components", difference(one, other), EQUAL)
    report.finish(options.json)


if __name__ == "__main__":
    main()
