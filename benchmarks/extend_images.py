"""How good ``extend`` is on small images with its defaults, beside nearest neighbours on pixels and a plain network.

Run: python benchmarks/extend_images.py --data FOLDER [--json PATH]
    [--sets cmaterdb_devanagari,mnist10k --classes VitT3,ConvSmall --root random_init --children 8 --cycles 1]

Each set is a folder with ``train`` and ``test``. For each class of agents a new system gets the class's usual root (or
that of --root) and one agent, which runs with all its defaults; what it publishes is measured on the test split. Beside
it: 3-NN on pixels at 20 x 20 grey, and a network of three convolutions (26,000 parameters) that sees as many training
samples as one child of ``ConvSmall`` does. One process of one thread; CPU seconds, preparation of data included.
"""

from __future__ import annotations

import argparse
import itertools
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.run.run import run_system
from evodevo.multitask.system import System
from evodevo.storage import Store
from evodevo.tasks.multitask.task import MultitaskSettings, MultitaskTask
from measuring import THREADS, Report

NEIGHBOURS, SIDE = 3, 20
BATCH, RATE, SEEN = 64, 2e-3, 32_000


def pixels(task: MultitaskTask, split: Any, size: int, *, colour: bool = False) -> torch.Tensor:
    """Images (N, 1, size, size) in [-1, 1], grey; in colour (N, 3, size, size) where they have it."""
    batch = task.fetch(split, np.arange(task.count(split)))
    raw = torch.from_numpy(np.ascontiguousarray(batch[task.inputs[0].name])).permute(0, 3, 1, 2).float()
    shown = raw if colour else raw.mean(1, keepdim=True)
    return F.interpolate(shown, (size, size), mode="bilinear", antialias=True) / 127.5 - 1


def nearest(task: MultitaskTask) -> float:
    """Accuracy on test of the majority of the nearest training images."""
    train, test = (pixels(task, split, SIDE).flatten(1) for split in ("train", "test"))
    labels = torch.from_numpy(task.labels("train")).long()
    right = 0
    for start in range(0, len(test), 500):
        near = torch.cdist(test[start : start + 500], train).topk(NEIGHBOURS, largest=False).indices
        votes = F.one_hot(labels[near], task.classes).sum(1).float()
        votes.scatter_add_(1, labels[near[:, :1]], torch.full((len(near), 1), 0.5))  # of equal ones the nearest
        right += int((votes.argmax(1).numpy() == task.labels("test")[start : start + 500]).sum())
    return right / len(test)


def plain(
    task: MultitaskTask,
    *,
    rate: float = RATE,
    seen: int = SEEN,
    splits: Sequence[Any] = ("test",),
    colour: bool = False,
    moved: int = 0,
    seed: int = 0,
) -> list[float]:
    """Accuracies of three convolutions on splits, trained with AdamW and a cosine.

    Args:
        task: Task of images.
        rate: Learning rate at the start.
        seen: Number of training samples, repetitions included.
        splits: Splits on which it is judged.
        colour: Whether images keep their colour.
        moved: Largest movement of a training image in either direction, in pixels of 28; edges repeat.
        seed: Of its first weights and of the order of samples.
    """
    torch.manual_seed(seed)
    x, y = pixels(task, "train", 28, colour=colour), torch.from_numpy(task.labels("train")).long()
    widths = (x.shape[1], 16, 32, 64)
    parts: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        parts += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    network = nn.Sequential(*parts, nn.Flatten(), nn.Linear(64 * 3 * 3, task.classes))
    steps = seen // BATCH
    optimizer = torch.optim.AdamW(network.parameters(), rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 + math.cos(math.pi * step / steps)) / 2)
    order = torch.cat([torch.randperm(len(x)) for _ in range(seen // len(x) + 1)])
    for step in range(steps):
        rows = order[step * BATCH : (step + 1) * BATCH]
        optimizer.zero_grad()
        F.cross_entropy(network(_moved(x[rows], moved)), y[rows]).backward()
        optimizer.step()
        schedule.step()
    found = []
    for split in splits:
        with torch.no_grad():
            parts = pixels(task, split, 28, colour=colour).split(500)
            answers = torch.cat([network(part).argmax(1) for part in parts])
        found.append(float((answers.numpy() == task.labels(split)).mean()))
    return found


def _moved(images: torch.Tensor, most: int) -> torch.Tensor:
    """Images, each moved by up to so many pixels."""
    if not most:
        return images
    padded = F.pad(images, (most, most, most, most), mode="replicate")
    side, corners = images.shape[-1], torch.randint(0, 2 * most + 1, (len(images), 2)).tolist()
    return torch.stack(
        [one[:, top : top + side, left : left + side] for one, (top, left) in zip(padded, corners, strict=True)]
    )


def extend(folder: Path, data: Path, kind: str, options: Any) -> tuple[float, int]:
    """Accuracy on test of what an agent publishes, and the number of its children."""
    root = {} if options.root == "default" else {"root": options.root}
    common = {"store": folder / "runs", "cache_folder": folder / "cache"}
    cycle = {"samples": options.children, "generation_size": min(options.children, 4)}
    changes = {"cycle": cycle} if options.children else {}
    create_system("one", kind=kind, overrides=changes, **root, **common)
    add_task("one", "task", data=data, **common)
    with SerialExecutor() as executor:
        summary = run_system("one", cycles=options.cycles, test=True, executor=executor, **common)
    with Store.open(folder / "runs") as store:
        children = len(store.individuals(System.open(store, "one").agent(f"{kind}~task").id))
    (ended,) = [one for one in summary.agents if one.task == "task"]
    assert ended.test is not None
    return ended.test, children


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=None, help="write everything measured to this file")
    parser.add_argument("--data", required=True, help="folder with a folder for each set")
    parser.add_argument("--sets", default="cmaterdb_devanagari,mnist10k", help="folders, separated by commas")
    parser.add_argument("--classes", default="VitT3,ConvSmall", help="classes of agents; empty for none")
    parser.add_argument("--root", default="default", help="as evodevo extend create has it")
    parser.add_argument("--children", type=int, default=0, help="of a cycle; 0 is the default of the class")
    parser.add_argument("--cycles", type=int, default=1, help="of each agent")
    parser.add_argument("--alone", action="store_true", help="without nearest neighbours and the plain network")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    report = Report("extend on small images", settings={"cycles": options.cycles, "clock": "CPU time of the process"})
    for name in options.sets.split(","):
        data = Path(options.data).resolve() / name

        def timed(label: str, work: Any, name: str = name) -> None:
            begin = time.process_time()
            result = work()
            accuracy, *facts = result if isinstance(result, tuple) else (result,)
            seconds = time.process_time() - begin
            words = f"{facts[0]} children, " if facts else ""
            report.rows.append(
                {
                    "set": name,
                    "who": label,
                    "test accuracy": f"{accuracy:.4f}",
                    "children": facts[0] if facts else "",
                    "CPU seconds": round(seconds),
                }
            )
            print(f"{name:22s} {label:22s} {accuracy:.4f}   {words}{seconds:.0f} CPU s", flush=True)

        with tempfile.TemporaryDirectory() as scratch:
            if not options.alone:
                task = MultitaskTask.open(MultitaskSettings(data=str(data)), Path(scratch))
                timed("3-NN on pixels", lambda task=task: nearest(task))
                timed("three convolutions", lambda task=task: plain(task)[0])
            for kind in options.classes.split(",") if options.classes else ():
                with tempfile.TemporaryDirectory(dir=scratch) as inner:
                    timed(
                        f"extend, {kind}",
                        lambda kind=kind, inner=inner, data=data: extend(Path(inner), data, kind, options),
                    )
    report.finish(options.json)


if __name__ == "__main__":
    main()
