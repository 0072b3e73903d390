"""Few long children or many short ones: the same steps of one agent, shared by more or fewer children.

Run: python benchmarks/extend_children.py --data FOLDER [--json PATH] [--sets cifar10_jpg,cmaterdb_bangla]
    [--steps 2000 --children 1,2,4 --fine-tuned 0,1 --class ConvSmall --root default --seeds 0]

Each run is a new system with one agent and one cycle; all else is the class's default. Children share ``--steps``
equally, in two generations where there are several: the second may go on with what the first has learned. With
``--fine-tuned 1`` the first child trains all of its parent; with 0 all are drawn as in the paper. Accuracy on the test
split, which nothing has chosen by; CPU seconds of one process of one thread.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.run.run import run_system
from measuring import THREADS, Report


def cycle_of(children: int, fine_tuned: int) -> dict[str, Any]:
    """Settings of one cycle."""
    return {"samples": children, "generation_size": max(1, children // 2), "child": {"fine_tuned": fine_tuned}}


def accuracy(folder: Path, data: Path, options: Any, children: int, fine_tuned: int, seed: int) -> float:
    """Accuracy on test of what the agent publishes."""
    common = {"store": folder / "runs", "cache_folder": folder / "cache"}
    root = {} if options.root == "default" else {"root": options.root}
    create_system("one", kind=options.kind, seed=seed, **root, **common)
    training = {"steps": options.steps // children}
    add_task(
        "one", "task", data=data, overrides={"cycle": cycle_of(children, fine_tuned), "training": training}, **common
    )
    with SerialExecutor() as executor:
        summary = run_system("one", cycles=1, test=True, executor=executor, **common)
    (ended,) = [one for one in summary.agents if one.task == "task"]
    assert ended.test is not None
    return ended.test


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=None, help="write everything measured to this file")
    parser.add_argument("--data", required=True, help="folder with a folder for each set")
    parser.add_argument("--sets", default="cifar10_jpg,cmaterdb_bangla", help="folders, separated by commas")
    parser.add_argument("--steps", type=int, default=2000, help="of all children of a run together")
    parser.add_argument("--children", default="1,2,4", help="numbers of children")
    parser.add_argument("--fine-tuned", default="0,1", help="numbers of children that train all of their parent")
    parser.add_argument("--class", dest="kind", default="ConvSmall", help="class of agents")
    parser.add_argument("--root", default="default", help="as evodevo extend create has it")
    parser.add_argument("--seeds", default="0", help="of the systems")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    report = Report("few long children or many short ones", settings={"steps": options.steps, "class": options.kind})
    sets, counts, tuned, seeds = (
        text.split(",") for text in (options.sets, options.children, options.fine_tuned, options.seeds)
    )
    for seed, name, children, fine_tuned in itertools.product(seeds, sets, counts, tuned):
        begin = time.process_time()
        with tempfile.TemporaryDirectory() as scratch:
            data = Path(options.data).resolve() / name
            found = accuracy(Path(scratch), data, options, int(children), int(fine_tuned), int(seed))
        row = {
            "set": name,
            "seed": seed,
            "children": children,
            "steps of each": options.steps // int(children),
            "trained whole": fine_tuned,
            "test accuracy": f"{found:.4f}",
            "CPU seconds": round(time.process_time() - begin),
        }
        report.rows.append(row)
        print(*row.values(), flush=True)
    report.finish(options.json)


if __name__ == "__main__":
    main()
