"""What ``multitask.characters`` has to beat besides its own arms: one trunk for all tasks, and separate small networks.

Run: python benchmarks/multitask_opponents.py --data FOLDER --results FILE [--seeds 0,1,2] [--samples 128000]
    [--widths 24,48,64]

``joint`` is the trunk of ``ConvSmall``, which has learned fashion_mnist first as the recipe's root has, trained on all
tasks together, a step of one after a step of the other, with a head for each. ``separate`` is a network of its own for
each task, from random weights, with ``--widths`` channels: take those that make as many parameters for a task as the
agents need. Both see ``--samples`` training samples for each task, half of them at each of two learning rates, .05 and
.2, of which validation chooses (the mean over the tasks for ``joint``). Tasks and splits are the recipe's, images 32 x
32; nothing changes an image. Accuracy on test; one process of one thread. What is in the file is not measured again.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.multitask.paths.blocks_spec import HEAD
from evodevo.multitask.paths.convolution.model import ConvolutionPath, build_component
from evodevo.multitask.paths.convolution.spec import PRESETS, role_parameters
from evodevo.multitask.recipes.tasks import PRETRAINING, tasks_of
from evodevo.multitask.roots.training import stored_set, trained
from evodevo.tasks.multitask.task import MultitaskTask
from measuring import THREADS, print_table

RATES = (0.05, 0.2)
BATCH, SIDE, WARMUP, ROOT_SAMPLES = 64, 32, 0.05, 160_000
Split = tuple[Tensor, Tensor]


class Lesson:
    """A task's images (N, 3, 32, 32) in [-1, 1] and classes (N,), by split."""

    def __init__(self, name: str, task: MultitaskTask) -> None:
        self.name, self.classes = name, task.classes
        self.splits = {split: self._read(task, split) for split in ("train", "validation", "test")}

    @staticmethod
    def _read(task: MultitaskTask, split: Any) -> Split:
        batch = task.fetch(split, np.arange(task.count(split)))
        raw = torch.from_numpy(np.ascontiguousarray(batch[task.inputs[0].name])).permute(0, 3, 1, 2).float()
        resized = F.interpolate(raw, (SIDE, SIDE), mode="bilinear", antialias=True) / 127.5 - 1
        return resized.expand(-1, 3, -1, -1), torch.from_numpy(task.labels(split)).long()


def learn(trunk: ConvolutionPath, lessons: Sequence[Lesson], steps: int, rate: float, seed: int) -> nn.ModuleList:
    """Train a trunk in place, each step on the next of the tasks; returns their heads."""
    chance = torch.Generator().manual_seed(seed)
    heads = nn.ModuleList(build_component(trunk.structure.changed(classes=one.classes), HEAD, seed) for one in lessons)
    parameters = [*trunk.parameters(), *heads.parameters()]
    optimizer = torch.optim.SGD(parameters, rate, 0.9, nesterov=True)
    trunk.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / (WARMUP * steps)) * (1 + math.cos(math.pi * step / steps)) / 2
        which = step % len(lessons)
        x, y = lessons[which].splits["train"]
        rows = torch.randint(len(x), (BATCH,), generator=chance)
        optimizer.zero_grad()
        F.cross_entropy(heads[which](trunk(x[rows])), y[rows]).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    trunk.eval()
    return heads


@torch.no_grad()
def accuracy(trunk: ConvolutionPath, head: nn.Module, split: Split) -> float:
    """In percent."""
    answers = torch.cat([head(trunk(part)).argmax(1) for part in split[0].split(500)])
    return 100 * float((answers == split[1]).float().mean())


def joint(root: ConvolutionPath, lessons: Sequence[Lesson], samples: int, seed: int) -> dict[str, float]:
    """Task -> accuracy on test of one trunk."""
    found = []
    for rate in RATES:
        trunk = copy.deepcopy(root)
        heads = learn(trunk, lessons, len(lessons) * samples // BATCH // len(RATES), rate, seed)
        of = [
            {split: accuracy(trunk, head, one.splits[split]) for split in ("validation", "test")}
            for one, head in zip(lessons, heads, strict=True)
        ]
        found.append((statistics.fmean(one["validation"] for one in of), [one["test"] for one in of]))
    return dict(zip((one.name for one in lessons), max(found)[1], strict=True))


def separate(widths: tuple[int, ...], lesson: Lesson, samples: int, seed: int) -> float:
    """Accuracy on test of a network for one task."""
    found = []
    for rate in RATES:
        trunk = ConvolutionPath.fresh(PRESETS["small"].changed(widths=widths), seed)
        (head,) = learn(trunk, [lesson], samples // BATCH // len(RATES), rate, seed)
        found.append(tuple(accuracy(trunk, head, lesson.splits[split]) for split in ("validation", "test")))
    return max(found)[1]


def measured(arm: str, lessons: Sequence[Lesson], given: Any, widths: tuple[int, ...], seed: int) -> dict[str, Any]:
    """Accuracies of an arm, its parameters for a task, and CPU seconds without the root's."""
    root = trained([stored_set(given.data / PRETRAINING)], "small", ROOT_SAMPLES, seed) if arm == "joint" else None
    began = time.process_time()
    structure = PRESETS["small"] if root else PRESETS["small"].changed(widths=widths)
    heads = [role_parameters(structure.changed(classes=one.classes))[HEAD] for one in lessons]
    trunk = sum(role_parameters(structure).values())
    if root:
        accuracies = joint(root, lessons, given.samples, seed)
    else:
        accuracies = {one.name: separate(widths, one, given.samples, seed) for one in lessons}
    return {
        "accuracies": {name: round(value, 2) for name, value in accuracies.items()},
        "parameters": round((sum(heads) + trunk * (1 if root else len(lessons))) / len(lessons)),
        "seconds": round(time.process_time() - began),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with a folder for each set")
    parser.add_argument("--results", type=Path, required=True, help="file of results, one a line")
    parser.add_argument("--arms", default="joint,separate", help="names, separated by commas")
    parser.add_argument("--seeds", default="0,1,2", help="numbers, separated by commas")
    parser.add_argument("--samples", type=int, default=128_000, help="training samples of each task")
    parser.add_argument("--widths", default="24,48,64", help="channels of separate networks")
    given = parser.parse_args()
    torch.set_num_threads(THREADS)
    widths = tuple(int(one) for one in given.widths.split(","))
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    rows = [json.loads(line) for line in lines]
    with tempfile.TemporaryDirectory() as cache:
        _, plans = tasks_of(str(given.data))
        lessons = [Lesson(one.name, MultitaskTask.open(one.source, Path(cache))) for one in plans]
        for seed in map(int, given.seeds.split(",")):
            for arm in given.arms.split(","):
                known = {"arm": arm, "seed": seed, "samples": given.samples, "widths": list(widths)}
                if not any(known.items() <= row.items() for row in rows):
                    rows.append({**known, **measured(arm, lessons, given, widths, seed)})
                    print(json.dumps(rows[-1]), flush=True)
                    with given.results.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
    told = []
    for arm in given.arms.split(","):
        own = [row for row in rows if (row["arm"], row["samples"]) == (arm, given.samples)]
        means = [statistics.fmean(row["accuracies"].values()) for row in own]
        tasks = {one.name: f"{statistics.fmean(row['accuracies'][one.name] for row in own):.1f}" for one in lessons}
        told.append(
            {
                "arm": arm,
                **tasks,
                "mean": f"{statistics.fmean(means):.1f}",
                "seeds": " ".join(f"{one:.1f}" for one in means),
                "parameters / task": own[0]["parameters"],
            }
        )
    print_table(told)


if __name__ == "__main__":
    main()
