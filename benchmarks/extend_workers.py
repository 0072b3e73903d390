"""How much sooner two one-thread workers end a cycle of one agent than one worker does.

Run: python benchmarks/extend_workers.py [--json PATH] [--samples 800 --children 16 --generation 4 --rounds 3]
     [--kind VitT3]

A system with a root of that class (by default ViT-Ti/16, 3 layers; its settings are the defaults) and one task of noisy
images of 10 classes, 28 x 28 pixels. Its store is copied for each turn; in the copy the agent runs one cycle of the
same children, in worker processes of one thread each that were warm before. One worker and two take turns; wall time of
the cycle, from asking to publishing. Children of a generation are asked for together, so both workers wait for the last
of four. Both must publish the same components.

Where the missing part goes: with S the seconds of all children together, as their workers measure them, and b the share
of the workers' time that these are (the rest is the coordinator's work, and waiting for the last of a generation), two
workers have 2 x (S of one / S of two) x (b of two / b of one) times the throughput of one. Beside it stands what two
processes get out of the machine that share nothing: each runs the same cycle in a store of its own, without workers;
each multiplies matrices that fit the innermost cache; each copies memory.

Wants two idle cores: the ratio says nothing on a machine that does something else.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evodevo.execution.base import Executor
from evodevo.execution.processes import ProcessExecutor
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.run.run import PRELOAD
from evodevo.multitask.settings import AgentSettings, CycleSettings, SystemSettings
from evodevo.multitask.system import System
from evodevo.storage import Store
from measuring import THREADS, Report, Spread, arguments, ratio

CLASSES, SIDE, NOISE = 10, 28, 64.0
TASK = "images"
FASTER = 1.7
PRODUCT, PRODUCTS = 48, 400_000
"""Rows of a square matrix of which three fit a cache of 32 kB; how often two are multiplied."""
COPIED, COPIES = 1 << 25, 40
"""Numbers of 4 bytes that are copied; how often."""


@dataclass(frozen=True)
class Taken:
    """One cycle.

    Attributes:
        seconds: from asking to publishing.
        children: seconds of its children together, as their workers measured them.
        made: (component, digest) of all that the system has then.
    """

    seconds: float
    children: float
    made: tuple[tuple[str, str], ...]


def make(folder: Path, options: Any) -> None:
    """A system whose root is made and whose agent has not begun."""
    rng = np.random.default_rng(0)
    labels = np.arange(options.samples) % CLASSES
    pixels = rng.uniform(0, 255, (CLASSES, SIDE, SIDE))[labels] + rng.normal(0, NOISE, (len(labels), SIDE, SIDE))
    np.savez(folder / "set.npz", x=pixels.clip(0, 255).astype(np.uint8), y=labels)
    with Store.open(folder / "runs") as store, ProcessExecutor(1, preload=PRELOAD) as executor:
        cycle = CycleSettings(samples=options.children, generation_size=options.generation)
        system = System.create(store, "zoo", settings=SystemSettings(cycle=cycle, training={"device": "cpu"}))
        root = system.add_root(options.kind, "random_init", AgentSettings(classes=0))
        system.add_agent(options.kind, TASK, AgentSettings(classes=CLASSES, task={"data": str(folder / "set.npz")}))
        system.run([root], 1, executor, cache=str(folder / "cache"))


def cycle(folder: Path, executor: Executor) -> Taken:
    """One cycle of the one agent in a copy."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        shutil.copytree(folder / "runs", Path(scratch) / "runs")
        with Store.open(Path(scratch) / "runs") as store:
            system = System.open(store, "zoo")
            agent = next(one for one in system.agents() if one.name.endswith(f"~{TASK}"))
            begin = time.perf_counter()
            system.run([agent], 1, executor, cache=str(folder / "cache"))
            seconds = time.perf_counter() - begin
            results = store.systems.evaluations_of([path.id for path in store.systems.paths(agent.id)])
            children = sum(row.seconds for rows in results.values() for row in rows)
            made = tuple((one.id, one.digest) for one in store.systems.components(system.row.id))
            return Taken(seconds, children, made)


# What processes get that share nothing


def cycles_alone(folder: Path) -> Callable[[], object]:
    """The cycle in this process, in a store of its own."""
    return lambda: cycle(folder, SerialExecutor())


def products_alone(folder: Path) -> Callable[[], object]:
    """Products of matrices in the innermost cache."""
    left, right, out = (torch.zeros(PRODUCT, PRODUCT) for _ in range(3))
    return lambda: [torch.mm(left, right, out=out) for _ in range(PRODUCTS)][-1]


def copies_alone(folder: Path) -> Callable[[], object]:
    """Copies between two places that no cache holds."""
    source, target = torch.zeros(COPIED), torch.zeros(COPIED)
    return lambda: [target.copy_(source) for _ in range(COPIES)][-1]


def _beside(make: Callable[[Path], Callable[[], object]], folder: Path, barrier: Any, answers: Any) -> None:
    torch.set_num_threads(THREADS)
    work = make(folder)
    work()  # warm
    barrier.wait()
    begin = time.perf_counter()
    work()
    answers.put(time.perf_counter() - begin)


def beside(make: Callable[[Path], Callable[[], object]], folder: Path, count: int) -> float:
    """Mean seconds of a piece of work in each of so many new processes, all of which begin it together."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(count), context.Queue()
    processes = [context.Process(target=_beside, args=(make, folder, barrier, answers)) for _ in range(count)]
    for process in processes:
        process.start()
    seconds: list[float] = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    return sum(seconds) / count


APART: dict[str, Callable[[Path], Callable[[], object]]] = {
    "processes apart: seconds of the cycle": cycles_alone,
    f"processes apart: seconds of {PRODUCTS:,} products of {PRODUCT} x {PRODUCT}": products_alone,
    f"processes apart: seconds of {COPIES} copies of {COPIED * 4 >> 20} MB": copies_alone,
}


def row(quantity: str, one: list[float], two: list[float], times: Spread) -> dict[str, str]:
    """A row of the table."""
    return {
        "quantity": quantity,
        "one": Spread.of(one).show(),
        "two": Spread.of(two).show(),
        "throughput of two, times one": times.show(),
    }


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, samples=800, children=16, generation=4, rounds=3, kind="VitT3")
    run = f"N={options.samples}, {options.children} children in generations of {options.generation}, 4 passes each"
    load = f"{os.getloadavg()[0]:.2f} when it began"
    settings = {"run": run, "class": options.kind, "load of the machine": load}
    report = Report("Two workers beside one", settings=settings, clock="wall time")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make(folder, options)
        taken: dict[int, list[Taken]] = {1: [], 2: []}
        apart: dict[str, dict[int, list[float]]] = {name: {1: [], 2: []} for name in APART}
        with ProcessExecutor(1, preload=PRELOAD) as one, ProcessExecutor(2, preload=PRELOAD) as two:
            for number in range(options.rounds + 1):  # the first prepares the data and warms the workers
                order = ((1, one), (2, two)) if number % 2 else ((2, two), (1, one))
                for workers, executor in order:
                    found = cycle(folder, executor)
                    if number:
                        taken[workers].append(found)
        for number in range(options.rounds):
            for name, work in APART.items():
                for count in (1, 2) if number % 2 else (2, 1):
                    apart[name][count].append(beside(work, folder, count))
        seconds = {workers: [each.seconds for each in found] for workers, found in taken.items()}
        children = {workers: [each.children for each in found] for workers, found in taken.items()}
        busy = {workers: [each.children / each.seconds / workers for each in found] for workers, found in taken.items()}
        faster = ratio(seconds[1], seconds[2])
        report.rows.append(row("workers: seconds of a cycle", seconds[1], seconds[2], faster))
        report.rows.append(
            row("workers: seconds of its children together", children[1], children[2], ratio(children[1], children[2]))
        )
        report.rows.append(
            row("workers: share of their time that children are", busy[1], busy[2], ratio(busy[2], busy[1]))
        )
        for name, found_apart in apart.items():
            twice = [2 * value for value in found_apart[1]]
            report.rows.append(row(name, found_apart[1], found_apart[2], ratio(twice, found_apart[2])))
        report.at_least("throughput of two workers, times that of one", faster.median, FASTER)
        made = {each.made for found in taken.values() for each in found}
        report.at_most("different systems that came of it", len(made), 1)
    report.finish(options.json)


if __name__ == "__main__":
    main()
