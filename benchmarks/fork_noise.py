"""How much the gain of a fork differs by the order of its batches: last or averaged weights, paired or not.

Run: python benchmarks/fork_noise.py DATA [--budget 70] [--recipe] [--modules lstm-1] [--seeds 1 2] [--steps 115]

DATA is a folder that ``module_zoo.growth_proof`` knows, or ``generated``; settings are those of ``starting_race.py``. A
network of ``--modules`` is trained for the share ``--at`` of the budget. From there copies of it, some edited around
their modules, are trained for so many steps, in each of ``--orders`` orders of the same batches. A row for each edit:
its gain in each order (fall of the loss in nats on 2,000 samples of the architecture split), by the last weights and by
the mean of those of the last half, and the standard deviation of a difference: of both sides in one order, and of two
trainings without the edit in orders of their own. Equal steps and not equal FLOPs: it is the noise that counts here.
One thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch

from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.racing.race import batches_from
from evodevo.experiments.trainer import Trainer
from evodevo.growth.around.base import AROUND
from evodevo.growth.around.spec import AroundSettings
from evodevo.growth.forks.judging import parts_of_split, sample_losses
from evodevo.growth.forks.plan import ForkSamples
from evodevo.growth.forks.running import spare_of
from evodevo.growth.forks.sides import Side, reordered, train_side
from evodevo.growth.procedures.settings import pool_to_grow
from evodevo.growth.spec import ForkSettings
from evodevo.tasks.held.back import with_architecture_split
from evodevo.training.precision import decide
from measuring import print_table
from starting_race import experiment, trial

NONE = "none"
AVERAGE = 0.5
WEIGHTS = ("last", "averaged")


def losses(given: argparse.Namespace, seed: int) -> dict[str, list[tuple[float, float]]]:
    """Edit -> for each order the loss of the last and of the averaged weights."""
    made = experiment(given.data, given.budget, recipe=given.recipe)
    arm = trial(made, seed, {}, given.modules)
    task = with_architecture_split(NetworkProblem(lambda one: one, made.evaluation, None).open_task({}))
    bench = Trainer(arm, made.evaluation, task, seed, decide("cpu"), None, lambda message: None, None, Path())
    network = bench.build()
    bench.train(network, training=bench.training, task=task, until_share=given.at, watched=False)
    zoo, branch = pool_to_grow(arm).grown(network, bench.carry), bench.branch()
    begin = branch.snapshot.cursor.step
    chosen, _ = parts_of_split(task, ForkSamples.of(ForkSettings(), task.count("architecture")))
    batches = batches_from(bench, task, 0)
    found: dict[str, list[tuple[float, float]]] = {}
    for edit in (NONE, *AROUND):
        for order in range(given.orders):
            side = Side(spare_of(zoo, bench), branch.snapshot, lambda zoo, share: None)
            if edit != NONE:
                side.zoo.edit_around(edit, AroundSettings(), seed)
            side.count(bench, batches, given.at)
            own = reordered(batches, begin, given.steps, seed, order) if order else batches
            train_side(bench, side, bench.training, own, given.steps, average=AVERAGE)
            assert side.averaged is not None, "it was trained to the end"
            last, averaged = (
                float(sample_losses(one, task, chosen, batch_size=64, precision=bench.precision).mean())
                for one in (side.zoo.network, side.averaged)
            )
            found.setdefault(edit, []).append((last, averaged))
    return found


def rows(seed: int, found: dict[str, list[tuple[float, float]]]) -> list[dict[str, Any]]:
    """A row for each edit and each kind of weights."""
    told = []
    for place, weights in enumerate(WEIGHTS):
        without = [one[place] for one in found[NONE]]
        for edit in AROUND:
            gains = [one - other[place] for one, other in zip(without, found[edit], strict=True)]
            told.append(
                {
                    "seed": seed,
                    "edit": edit,
                    "weights": weights,
                    "gains": " ".join(f"{gain:+.4f}" for gain in gains),
                    "mean": f"{statistics.fmean(gains):+.4f}",
                    "deviation in one order": f"{statistics.stdev(gains):.4f}",
                    "in orders of their own": f"{2**0.5 * statistics.stdev(without):.4f}",
                }
            )
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--budget", type=float, default=70.0, help="GFLOPs of the whole training")
    parser.add_argument("--recipe", action="store_true", help="width and batch of the recipe, 32 and 64")
    parser.add_argument("--modules", default="lstm-1", help="ids joined by +, or all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--at", type=float, default=0.2, help="share of the budget before the fork")
    parser.add_argument("--steps", type=int, default=115, help="steps of each training after it")
    parser.add_argument("--orders", type=int, default=4)
    given = parser.parse_args()
    torch.set_num_threads(1)
    told = []
    for seed in given.seeds:
        told += rows(seed, losses(given, seed))
        print(json.dumps(told[-len(WEIGHTS) * len(list(AROUND)) :]), flush=True)
    print_table(told)


if __name__ == "__main__":
    main()
