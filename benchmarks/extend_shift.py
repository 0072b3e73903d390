"""Whether training images should be moved by chance: one child of an agent with and without, on sets of several kinds.

Run: python benchmarks/extend_shift.py --data FOLDER --results FILE
    [--sets cmaterdb_devanagari,notmnist10k,cifar10_jpg,fashion_mnist --shifts 0,0.1 --steps 1500 --few 0]
    [--class ConvSmall --root random_init --seeds 0,1,2]

Each run is a new system with one agent and one child of ``--steps`` steps, whose images are moved by up to a share of
their sides (hyperparameter ``ds_shift``); all else is the class's default. With ``--few N`` a task has N training
samples of each class, and 20 for validation. Accuracy on the test split, which nothing has chosen by; CPU seconds of
one process of one thread. What is in the file of results is not measured again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.run.run import run_system
from measuring import THREADS, mean_in_words, print_table

VALIDATION = 20


def accuracy(folder: Path, data: Path, options: Any, shift: float, seed: int) -> float:
    """Accuracy on test of what the agent publishes."""
    common = {"store": folder / "runs", "cache_folder": folder / "cache"}
    shifts = {"hyperparameters": {"ds_shift": {"values": [shift], "default": shift, "tuned": False}}}
    create_system("one", kind=options.kind, root=options.root, seed=seed, overrides={"root": shifts}, **common)
    few = {"task": {"few": {"train": options.few, "validation": VALIDATION, "draw": seed}}} if options.few else {}
    own = {"cycle": {"samples": 1, "generation_size": 1}, "training": {"steps": options.steps}, **few}
    add_task("one", "task", data=data, overrides=own, few_labels=bool(options.few), **common)
    with SerialExecutor() as executor:
        summary = run_system("one", cycles=1, test=True, executor=executor, **common)
    (ended,) = [one for one in summary.agents if one.task == "task"]
    assert ended.test is not None
    return ended.test


def table(rows: list[dict[str, Any]], shifts: list[str]) -> list[dict[str, Any]]:
    """A row for each set and movement, and the means over the sets, with differences paired over seeds."""
    told = []
    for name in [*dict.fromkeys(row["set"] for row in rows), "all"]:
        seeds = {
            shift: {
                seed: 100 * statistics.fmean(row["accuracy"] for row in rows if keep(row, name, shift, seed))
                for seed in dict.fromkeys(row["seed"] for row in rows if keep(row, name, shift, row["seed"]))
            }
            for shift in shifts
        }
        for shift in shifts:
            both = [seed for seed in seeds[shift] if seed in seeds[shifts[0]]]
            gaps = [seeds[shift][seed] - seeds[shifts[0]][seed] for seed in both] if shift != shifts[0] else []
            seconds = [row["seconds"] for row in rows if name in ("all", row["set"]) and row["shift"] == shift]
            told.append(
                {
                    "set": name,
                    "moved by": shift,
                    "accuracy": f"{statistics.fmean(seeds[shift].values()):.1f}",
                    f"minus {shifts[0]}": mean_in_words(gaps),
                    "CPU seconds": round(statistics.fmean(seconds)),
                }
            )
    return told


def keep(row: dict[str, Any], name: str, shift: str, seed: int) -> bool:
    """Whether a row is of this set, or of any for "all", of this movement and this seed."""
    return name in ("all", row["set"]) and (row["shift"], row["seed"]) == (shift, seed)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with a folder for each set")
    parser.add_argument("--results", type=Path, required=True, help="file of results, one a line")
    parser.add_argument("--sets", default="cmaterdb_devanagari,notmnist10k,cifar10_jpg,fashion_mnist")
    parser.add_argument(
        "--shifts", default="0,0.1", help="largest movements, as shares of the sides; the first is compared"
    )
    parser.add_argument("--steps", type=int, default=1500, help="of the child")
    parser.add_argument("--few", type=int, default=0, help="training samples of each class; 0 = all")
    parser.add_argument("--class", dest="kind", default="ConvSmall", help="class of agents")
    parser.add_argument("--root", default="random_init", help="as evodevo extend create has it")
    parser.add_argument("--seeds", default="0,1,2", help="of the systems")
    given = parser.parse_args()
    torch.set_num_threads(THREADS)
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    rows = [json.loads(line) for line in lines]
    sets, shifts = given.sets.split(","), given.shifts.split(",")
    course = {"steps": given.steps, "few": given.few, "class": given.kind, "root": given.root}
    for seed, name, shift in itertools.product(given.seeds.split(","), sets, shifts):
        known = {"set": name, "shift": shift, "seed": int(seed), **course}
        if any(known.items() <= row.items() for row in rows):
            continue
        began = time.process_time()
        with tempfile.TemporaryDirectory() as scratch:
            found = accuracy(Path(scratch), given.data.resolve() / name, given, float(shift), int(seed))
        rows.append({**known, "accuracy": found, "seconds": time.process_time() - began})
        print(json.dumps(rows[-1]), flush=True)
        with given.results.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    own = [row for row in rows if course.items() <= row.items() and row["set"] in sets and row["shift"] in shifts]
    print_table(table(own, shifts))


if __name__ == "__main__":
    main()
