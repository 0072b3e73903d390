"""How much sooner two one-thread workers end a cycle of one agent than one worker does.

Run: python benchmarks/extend_workers.py [--json PATH] [--samples 800 --children 16 --generation 4 --rounds 3]

A system with a root (ViT-Ti/16, 3 layers) and one task of noisy images of 10 classes, 28 x 28 pixels. Its store is
copied for each turn; in the copy the agent runs one cycle of the same children, in worker processes of one thread each
that were warm before. One worker and two take turns; wall time of the cycle, from asking to publishing. Children of a
generation are asked for together, so both workers wait for the last of four. Both must publish the same components.

Wants two idle cores: the ratio says nothing on a machine that does something else.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from evodevo.execution.base import Executor
from evodevo.execution.processes import ProcessExecutor
from evodevo.multitask.run.run import PRELOAD
from evodevo.multitask.settings import AgentSettings, CycleSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from measuring import Report, Spread, arguments, ratio

CLASSES, SIDE, NOISE = 10, 28, 64.0
TASK = "images"
FASTER = 1.7


def make(folder: Path, options: Any) -> None:
    """A system whose root is made and whose agent has not begun."""
    rng = np.random.default_rng(0)
    labels = np.arange(options.samples) % CLASSES
    pixels = rng.uniform(0, 255, (CLASSES, SIDE, SIDE))[labels] + rng.normal(0, NOISE, (len(labels), SIDE, SIDE))
    np.savez(folder / "set.npz", x=pixels.clip(0, 255).astype(np.uint8), y=labels)
    with Store.open(folder / "runs") as store, ProcessExecutor(1, preload=PRELOAD) as executor:
        cycle = CycleSettings(samples=options.children, generation_size=options.generation)
        system = System.create(store, "zoo", settings=SystemSettings(cycle=cycle, training={"device": "cpu"}))
        root = system.add_root("VitT3", "random_init", AgentSettings(classes=0))
        system.add_agent("VitT3", TASK, AgentSettings(classes=CLASSES, task={"data": str(folder / "set.npz")}))
        system.run([root], 1, executor, cache=str(folder / "cache"))


def cycle(folder: Path, executor: Executor) -> tuple[float, list[tuple[str, str]]]:
    """One cycle in a copy: its seconds, and (component, digest) of all that it made."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        shutil.copytree(folder / "runs", Path(scratch) / "runs")
        with Store.open(Path(scratch) / "runs") as store:
            system = System.open(store, "zoo")
            agent = system.agent(f"VitT3~{TASK}")
            begin = time.perf_counter()
            system.run([agent], 1, executor, cache=str(folder / "cache"))
            seconds = time.perf_counter() - begin
            return seconds, [(one.id, one.digest) for one in store.systems.components(system.row.id)]


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, samples=800, children=16, generation=4, rounds=3)
    run = f"N={options.samples}, {options.children} children in generations of {options.generation}, 4 passes each"
    load = f"{os.getloadavg()[0]:.2f} when it began"
    settings = {"run": run, "load of the machine": load, "clock": "wall time"}
    report = Report("Two workers beside one", settings=settings)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make(folder, options)
        taken: dict[int, list[float]] = {1: [], 2: []}
        made = set()
        with ProcessExecutor(1, preload=PRELOAD) as one, ProcessExecutor(2, preload=PRELOAD) as two:
            for number in range(options.rounds + 1):  # the first prepares the data and warms the workers
                order = ((1, one), (2, two)) if number % 2 else ((2, two), (1, one))
                for workers, executor in order:
                    seconds, components = cycle(folder, executor)
                    made.add(tuple(components))
                    if number:
                        taken[workers].append(seconds)
        faster = ratio(taken[1], taken[2])
        for workers, values in taken.items():
            pace = [60 * options.children / one for one in values]
            row = {"workers": workers, "seconds of a cycle": Spread.of(values).show(), "children a minute": ""}
            report.rows.append({**row, "children a minute": Spread.of(pace).show(), "times one": ""})
        report.rows[-1]["times one"] = faster.show()
        report.at_least("throughput of two workers, times that of one", faster.median, FASTER)
        report.at_most("different systems that came of it", len(made), 1)
    report.finish(options.json)


if __name__ == "__main__":
    main()
