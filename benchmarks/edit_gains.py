"""Can the gain of an edit be foreseen from the state before it, for runs that were not seen?

Run: python benchmarks/edit_gains.py MEMORY [DATA --runs 40 --budget 20]

Makes many short trainings of small zoos (width 16, batches of 16) that begin with one to three of the six modules and
make one random edit at each event, forks at every event, and writes what the forks measured to the memory of edits
MEMORY (``growth.strategists.edit_memory``); runs that it has already are not made again. DATA is a folder that
``module_zoo.growth_proof`` knows; without it the memory is only judged. Then prints the gains by operation, the noise
of a training, and for some models the rank correlation (Spearman) of foreseen and measured gains, with whole runs held
out: the mean of each operation, the Bayesian linear regression of the strategist ``thompson``, and gradient boosting
of scikit-learn on the same features. One thread.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trials import Trial
from evodevo.growth.run import join
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.randomness import generator
from evodevo.runs.resolve import resolve
from evodevo.settings import merge
from evodevo.storage.blobs import FolderPool

GIGA = 1e9
BATCH = WIDTH = 16
RATE = 3e-3
MOST_AT_START = 3
ALLOW = ["prune", "grow", "spawn", "hybridise", "widen", "deepen", "replace"]
GROWTH: dict[str, Any] = {
    "strategist": "random",
    "allow": ALLOW,
    "events": {"count": 5, "first": 0.05, "last": 0.7, "actions": 1, "warm": 0.03, "horizon": 0.05},
    "prune": {"least": 1, "age": 0, "rule": "quantile", "quantile": 0.5},
    "forks": {"share": 0.7, "samples": 500, "least": 60, "orders": 1},
}
"""Who may be pruned does not depend on what it is worth to the answer, so that prunings of all kinds are seen."""


def experiment(data: str, gflops: float) -> ExperimentSettings:
    """The recipe's settings with this budget."""
    training = {"budget": {"flops": gflops * GIGA}, "batch_size": BATCH}
    overrides = {"data": data, "evaluation": {"training": training}, "zoo": {"width": WIDTH}}
    made = resolve("module_zoo.growth_proof", size="full", driver="grow", baselines="none", overrides=overrides)
    assert isinstance(made, ExperimentSettings)
    return made


def trial(made: ExperimentSettings, seed: int) -> Trial:
    """A training that begins with one to three of the six modules, drawn by its seed."""
    network = next(arm.network for arm in made.experiment.arms if arm.name == "fixed")
    assert isinstance(network, ModuleZooNetwork)
    rng, modules = generator(seed, "start"), network.structure.modules
    chosen = sorted(rng.choice(len(modules), size=int(rng.integers(1, MOST_AT_START + 1)), replace=False))
    structure = network.structure.model_copy(update={"modules": tuple(modules[place] for place in chosen)})
    return Trial(
        name="zoo",
        role="zoo",
        network=ModuleZooNetwork(structure=structure),
        learning_rate=RATE,
        procedure="grow",
        options=merge(made.evaluation.options["grow"], GROWTH),
        seed=seed,
    )


def measured(made: ExperimentSettings, seed: int, folder: Path) -> tuple[EditMemory, dict[str, Any]]:
    """The edits of one training, and what it was."""
    arm, began = trial(made, seed), time.process_time()
    problem = NetworkProblem(lambda one: one, made.evaluation, folder, arms=(arm,))
    outcome = problem.read(evaluate_network(problem.payload(arm, seed, None), lambda message: None))
    assert outcome.reason is None, outcome.detail
    memory = EditMemory.loads(FolderPool(folder).get(outcome.blobs["edit_memory"]).decode())
    return memory, {
        "seed": seed,
        "start": [one["id"] for one in outcome.extra["growth"]["start"]],
        "forks": outcome.extra["growth"].get("forks"),
        "gains": sum(edit.gain is not None for edit in memory.edits),
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def collect(given: argparse.Namespace) -> None:
    """Make the runs that the memory does not have yet."""
    made = experiment(given.data, given.budget)
    how = {"data": Path(given.data).resolve().name, "budget": given.budget}
    told = given.memory.with_suffix(".runs")
    known = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
    done = {row["seed"] for row in known if row["of"] == how}
    for seed in range(given.first, given.first + given.runs):
        if seed in done:
            continue
        with tempfile.TemporaryDirectory() as folder:
            memory, facts = measured(made, seed, Path(folder))
        before = read(given.memory) if given.memory.exists() else EditMemory()
        draft = given.memory.with_suffix(".draft")
        draft.write_text(join([before, memory]).dumps())
        draft.replace(given.memory)
        with told.open("a") as file:
            file.write(json.dumps({"of": how, **facts}) + "\n")
        print(
            json.dumps({**how, **{name: facts[name] for name in ("seed", "start", "gains", "cpu_seconds")}}), flush=True
        )


def read(path: Path) -> EditMemory:
    """The memory in a file."""
    return EditMemory.loads(path.read_text(), what=str(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("memory", type=Path, help="file of the memory of edits, that is gone on with")
    parser.add_argument("data", nargs="?", help="folder of data; without it nothing is trained")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--first", type=int, default=1, help="seed of the first run")
    parser.add_argument("--budget", type=float, default=40.0, help="GFLOPs of each training")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.data:
        collect(given)


if __name__ == "__main__":
    main()
