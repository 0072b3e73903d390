"""What ``multitask.characters`` has to beat besides its own arms: one trunk for all tasks, separate small networks, and
a trunk that is fine-tuned for each task by hand.

Run: python benchmarks/multitask_opponents.py --data FOLDER --results FILE [--seeds 0,1,2] [--samples 128000]
    [--widths 24,48,64] [--shift 0.1] [--arms joint,separate,fine_tuned]

``joint`` is the trunk of ``ConvSmall``, which has learned fashion_mnist first as the recipe's root has, trained on all
tasks together, a step of one after a step of the other, with a head for each. ``separate`` is a network of its own for
each task, from random weights, with ``--widths`` channels: take those that make as many parameters for a task as the
agents need. ``fine_tuned`` is a copy of the first trunk for each task, which is one more of its networks. All see
``--samples`` training samples for each task, half of them at each of two learning rates, .05 and .2, of which
validation chooses (the mean over the tasks for ``joint``). Tasks and splits are the recipe's, images 32 x 32; training
images are moved by up to ``--shift`` of their sides, as agents of convolutions move them. Accuracy on test; one process
of one thread. What is in the file is not measured again.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
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
from evodevo.multitask.training.augmentation import augmented
from evodevo.multitask.training.values import DataValues
from evodevo.tasks.multitask.task import MultitaskTask
from measuring import THREADS, print_table

RATES = (0.05, 0.2)
BATCH, SIDE, WARMUP, ROOT_SAMPLES = 64, 32, 0.05, 160_000
Split = tuple[Tensor, Tensor]


class Lesson:
    """A task: images as bytes (N, height, width, channels) and classes (N,), by split.

    Args:
        name: Name of the task.
        task: The task.
        shift: Largest movement of training images, as a share of their sides.
    """

    def __init__(self, name: str, task: MultitaskTask, shift: float) -> None:
        self.name, self.classes, self.values = name, task.classes, DataValues(shift=shift)
        images, splits = task.inputs[0].name, ("train", "validation", "test")
        self.bytes = {split: task.fetch(split, np.arange(task.count(split)))[images] for split in splits}
        self.labels = {split: torch.from_numpy(task.labels(split)).long() for split in splits}

    def training(self, rows: Tensor, seed: int, step: int) -> Split:
        """Moved images (B, 3, 32, 32) in [-1, 1] of a training step, and their classes (B,)."""
        (moved,) = augmented(np.ascontiguousarray(self.bytes["train"][rows.numpy()]), self.values, seed, step)
        return _resized(moved), self.labels["train"][rows]

    def parts(self, split: str) -> Iterator[Split]:
        """Images and classes of a split as they are, in parts."""
        for rows in torch.arange(len(self.labels[split])).split(500):
            raw = torch.from_numpy(np.ascontiguousarray(self.bytes[split][rows.numpy()])).permute(0, 3, 1, 2).float()
            yield _resized(raw), self.labels[split][rows]


def _resized(images: Tensor) -> Tensor:
    """Numbers in [0, 255] (B, 1 or 3, height, width) -> (B, 3, 32, 32) in [-1, 1]."""
    resized = F.interpolate(images, (SIDE, SIDE), mode="bilinear", antialias=True) / 127.5 - 1
    return resized.expand(-1, 3, -1, -1)


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
        rows = torch.randint(len(lessons[which].labels["train"]), (BATCH,), generator=chance)
        x, y = lessons[which].training(rows, seed, step)
        optimizer.zero_grad()
        F.cross_entropy(heads[which](trunk(x)), y).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    trunk.eval()
    return heads


@torch.no_grad()
def accuracy(trunk: ConvolutionPath, head: nn.Module, lesson: Lesson, split: str) -> float:
    """In percent."""
    right = torch.cat([head(trunk(x)).argmax(1) == y for x, y in lesson.parts(split)])
    return 100 * float(right.float().mean())


def joint(root: ConvolutionPath, lessons: Sequence[Lesson], samples: int, seed: int) -> dict[str, float]:
    """Task -> accuracy on test of one trunk."""
    found = []
    for rate in RATES:
        trunk = copy.deepcopy(root)
        heads = learn(trunk, lessons, len(lessons) * samples // BATCH // len(RATES), rate, seed)
        of = [
            {split: accuracy(trunk, head, one, split) for split in ("validation", "test")}
            for one, head in zip(lessons, heads, strict=True)
        ]
        found.append((statistics.fmean(one["validation"] for one in of), [one["test"] for one in of]))
    return dict(zip((one.name for one in lessons), max(found)[1], strict=True))


def separate(begin: ConvolutionPath, lesson: Lesson, samples: int, seed: int) -> float:
    """Accuracy on test of a copy of a network that learns one task."""
    found = []
    for rate in RATES:
        trunk = copy.deepcopy(begin)
        (head,) = learn(trunk, [lesson], samples // BATCH // len(RATES), rate, seed)
        found.append(tuple(accuracy(trunk, head, lesson, split) for split in ("validation", "test")))
    return max(found)[1]


@cache
def first_trunk(data: Path, seed: int) -> ConvolutionPath:
    """A trunk that has learned fashion_mnist."""
    return trained([stored_set(data / PRETRAINING)], "small", ROOT_SAMPLES, seed)


def measured(arm: str, lessons: Sequence[Lesson], given: Any, widths: tuple[int, ...], seed: int) -> dict[str, Any]:
    """Accuracies of an arm, its parameters for a task, and CPU seconds without the root's."""
    if arm == "separate":
        begin, count = ConvolutionPath.fresh(PRESETS["small"].changed(widths=widths), seed), len(lessons)
    else:
        begin = first_trunk(given.data, seed)
        count = 1 if arm == "joint" else 1 + len(lessons)
    began = time.process_time()
    heads = [role_parameters(begin.structure.changed(classes=one.classes))[HEAD] for one in lessons]
    trunk = sum(role_parameters(begin.structure).values())
    if arm == "joint":
        accuracies = joint(begin, lessons, given.samples, seed)
    else:
        accuracies = {one.name: separate(begin, one, given.samples, seed) for one in lessons}
    return {
        "accuracies": {name: round(value, 2) for name, value in accuracies.items()},
        "parameters": round((sum(heads) + trunk * count) / len(lessons)),
        "seconds": round(time.process_time() - began),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with a folder for each set")
    parser.add_argument("--results", type=Path, required=True, help="file of results, one a line")
    parser.add_argument("--arms", default="joint,separate,fine_tuned", help="names, separated by commas")
    parser.add_argument("--seeds", default="0,1,2", help="numbers, separated by commas")
    parser.add_argument("--samples", type=int, default=128_000, help="training samples of each task")
    parser.add_argument("--widths", default="24,48,64", help="channels of separate networks")
    parser.add_argument("--shift", type=float, default=0.1, help="largest movement of images, a share of their sides")
    given = parser.parse_args()
    torch.set_num_threads(THREADS)
    widths = tuple(int(one) for one in given.widths.split(","))
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    rows = [json.loads(line) for line in lines]
    with tempfile.TemporaryDirectory() as cache:
        _, plans = tasks_of(str(given.data))
        lessons = [Lesson(one.name, MultitaskTask.open(one.source, Path(cache)), given.shift) for one in plans]
        for seed in map(int, given.seeds.split(",")):
            for arm in given.arms.split(","):
                known = {"arm": arm, "seed": seed, "shift": given.shift, "samples": given.samples}
                known |= {"widths": list(widths)} if arm == "separate" else {}
                if not any(known.items() <= row.items() for row in rows):
                    rows.append({**known, **measured(arm, lessons, given, widths, seed)})
                    print(json.dumps(rows[-1]), flush=True)
                    with given.results.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
    told = []
    for arm in given.arms.split(","):
        same = {"arm": arm, "shift": given.shift, "samples": given.samples}
        own = [row for row in rows if same.items() <= row.items()]
        means = [statistics.fmean(row["accuracies"].values()) for row in own]
        tasks = {one.name: f"{statistics.fmean(row['accuracies'][one.name] for row in own):.1f}" for one in lessons}
        told.append(
            {
                "arm": arm,
                **tasks,
                "mean": f"{statistics.fmean(means):.1f}",
                "seeds": " ".join(f"{one:.1f}" for one in means),
                "parameters / task": own[0]["parameters"],
                "CPU seconds": round(statistics.fmean(row["seconds"] for row in own)),
            }
        )
    print_table(told)


if __name__ == "__main__":
    main()
