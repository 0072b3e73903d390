"""What a race of modules gives away: the networks it may choose from, each trained whole, and rules over their curves.

Run: python benchmarks/race_regret.py DATA --results FILE [--budget 70] [--recipe] [--zoo JSON] [--seeds 1 2]
     [--share 0.3] [--fresh 3 4 5] [--arms "raced;race, then grow"] [--race JSON] [--only-print]

Every candidate of a race over a zoo of six (each module alone, none, each pair, all) is trained for the whole budget,
and once more at a constant learning rate, as a race does, for ``--share`` of it, judged at many points. FILE keeps
both, a line each, and is gone on with. Then rules are replayed on the curves of each seed: which network a race of such
a share would choose, and by how many points of test accuracy another one of them is better in the end (regret).
``--share 0`` leaves the curves out. With ``--fresh`` the network that is best on validation, in the mean over the
seeds, and ``--arms`` of ``starting_race.py``, whose race ``--race`` gives, are trained with these seeds, too, which
nothing has chosen by: the differences on test are the regret. Settings are those of ``starting_race.py``. One thread.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.racing.plan import (
    Heat,
    expected_loss,
    left_after,
    plan_first,
    plan_second,
    ranked,
    survivors,
)
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trainer import Trainer
from evodevo.module_zoo.cost import zoo_cost
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.procedures.race import FINALISTS, IDENTITY
from evodevo.tasks.held.back import with_architecture_split
from evodevo.training.precision import decide
from evodevo.training.settings import Budget
from measuring import mean_in_words, print_table
from starting_race import GIGA, JUDGED, experiment, of_modules, trial, whole

POINTS = 24
FIRST = 0.01
SHARES = (0.1, 0.15, 0.2, 0.3)
LEAST = 30
Row = Mapping[str, Any]


def curve(made: ExperimentSettings, ids: str, seed: int, gflops: float) -> list[tuple[float, int, float, float]]:
    """Of a network at a constant rate: GFLOPs, steps, loss and accuracy on the architecture split."""
    arm = trial(made, seed, {})
    task = with_architecture_split(NetworkProblem(lambda one: one, made.evaluation, None).open_task({}))
    bench = Trainer(arm, made.evaluation, task, seed, decide("cpu"), None, lambda message: None, None, Path())
    structure = of_modules(arm.network.structure, ids)
    network = bench.build(ModuleZooNetwork(structure=structure))
    batch = bench.training.batch_size
    cost = zoo_cost(structure, inputs=task.inputs, outputs=task.outputs, batch=batch, mode="train").flops
    steps = int(gflops * GIGA / cost)
    optimizer = bench.training.optimizer.model_copy(update={"floor": 1.0})
    training = bench.training.model_copy(update={"budget": Budget(steps=steps), "optimizer": optimizer})
    points = []
    for number in range(POINTS):
        share = FIRST ** (1 - (number + 1) / POINTS)
        bench.train(network, training=training, watched=False, until_share=share if share < 1 else None)
        seen = bench.measure(network, "architecture", samples=JUDGED, task=task)
        points.append((round(gflops * share, 3), int(steps * share), round(seen.loss, 4), round(1 - seen.error, 4)))
    return points


def candidates(ids: list[str]) -> list[str]:
    return [*ids, IDENTITY, *("+".join(pair) for pair in itertools.combinations(ids, 2)), "all"]


class Replay:
    """A race over the recorded curves of one seed; see ``ModuleRace`` for the one that trains.

    Args:
        rows: Name of a network -> its row.
        budget: GFLOPs of a whole training.
        judge: ``loss`` or ``trend``.
        batch: Samples of a step.
    """

    def __init__(self, rows: Mapping[str, Row], budget: float, judge: str, batch: int) -> None:
        self.rows, self.budget, self.judge = rows, budget, judge
        self.judging = JUDGED / (3 * batch)  # in steps; a forward pass is a third of one
        self.looks = 2 if judge == "trend" else 1
        self.cost = {name: row["GFLOPs"] / row["steps"] for name, row in rows.items()}

    def chosen(self, share: float, singles: float, *, identity: bool) -> str:
        """Name of the winner; ``all`` where there is no room."""
        names = [name for name in self.rows if "+" not in name and name != "all" and (identity or name != IDENTITY)]
        race = share * self.budget
        judging = self.looks * self.judging
        first = plan_first([self.cost[name] for name in names], race * singles, LEAST, judging)
        if first is None:
            return "all"
        best = self._heat(names, first)
        scores = dict(best)
        modules = [name for name, _ in best if name != IDENTITY]
        others = [name for name in names if name != IDENTITY and name not in modules]
        wanted = dict.fromkeys(
            frozenset((one, other)) for other in (*modules, *others) for one in modules[:FINALISTS] if one != other
        )
        pairs = [name for pair in wanted for name in self.rows if set(name.split("+")) == pair]
        second = plan_second([self.cost[name] for name in pairs], race * (1 - singles), first, LEAST, judging)
        if second is not None:
            scores |= dict(self._heat(pairs, second))
        return min(scores, key=scores.__getitem__)

    def _heat(self, names: Sequence[str], heat: Heat) -> list[tuple[str, tuple[float, float]]]:
        names = [names[place] for place in heat.arms]
        length = dict.fromkeys(names, 0.0)
        scores: list[tuple[float, float]] = []
        for number in range(heat.rungs):
            for name in names:
                looks = self.looks if number == 0 else 1
                length[name] += heat.amount - looks * self.judging * self.cost[name]
            scores = [self._score(name, length[name]) for name in names]
            if number < heat.rungs - 1:
                names = [names[place] for place in survivors(scores, left_after(len(names)))]
        return [(names[place], scores[place]) for place in ranked(scores)]

    def _score(self, name: str, length: float) -> tuple[float, float]:
        points = self.rows[name]["curve"]
        known = np.log([point[0] for point in points]), [point[2] for point in points]
        early, late = (float(np.interp(math.log(at), *known)) for at in (length / 2, length))
        looks = [(length / 2, early), (length, late)] if self.judge == "trend" else [(length, late)]
        return expected_loss(looks, self.budget), late


def table(rows: Sequence[Row], budget: float, batch: int) -> list[dict[str, Any]]:
    """One row for each rule: the mean regret over seeds, in points, and the winners."""
    seeds: dict[int, dict[str, Row]] = {}
    for row in rows:
        seeds.setdefault(row["seed"], {})[row["modules"]] = row
    told = []
    for singles, identity, judge in itertools.product((0.5, 1.0), (False, True), ("loss", "trend")):
        entry: dict[str, Any] = {"singles": singles, "identity": identity, "judge": judge}
        for share in SHARES:
            lost, won = [], []
            for known in seeds.values():
                name = Replay(known, budget, judge, batch).chosen(share, singles, identity=identity)
                lost.append(max(row["accuracy"] for row in known.values()) - known[name]["accuracy"])
                won.append(name.replace("-1", ""))
            entry[f"share {share:g}"] = f"{statistics.fmean(lost):.1f} ({', '.join(won)})"
        told.append(entry)
    return told


def best_on_validation(rows: Sequence[Row]) -> str:
    """The network with the best mean accuracy on validation."""
    scores: dict[str, list[float]] = {}
    for row in rows:
        scores.setdefault(row["modules"], []).append(row["validation"])
    return max(scores, key=lambda name: statistics.fmean(scores[name]))


def regret(rows: Sequence[Row], best: str) -> list[dict[str, Any]]:
    """One row for each arm: its accuracy on test, and that of the best network minus it, paired over seeds."""
    accuracy: dict[str, dict[int, float]] = {}
    for row in rows:
        accuracy.setdefault(row["arm"], {})[row["seed"]] = row["accuracy"]
    told = []
    for name, own in accuracy.items():
        gaps = [accuracy[best][seed] - own[seed] for seed in own if seed in accuracy[best]]
        scores = f"{statistics.fmean(own.values()):.1f}"
        told.append({"arm": name, "seeds": len(own), "accuracy": scores, "regret": mean_in_words(gaps)})
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--results", type=Path, required=True, help="file of results, one a line, that is gone on with")
    parser.add_argument("--budget", type=float, default=70.0, help="GFLOPs of a whole training")
    parser.add_argument("--share", type=float, default=0.3, help="of the budget, for a curve")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--recipe", action="store_true", help="width and batch of the recipe, as in starting_race.py")
    parser.add_argument("--zoo", type=json.loads, default={}, help="settings of the zoo in all networks, as JSON")
    parser.add_argument("--fresh", type=int, nargs="*", default=[], help="seeds of the best network and of the arms")
    parser.add_argument("--arms", default="raced", help="of starting_race.py, with semicolons")
    parser.add_argument("--race", type=json.loads, default={}, help="options of the race of arms that are raced")
    parser.add_argument("--only-print", action="store_true", help="train nothing")
    given = parser.parse_args()
    torch.set_num_threads(1)
    made = experiment(given.data, given.budget, recipe=given.recipe, zoo=given.zoo)
    ids = [module.id for module in trial(made, 0, {}).network.structure.modules]
    how = {"data": Path(given.data).resolve().name, "budget": given.budget, "share": given.share}
    how |= ({"recipe": True} if given.recipe else {}) | ({"zoo": given.zoo} if given.zoo else {})
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    known = [row for row in map(json.loads, lines) if row["of"] == how]
    rows = [row for row in known if row["seed"] in given.seeds and "arm" not in row]
    for seed, name in () if given.only_print else itertools.product(given.seeds, candidates(ids)):
        if any((row["seed"], row["modules"]) == (seed, name) for row in rows):
            continue
        points = curve(made, name, seed, given.share * given.budget) if given.share else []
        end = whole(made, name, seed, {}, None)
        row = {"of": how, "seed": seed, "modules": name, "curve": points}
        row |= {key: end[key] for key in ("accuracy", "validation", "steps", "GFLOPs", "cpu_seconds")}
        rows.append(row)
        with given.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps({key: row[key] for key in ("seed", "modules", "accuracy", "cpu_seconds")}), flush=True)
    accuracies: dict[str, list[float]] = {}
    for row in rows:
        accuracies.setdefault(row["modules"], []).append(row["accuracy"])
    order = sorted(accuracies, key=lambda name: -statistics.fmean(accuracies[name]))
    print_table([{"modules": name, "accuracy": ", ".join(map(str, accuracies[name]))} for name in order])
    if given.share:
        print_table(table(rows, given.budget, made.evaluation.training.batch_size))
    if given.fresh and rows:
        best = best_on_validation(rows)
        names = [best, *given.arms.split(";")]
        race = {"share": 0.15, "least": LEAST, **given.race}
        fresh = [row for row in known if row["seed"] in given.fresh and row.get("arm") in names and row["race"] == race]
        for seed, name in itertools.product(given.fresh, names):
            if given.only_print or any((row["seed"], row["arm"]) == (seed, name) for row in fresh):
                continue
            end = whole(made, name, seed, race, None)
            kept = ("arm", "seed", "accuracy", "validation", "steps", "GFLOPs", "cpu_seconds", "modules")
            fresh.append({"of": how, "race": race} | {key: end[key] for key in kept})
            with given.results.open("a") as file:
                file.write(json.dumps(fresh[-1]) + "\n")
            print(json.dumps(fresh[-1]), flush=True)
        if fresh:
            print_table(regret(fresh, best))


if __name__ == "__main__":
    main()
