"""Does a system stay as it began? Time, memory and parameters of each new task while one system takes many.

Run: python benchmarks/extend_many.py --data FOLDER [--json PATH]
    [--tasks 30 --steps 300 --children 4 --samples 165 --rounds 3 --seed 0]

One system with the default root takes one task after another, each as a user adds it: ``evodevo extend add``, then
``evodevo extend run --tasks NAME --test`` with one worker, two new processes, so that the peak of resident memory is
that of one task. An agent trains the same number of children for the same number of steps. Tasks are classes of small
images that no other task has: 3 of each of six sets, 11 characters of omniglot; all have as many training samples. Ten
tasks make a block, in which each set comes once and omniglot four times, in an order that is shuffled anew. So blocks
are alike, and the slope over the number of the task is that of a regression that also has a constant for each set
(ordinary least squares, 95 % interval by Student's t).

After each fifth task and the last one whole commands that read the system are timed as processes, in turns. Logits of
the first task's test samples are compared bit for bit with those of the moment when its path was published; in the end
those of all tasks.

CPU time of a process is that of the kernel's clock, the peak of its memory that of /proc, looked at every 50 ms: Linux.
Wall time is that of a machine that may do other things.
``--tasks 3 --steps 8 --children 1 --rounds 1`` takes a minute and shows that all works.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.report.status import status_of
from evodevo.multitask.run.predict import open_answerer
from evodevo.multitask.system import System
from evodevo.storage import Store
from extend_status import children_seconds
from measuring import THREADS, Report

FEW, MANY, CHARACTERS = 3, 11, "omniglot_small1"
BLOCK = (
    "cmaterdb_bangla",
    "cmaterdb_devanagari",
    "mnist10k",
    "notmnist10k",
    "fashion_mnist",
    "cifar10_jpg",
    *4 * (CHARACTERS,),
)
"""The sets of ten tasks."""
MOST_TASKS = 3 * len(BLOCK)
MOST_TESTED = 50
"""Test samples of a class."""
SYSTEM = "zoo"
EVERY = 5
SECONDS = 1.0
LOOK = 0.05
"""Seconds between two looks at the memory of processes."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class NewTask:
    """A task: classes of a set."""

    name: str
    set: str
    classes: range


@dataclass
class Taken:
    """What a command took.

    Attributes:
        wall: seconds from its start to its end.
        own, workers: CPU seconds of its own process, and of all that it began.
        peak, peak_worker: largest resident memory of its own process, and of the largest of the others, in MiB.
        lines: (seconds after the start, line) of all that it printed.
    """

    wall: float = 0.0
    own: float = 0.0
    workers: float = 0.0
    peak: float = 0.0
    peak_worker: float = 0.0
    lines: list[tuple[float, str]] = field(default_factory=list)


def tasks_of(count: int, seed: int) -> list[NewTask]:
    """The tasks in their order: blocks of ten, each shuffled."""
    rng = random.Random(seed)
    found: list[NewTask] = []
    used = dict.fromkeys(BLOCK, 0)
    while len(found) < count:
        for name in rng.sample(BLOCK, len(BLOCK)):
            size = MANY if name == CHARACTERS else FEW
            found.append(NewTask(f"{name}_{used[name] // size}", name, range(used[name], used[name] + size)))
            used[name] += size
    return found[:count]


def images(path: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """Images and classes of a set's file."""
    with np.load(path) as arrays:
        labels = arrays["y"]
        if "jpg" not in arrays:
            return list(arrays["x"]), labels
        joined, places = arrays["jpg"].tobytes(), arrays["offset"]
    pairs = itertools.pairwise(places)
    return [np.asarray(Image.open(io.BytesIO(joined[start:end]))) for start, end in pairs], labels


def cut(data: Path, folder: Path, task: NewTask, samples: int) -> np.ndarray:
    """Write a task's ``train.npz`` and ``test.npz``; returns its test images, (N, H, W) or (N, H, W, 3)."""
    folder.mkdir(parents=True)
    tested = np.empty(0)
    for split, most in (("train", samples // len(task.classes)), ("test", MOST_TESTED)):
        every, labels = images(data / task.set / f"{split}.npz")
        places = [place for one in task.classes for place in np.flatnonzero(labels == one)[:most]]
        tested = np.stack([every[place] for place in places])
        np.savez(folder / f"{split}.npz", x=tested, y=labels[places])
    return tested


def memory(pid: int) -> float:
    """Largest resident memory of a process so far, in MiB; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def descendants(pid: int) -> list[int]:
    """Processes that a process began, and that they began."""
    try:
        own = [int(one) for path in Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split()]
    except OSError:
        return []
    return own + [other for one in own for other in descendants(one)]


def measured(words: Sequence[str]) -> Taken:
    """Run a command in a new process.

    Raises:
        CalledProcessError: It failed.
    """
    taken, begin = Taken(), time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK):
            taken.peak = max(taken.peak, memory(process.pid))
            taken.peak_worker = max([taken.peak_worker, *map(memory, descendants(process.pid))])

    watcher = threading.Thread(target=look)
    watcher.start()
    assert process.stdout is not None
    for line in process.stdout:
        taken.lines.append((time.perf_counter() - begin, line))
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its times can be read until it is waited for
    taken.wall = time.perf_counter() - begin
    ended.set()
    watcher.join()
    numbers = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    taken.own = sum(map(int, numbers[11:13])) / TICKS
    taken.workers = sum(map(int, numbers[13:15])) / TICKS
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, list(words))
    return taken


def stored(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def answers(folder: Path, task: str, samples: np.ndarray) -> str:
    """SHA-256 of the logits of a task's best path."""
    with Store.open(folder, "ro", create=False) as store:
        answerer = open_answerer(store, SYSTEM, task)
        logits = answerer.logits(answerer.samples.read(list(samples)))
    return hashlib.sha256(np.ascontiguousarray(logits).tobytes()).hexdigest()


def distinct(folder: Path) -> int:
    """Parameters of all components that published paths use."""
    with Store.open(folder, "ro", create=False) as store:
        return status_of(store, store.systems.find_system(SYSTEM)).distinct


def row_of(number: int, task: NewTask, adding: Taken, running: Taken) -> dict[str, Any]:
    """What a task took, as numbers."""
    events = [(at, json.loads(line)) for at, line in running.lines]

    def moment(type: str, last: bool = False) -> float:
        found = [at for at, event in events if event["type"] == type and task.name in event.get("agent", "")]
        return (found[-1] if last else found[0]) if found else math.nan

    probing = moment("transfer") - moment("probing")
    table: list[dict[str, Any]] = next((event["rows"] for _, event in events if event["type"] == "transfer"), [])
    begun = moment("transfer") if table else moment("cycle")
    (ended,) = [event for _, event in events if event["type"] == "finished"]
    return {
        "number": number,
        "task": task.name,
        "set": task.set,
        "test": ended["agents"][0]["test"],
        "cpu": adding.own + adding.workers + running.own + running.workers,
        "own_cpu": adding.own + running.own,
        "wall": adding.wall + running.wall,
        "probed": len(table),
        "probing": 0.0 if math.isnan(probing) else probing,
        "probes": sum(one["seconds"] for one in table),
        "training": moment("child", last=True) - begun,
        "peak": max(adding.peak, running.peak),
        "peak_worker": running.peak_worker,
    }


QUANTITIES = {
    "CPU seconds, all": "cpu",
    "CPU seconds without workers": "own_cpu",
    "wall seconds, all": "wall",
    "wall seconds until paths are probed": "probing",
    "wall seconds of the probes in it": "probes",
    "wall seconds of training": "training",
    "wall seconds of the rest": "rest",
    "peak MiB, own process": "peak",
    "peak MiB, largest worker": "peak_worker",
    "parameters added": "parameters",
    "kB added to the store": "kilobytes",
    "kB added to caches": "cached",
    "accuracy on test": "test",
}
BOUNDED = ("cpu", "own_cpu", "peak", "peak_worker", "parameters", "kilobytes")
"""Those of which the slope is a claim."""


def slope(rows: Sequence[dict[str, Any]], key: str) -> tuple[float, float, float] | None:
    """Change with the number of the task and its 95 % interval, beside a constant for each set; None for too few."""
    from scipy.stats import t

    sets = sorted({row["set"] for row in rows})
    free = len(rows) - len(sets) - 1
    if free < 1:
        return None
    design = np.array([[row["number"], *(row["set"] == one for one in sets)] for row in rows], float)
    values = np.array([row[key] for row in rows], float)
    found = np.linalg.lstsq(design, values, rcond=None)[0]
    rest = values - design @ found
    spread = math.sqrt(rest @ rest / free * np.linalg.inv(design.T @ design)[0, 0])
    half = float(t.ppf(0.975, free)) * spread
    return float(found[0]), float(found[0]) - half, float(found[0]) + half


def compared(report: Report, rows: Sequence[dict[str, Any]]) -> None:
    """A row for each quantity: means of the blocks, and slopes; gates."""
    size = len(BLOCK)
    blocks = [rows[start : start + size] for start in range(0, len(rows), size)]
    full = max((row["probed"] for row in rows), default=0)
    later = [row for row in rows if row["probed"] == full]
    for name, key in QUANTITIES.items():
        means = [float(np.mean([row[key] for row in block])) for block in blocks]
        line: dict[str, Any] = {"of a task, mean": name}
        for place, mean in enumerate(means):
            line[f"tasks {size * place + 1} to {size * place + len(blocks[place])}"] = f"{mean:.4g}"
        found, found_later = slope(rows, key), slope(later, key)
        line["slope per task (95 %)"] = shown(found)
        line[f"the same, {full} paths probed ({len(later)} tasks)"] = shown(found_later)
        report.rows.append(line)
        if key in BOUNDED and found is not None:
            report.at_most(f"{name}: lower end of the slope's interval, per task", found[1], 0.0)


def shown(found: tuple[float, float, float] | None) -> str:
    """A slope with its interval."""
    return "–" if found is None else f"{found[0]:+.3g} ({found[1]:+.3g} to {found[2]:+.3g})"


def reading(folder: Path, sample: Path, task: str, drawn: Path, rounds: int) -> dict[str, tuple[float, float, float]]:
    """Command -> median and least of its wall seconds, least of its CPU seconds; a round before does not count."""
    command, store = [sys.executable, "-m", "evodevo.cli"], ["--store", str(folder)]
    processes = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import torch'": [sys.executable, "-c", "import torch"],
        "extend status": [*command, "extend", "status", SYSTEM, *store],
        "extend graph": [*command, "extend", "graph", SYSTEM, *store],
        "extend graph -o zoo.svg": [*command, "extend", "graph", SYSTEM, "-o", str(drawn / "zoo.svg"), *store],
        "report -o zoo.html": [*command, "report", SYSTEM, "-o", str(drawn / "zoo.html"), *store],
        "predict --task FIRST": [*command, "predict", SYSTEM, "--task", task, "--input", str(sample), *store],
    }
    walls: dict[str, list[float]] = {name: [] for name in processes}
    used: dict[str, list[float]] = {name: [] for name in processes}
    for number in range(rounds + 1):
        for name, words in processes.items():
            begin, before = time.perf_counter(), children_seconds()
            subprocess.run(words, capture_output=True, check=True)
            if number:
                walls[name].append(time.perf_counter() - begin)
                used[name].append(children_seconds() - before)
    return {name: (statistics.median(walls[name]), min(walls[name]), min(used[name])) for name in processes}


def of_commands(commands: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Command -> what it took, by the number of tasks."""
    found: dict[str, list[str]] = {}
    for one in commands:
        text = f"{one['tasks']} tasks {told(one['median'])} s, {told(one['least'])}, {told(one['cpu'])}"
        found.setdefault(f"{one['command']} (median wall, least wall, least CPU)", []).append(text)
    return {name: "; ".join(texts) for name, texts in found.items()}


def told(value: Any) -> str:
    """A value of a row."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=None, help="write everything measured to this file")
    parser.add_argument("--data", required=True, help="folder with a folder for each set")
    parser.add_argument("--tasks", type=int, default=MOST_TASKS, help=f"number of tasks, at most {MOST_TASKS}")
    parser.add_argument("--steps", type=int, default=300, help="of a child")
    parser.add_argument("--children", type=int, default=4, help="of an agent, in generations of at most two")
    parser.add_argument("--samples", type=int, default=165, help="training and validation samples of a task")
    parser.add_argument("--rounds", type=int, default=3, help="how often reading commands are timed")
    parser.add_argument("--seed", type=int, default=0, help="of the system, and of the order of the tasks")
    options = parser.parse_args()
    if not 1 <= options.tasks <= MOST_TASKS:
        parser.error(f"the sets have classes for 1 to {MOST_TASKS} tasks; got {options.tasks}")
    torch.set_num_threads(THREADS)
    work = f"{options.children} children of {options.steps} steps, {options.samples} samples, seed {options.seed}"
    report = Report("many tasks in one system", settings={"of each task": work}, clock="new processes, one worker")
    overrides = {
        "cycle.samples": options.children,
        "cycle.generation_size": min(2, options.children),
        "training.steps": options.steps,
    }
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = str(Path(scratch) / "cache")
        folder, evodevo = Path(scratch) / "runs", [sys.executable, "-m", "evodevo.cli"]
        store = ["--store", str(folder)]
        created = ["extend", "create", SYSTEM, "--seed", str(options.seed), *store]
        subprocess.run([*evodevo, *created], check=True, capture_output=True)
        with Store.open(folder) as opened, SerialExecutor() as executor:  # the first task shall not pay for the root
            system = System.open(opened, SYSTEM)
            system.run(system.agents(), 1, executor)
        rows: list[dict[str, Any]] = []
        samples: dict[str, np.ndarray] = {}
        published: dict[str, str] = {}
        commands: list[dict[str, Any]] = []
        caches = Path(scratch) / "cache"
        changed, before = 0, (distinct(folder), stored(folder), stored(caches))
        for number, task in enumerate(tasks_of(options.tasks, options.seed), start=1):
            data = Path(scratch) / "data" / task.name
            samples[task.name] = cut(Path(options.data).resolve(), data, task, options.samples)
            values = [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]
            adding = measured(
                [*evodevo, "extend", "add", SYSTEM, task.name, "--data", str(data), "--json", *values, *store]
            )
            running = measured([*evodevo, "extend", "run", SYSTEM, "--tasks", task.name, "--test", "--json", *store])
            row, now = row_of(number, task, adding, running), (distinct(folder), stored(folder), stored(caches))
            row["rest"] = row["wall"] - row["probing"] - row["training"]
            row["parameters"] = now[0] - before[0]
            row["kilobytes"], row["cached"] = (now[1] - before[1]) / 1000, (now[2] - before[2]) / 1000
            before = now
            rows.append(row)
            print(", ".join(f"{key} {told(value)}" for key, value in row.items() if key != "set"), flush=True)
            published[task.name] = answers(folder, task.name, samples[task.name])
            if number % EVERY and number != options.tasks:
                continue
            first = next(iter(samples))
            changed += answers(folder, first, samples[first]) != published[first]
            sample = Path(scratch) / "sample.png"
            Image.fromarray(samples[first][0]).save(sample)
            for name, (median, least, used) in reading(folder, sample, first, Path(scratch), options.rounds).items():
                commands.append({"tasks": number, "command": name, "median": median, "least": least, "cpu": used})
                print(f"  {name}: {told(median)} s, at least {told(least)}; {told(used)} of CPU", flush=True)
        differing = sum(answers(folder, name, samples[name]) != published[name] for name in samples)
    compared(report, rows)
    report.settings |= of_commands(commands)
    for one in commands:
        if one["tasks"] == options.tasks and one["command"].startswith("extend"):
            what = f"evodevo {one['command']} of {options.tasks} tasks"
            report.at_most(f"{what}, CPU seconds", one["cpu"], SECONDS)
            report.at_most(f"{what}, median wall seconds", one["median"], SECONDS)
    report.at_most("looks at which answers of the first task had changed", changed, 0)
    report.at_most(f"tasks of {len(samples)} whose answers had changed in the end", differing, 0)
    report.finish(None)
    if options.json is not None:
        report.settings |= {"tasks": rows, "commands": commands}
        with contextlib.redirect_stdout(None):
            report.finish(options.json)


if __name__ == "__main__":
    main()
