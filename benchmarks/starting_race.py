"""Does a race tell which modules a zoo should begin with, and does growth pay after it?

Run: python benchmarks/starting_race.py DATA [--curves 3 | --budget 70] [--seeds 1] [--arms "fixed;raced;..."]

DATA is a folder that ``module_zoo.growth_proof`` knows, or ``generated``; its settings hold but for batch and width, 16
each, so that a small budget has many steps (with ``--recipe`` these hold, too). ``--budget`` trains whole arms for so
many GFLOPs, everything counted: the six modules ``fixed``, begun by a race (``raced``), grown after it by the heuristic
(``raced and grown``), by random edits (``raced and random``), by what other runs gained by edits (``raced and
thompson``), and by edits of one of these that a fork has to confirm (``..., forked``), edited around its modules alone,
forked as well (``raced, edited around, forked``), begun and edited as ``module_zoo.race_then_grow`` is (``race, then
grow``, whose race is its own), grown without a race (``grown``); the id of a module, or several joined by +, is a fixed
network of these alone, and ``identity`` one without a module. ``thompson`` begins with the gains of ``--memory``, which
``edit_gains.py`` makes. ``--curves`` trains networks alone for as many GFLOPs each, as a race would, and judges them on
the way: who leads when. A line of JSON for each result; of whole trainings also a table, with differences paired over
seeds and their 95 % interval (t distribution). With ``--results`` the lines are appended to a file, and what it has
already is not made again. One thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trainer import Trainer
from evodevo.experiments.trials import Trial
from evodevo.growth.recipes.growing import EDITED_AROUND, NOTHING_HAPPENS, RACE_THEN_GROW
from evodevo.module_zoo.cost import zoo_cost
from evodevo.module_zoo.modules.zoo import identity
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.procedures.room import IDENTITY
from evodevo.module_zoo.spec import ZooStructure
from evodevo.runs.resolve import resolve
from evodevo.settings import merge
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.held.back import with_architecture_split
from evodevo.training.precision import decide
from evodevo.training.settings import Budget
from measuring import mean_in_words, print_table

GIGA = 1e9
BATCH = WIDTH = 16
"""Few, so that a small budget has many steps."""
RATE = 3e-3
FORK_SHARE = 0.15
FORKS = {"share": FORK_SHARE, "paired": True, "average": 0.5}
"""What new runs have. (Tables before 2026-11-28 are of forks that judge the last weights, and are not paired.)"""
ARMS: dict[str, dict[str, Any]] = {
    "fixed": dict(NOTHING_HAPPENS),
    "raced": {"strategist": "heuristic", "events": {"count": 0}},  # the strategist of ``fixed`` never races
    "raced and grown": {"strategist": "heuristic"},
    "raced and grown, forked": {"strategist": "heuristic", "forks": FORKS},
    "raced, edited around, forked": dict(EDITED_AROUND),
    "race, then grow": dict(RACE_THEN_GROW),
    "raced and random": {"strategist": "random"},
    "raced and random, forked": {"strategist": "random", "forks": FORKS},
    "raced and thompson": {"strategist": "thompson", "events": {"actions": 1}},
    "raced and thompson, forked": {
        "strategist": "thompson",
        "forks": FORKS,
        "events": {"actions": 1},
    },
    "grown": {"strategist": "heuristic"},
}
LOOKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
JUDGED = 512
GENERATED = "generated"
"""In place of a folder: the questions about digits that the recipe generates."""


def experiment(
    data: str, gflops: float, *, recipe: bool = False, zoo: dict[str, Any] | None = None
) -> ExperimentSettings:
    """The recipe's settings with this budget, and with changes of the zoo; its width and batch, too, or those here."""
    training = {"budget": {"flops": gflops * GIGA}} | ({} if recipe else {"batch_size": BATCH})
    changes = ({} if recipe else {"width": WIDTH}) | (zoo or {})
    overrides = {"evaluation": {"training": training}} | ({"zoo": changes} if changes else {})
    overrides |= {} if data == GENERATED else {"data": data}
    made = resolve("module_zoo.growth_proof", size="full", driver="grow", baselines="none", overrides=overrides)
    assert isinstance(made, ExperimentSettings)
    return made


def trial(made: ExperimentSettings, seed: int, options: dict[str, Any], ids: str = "all") -> Trial:
    """A training of the zoo of six, or of some of its modules."""
    network = next(arm.network for arm in made.experiment.arms if arm.name == "fixed")
    assert isinstance(network, ModuleZooNetwork)
    network = ModuleZooNetwork(structure=of_modules(network.structure, ids))
    return Trial(
        name="zoo", role="zoo", network=network, learning_rate=RATE, procedure="grow", options=options, seed=seed
    )


def of_modules(structure: ZooStructure, ids: str) -> ZooStructure:
    """The structure with these modules alone: ids joined by +, all, or identity for none."""
    if ids == IDENTITY:
        return structure.model_copy(update={"modules": (identity(structure.width, IDENTITY),)})
    chosen = tuple(module for module in structure.modules if ids == "all" or module.id in ids.split("+"))
    return structure.model_copy(update={"modules": chosen})


def whole(made: ExperimentSettings, name: str, seed: int, race: dict[str, Any], memory: Path | None) -> dict[str, Any]:
    """One training to the end of its budget; ``memory`` is for strategists that learn from gains."""
    options = ARMS.get(name, dict(NOTHING_HAPPENS))
    options = merge(options, {"race": race}) if name.startswith("raced") else options
    with tempfile.TemporaryDirectory() as folder:
        if memory is not None and options.get("strategist") == "thompson":
            options = merge(options, {"edit_memory": FolderPool(Path(folder)).put_bytes(memory.read_bytes())})
        arm, began = trial(made, seed, options, "all" if name in ARMS else name), time.process_time()
        problem = NetworkProblem(lambda one: one, made.evaluation, Path(folder), arms=(arm,))
        outcome = problem.read(evaluate_network(problem.payload(arm, seed, None), lambda message: None))
    assert outcome.reason is None, outcome.detail
    facts = outcome.extra
    growth = facts["growth"]
    return {
        "arm": name,
        "seed": seed,
        "accuracy": round(100 * facts["test"]["accuracy"], 2),
        "validation": round(100 * facts["validation"]["accuracy"], 2),
        "steps": facts["steps"],
        "GFLOPs": round(facts["training_flops"] / GIGA, 2),
        "cpu_seconds": round(time.process_time() - began, 1),
        "modules": growth["modules"],
        "race": growth["race"],
        "overhead": growth["overhead"]["seconds_share"],
        "forks": growth.get("forks"),
        "foresight": growth.get("foresight"),
    }


def curve(made: ExperimentSettings, ids: str, seed: int, gflops: float) -> dict[str, Any]:
    """Loss and accuracy of a network of these modules on the architecture split: (GFLOPs, steps, loss, accuracy)."""
    arm = trial(made, seed, {})
    task = with_architecture_split(NetworkProblem(lambda one: one, made.evaluation, None).open_task({}))
    bench = Trainer(arm, made.evaluation, task, seed, decide("cpu"), None, lambda message: None, None, Path())
    structure = of_modules(arm.network.structure, ids)
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


def against(rows: list[dict[str, Any]], arm: str, reference: str) -> str:
    """The mean difference in points of accuracy over the seeds that both have, with its interval."""
    seeds = {row["seed"]: row["accuracy"] for row in rows if row["arm"] == reference}
    gaps = [row["accuracy"] - seeds[row["seed"]] for row in rows if row["arm"] == arm and row["seed"] in seeds]
    return "" if arm == reference else mean_in_words(gaps)


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each arm."""
    told = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        own = [row for row in rows if row["arm"] == arm]
        accuracy = [row["accuracy"] for row in own]
        told.append(
            {
                "arm": arm,
                "seeds": len(own),
                "accuracy": f"{statistics.fmean(accuracy):.1f}",
                "least": f"{min(accuracy):.1f}",
                "minus fixed": against(rows, arm, "fixed"),
                "minus raced": against(rows, arm, "raced"),
                "steps": round(statistics.fmean(row["steps"] for row in own)),
                "CPU seconds": round(statistics.fmean(row["cpu_seconds"] for row in own)),
            }
        )
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--budget", type=float, default=70.0, help="GFLOPs of each training")
    parser.add_argument("--curves", type=float, help="GFLOPs of each network alone, instead of whole trainings")
    parser.add_argument("--share", type=float, default=0.15, help="of the budget, for a race")
    parser.add_argument("--least", type=int, default=30, help="steps of a rung")
    parser.add_argument("--race", type=json.loads, default={}, help="other options of the race, as JSON")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--arms", help="with semicolons: names of arms, or ids of modules joined by +, or all")
    parser.add_argument("--results", type=Path, help="file of results, one a line, that is gone on with")
    parser.add_argument("--recipe", action="store_true", help="width and batch of the recipe, 32 and 64")
    parser.add_argument("--zoo", type=json.loads, default={}, help="settings of the zoo in all arms, as JSON")
    parser.add_argument("--memory", type=Path, help="memory of edits that thompson begins with (edit_gains.py)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.curves and given.recipe:
        parser.error("--curves has a width and a batch of its own")
    made = experiment(given.data, given.budget, recipe=given.recipe, zoo=given.zoo)
    zoo = trial(made, 0, {}).network.structure
    usual = [*(module.id for module in zoo.modules), "all"] if given.curves else list(ARMS)
    race = {"share": given.share, "least": given.least, **given.race}
    wanted = [(seed, name) for seed in given.seeds for name in (given.arms.split(";") if given.arms else usual)]
    how = {"data": Path(given.data).resolve().name, "budget": given.budget, **race}
    how |= ({"recipe": True} if given.recipe else {}) | ({"zoo": given.zoo} if given.zoo else {})
    lines = given.results.read_text().splitlines() if given.results and given.results.exists() else []
    known = [json.loads(line) for line in lines]
    rows = [row for row in known if row["of"] == how and (row["seed"], row["arm"]) in wanted]
    for seed, name in wanted:
        if given.curves:
            print(json.dumps(curve(made, name, seed, given.curves)), flush=True)
        elif not any((row["seed"], row["arm"]) == (seed, name) for row in rows):
            rows.append({"of": how, **whole(made, name, seed, race, given.memory)})
            print(json.dumps(rows[-1]), flush=True)
            if given.results:
                with given.results.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    if not given.curves:
        print_table(table(rows))


if __name__ == "__main__":
    main()
