"""Does a race tell which modules a zoo should begin with, and does growth pay after it?

Run: python benchmarks/starting_race.py DATA [--curves 3 | --budget 70] [--seeds 1] [--arms fixed,raced,...]

DATA is a folder that ``module_zoo.growth_proof`` knows; its settings hold but for batch and width, 16 each, so that a
budget has many steps. ``--budget`` trains whole arms for so many GFLOPs, everything counted: the six modules ``fixed``,
begun by a race (``raced``), grown by the heuristic after it (``raced and grown``) and without (``grown``). ``--curves``
trains networks alone for as many GFLOPs each, as a race would, and judges them on the way: who leads when. A line of
JSON for each result. One thread.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trainer import Trainer
from evodevo.experiments.trials import Trial
from evodevo.growth.recipes.growing import NOTHING_HAPPENS
from evodevo.module_zoo.cost import zoo_cost
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.runs.resolve import resolve
from evodevo.settings import merge
from evodevo.tasks.held_back import with_architecture_split
from evodevo.training.precision import decide
from evodevo.training.settings import Budget

GIGA = 1e9
BATCH = WIDTH = 16
RATE = 3e-3
ARMS: dict[str, dict[str, Any]] = {
    "fixed": dict(NOTHING_HAPPENS),
    "raced": dict(NOTHING_HAPPENS),
    "raced and grown": {"strategist": "heuristic"},
    "grown": {"strategist": "heuristic"},
}
LOOKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
JUDGED = 512


def experiment(data: str, gflops: float) -> ExperimentSettings:
    """The recipe's settings with this budget."""
    training = {"budget": {"flops": gflops * GIGA}, "batch_size": BATCH}
    overrides = {"data": data, "evaluation": {"training": training}, "zoo": {"width": WIDTH}}
    made = resolve("module_zoo.growth_proof", size="full", driver="grow", baselines="none", overrides=overrides)
    assert isinstance(made, ExperimentSettings)
    return made


def trial(made: ExperimentSettings, seed: int, options: dict[str, Any]) -> Trial:
    """A training of the zoo of six."""
    network = next(arm.network for arm in made.experiment.arms if arm.name == "fixed")
    return Trial(
        name="zoo", role="zoo", network=network, learning_rate=RATE, procedure="grow", options=options, seed=seed
    )


def whole(made: ExperimentSettings, name: str, seed: int, race: dict[str, float]) -> dict[str, Any]:
    """One training to the end of its budget."""
    options = merge(ARMS[name], {"race": race}) if name.startswith("raced") else ARMS[name]
    arm, began = trial(made, seed, options), time.process_time()
    problem = NetworkProblem(lambda one: one, made.evaluation, None, arms=(arm,))
    outcome = problem.read(evaluate_network(problem.payload(arm, seed, None), lambda message: None))
    assert outcome.reason is None, outcome.detail
    facts = outcome.extra
    growth = facts["growth"]
    return {
        "arm": name,
        "seed": seed,
        "accuracy": round(100 * facts["test"]["accuracy"], 2),
        "steps": facts["steps"],
        "GFLOPs": round(facts["training_flops"] / GIGA, 2),
        "cpu_seconds": round(time.process_time() - began, 1),
        "modules": growth["modules"],
        "race": growth["race"],
    }


def curve(made: ExperimentSettings, ids: str, seed: int, gflops: float) -> dict[str, Any]:
    """Loss and accuracy of a network of these modules on the architecture split: (GFLOPs, steps, loss, accuracy)."""
    arm = trial(made, seed, {})
    task = with_architecture_split(NetworkProblem(lambda one: one, made.evaluation, None).open_task({}))
    bench = Trainer(arm, made.evaluation, task, seed, decide("cpu"), None, lambda message: None, None, Path())
    six = arm.network.structure
    chosen = tuple(module for module in six.modules if ids == "all" or module.id in ids.split("+"))
    structure = six.model_copy(update={"modules": chosen})
    network = bench.build(ModuleZooNetwork(structure=structure))
    cost = zoo_cost(structure, inputs=task.inputs, outputs=task.outputs, batch=BATCH, mode="train").flops
    steps = int(gflops * GIGA / cost)
    training = bench.training.model_copy(
        update={
            "budget": Budget(steps=steps),
            "optimizer": bench.training.optimizer.model_copy(update={"floor": 1.0}),
        }
    )
    points = []
    for share in LOOKS:
        bench.train(network, training=training, watched=False, until_share=share if share < 1 else None)
        seen = bench.measure(network, "architecture", samples=JUDGED, task=task)
        points.append((round(gflops * share, 2), int(steps * share), round(seen.loss, 3), round(1 - seen.error, 3)))
    return {"modules": ids, "seed": seed, "points": points}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--budget", type=float, default=70.0, help="GFLOPs of each training")
    parser.add_argument("--curves", type=float, help="GFLOPs of each network alone, instead of whole trainings")
    parser.add_argument("--share", type=float, default=0.15, help="of the budget, for a race")
    parser.add_argument("--least", type=int, default=30, help="steps of a rung")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--arms", help="with commas: names of arms, or ids of modules joined by +, or all")
    given = parser.parse_args()
    torch.set_num_threads(1)
    made = experiment(given.data, given.budget)
    zoo = trial(made, 0, {}).network.structure
    usual = [*(module.id for module in zoo.modules), "all"] if given.curves else list(ARMS)
    race = {"share": given.share, "least": given.least}
    for seed in given.seeds:
        for name in given.arms.split(",") if given.arms else usual:
            told = curve(made, name, seed, given.curves) if given.curves else whole(made, name, seed, race)
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
