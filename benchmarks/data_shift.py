"""Networks that may change where the training data shift, against every network that stays as it is.

Run: python benchmarks/data_shift.py DATA --results FILE [--budget 40] [--kind classes] [--seeds 1 2 3] [--arms "..."]
     [--zoo JSON]

The arms of ``module_zoo.shift`` on DATA, a folder that the recipe knows or ``generated``, for ``--budget`` GFLOPs each,
with width and batch of ``starting_race``. ``--at``, ``--race`` (share of the race at the shift), ``--least`` (steps in
a rung of it), ``--judge`` and ``--start`` (share of the race at the start) change the recipe, ``--zoo`` the zoo of all
arms. ``race, then grow at the shift`` begins as ``module_zoo.race_then_grow`` does, and is offered maps of positions
soon after the shift, where a fork confirms them; its network does not race there. A line of JSON for each
training is appended to ``--results``, which is gone on with: accuracy on test, of new classes also on both halves of
them, and who went on. Then a table, with the differences of the first arm to each arm, paired over seeds, and their
95 % interval (t distribution). One thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evodevo.experiments.correct_bits import unpack
from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.measure import places
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trials import Trial
from evodevo.growth.recipes.growing import RACE_THEN_GROW
from evodevo.growth.recipes.shift import AGAIN, RACED
from evodevo.runs.resolve import resolve
from evodevo.settings import merge
from evodevo.tasks.base import SampleTask
from evodevo.tasks.before_shift import first_classes, targets_of
from measuring import print_table
from starting_race import BATCH, GENERATED, GIGA, WIDTH, against

GROWN = "race, then grow at the shift"
SOON = 0.1
"""Share of the budget between the shift and the event of ``GROWN``."""


def made(given: argparse.Namespace) -> ExperimentSettings:
    """The recipe's settings with these changes."""
    race = {
        name: value
        for name, value in (("share", given.race), ("least", given.least), ("judge", given.judge))
        if value is not None
    }
    shift = {name: value for name, value in (("kind", given.kind), ("at", given.at)) if value is not None}
    growth: dict[str, Any] = {"shift": {**shift, "race": race}}
    growth |= {} if given.start is None else {"race": {"share": given.start}}
    training = {"budget": {"flops": given.budget * GIGA}, "batch_size": BATCH}
    zoo = {"width": WIDTH, **given.zoo}
    overrides: dict[str, Any] = {"evaluation": {"training": training}, "zoo": zoo, "grow": growth}
    overrides |= {} if given.data == GENERATED else {"data": given.data}
    settings = resolve("module_zoo.shift", size="full", driver="grow", overrides=overrides)
    assert isinstance(settings, ExperimentSettings)
    return settings


def grown_at_shift(settings: ExperimentSettings, raced: Trial) -> Trial:
    """The arm that races at the start alone, with an event soon after the shift."""
    at = settings.evaluation.options["grow"]["shift"]["at"] + SOON
    events = {**RACE_THEN_GROW["events"], "first": at, "last": at}
    options = merge(raced.options, {**RACE_THEN_GROW, "events": events})
    return raced.model_copy(update={"name": GROWN, "options": options})


def halves(task: SampleTask, right: Any) -> dict[str, float]:
    """Accuracy on the classes of before, and on those that appeared."""
    targets = targets_of(task, "test")[places(task, "test", None)]
    old = targets < len(first_classes(task))
    return {name: round(100 * float(np.mean(right[there])), 2) for name, there in (("old", old), ("new", ~old))}


def trained(settings: ExperimentSettings, task: SampleTask, trial: Trial, kind: str) -> dict[str, Any]:
    """One training to the end of its budget."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        problem = NetworkProblem(lambda one: one, settings.evaluation, Path(folder), arms=(trial,))
        outcome = problem.read(evaluate_network(problem.payload(trial, trial.seed, None), lambda message: None))
    assert outcome.reason is None, outcome.detail
    facts = outcome.extra
    growth = facts["growth"]
    shift = growth["shift"]
    expected = {one["name"]: one["expected"] for one in shift["networks"] if "expected" in one}
    raced = {one["name"]: one["losses"] for one in shift["networks"]}
    return {
        "validation": round(100 * facts["validation"]["accuracy"], 2),
        "accuracy": round(100 * facts["test"]["accuracy"], 2),
        **(halves(task, unpack(facts["test"]["right"])) if kind == "classes" else {}),
        "steps": facts["steps"],
        "gflops": round(facts["training_flops"] / GIGA, 2),
        "start": [module["id"] for module in growth["start"]],
        "chosen": shift["chosen"],
        "raced": raced,
        "expected": expected,
        "instead": shift["instead"],
        "forks": [fork["kept"] for fork in (growth.get("forks") or {}).get("tried", [])],
        "used": round((shift["spent"] + shift["winner_flops"]) / facts["training_flops"], 3),
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def table(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """One row for each arm, best on test first."""
    told = []
    for name in names:
        own = [row for row in rows if row["arm"] == name]
        scores = [row["accuracy"] for row in own]
        if own:
            apart = {
                half: round(statistics.fmean(row[half] for row in own), 1) for half in ("old", "new") if half in own[0]
            }
            told.append(
                {
                    "arm": name,
                    "seeds": len(own),
                    "accuracy": round(statistics.fmean(scores), 1),
                    "deviation": round(statistics.stdev(scores), 1) if len(scores) > 1 else "",
                    f"{names[0]} minus it": "" if name == names[0] else against(rows, names[0], name),
                    **apart,
                    "steps": round(statistics.fmean(row["steps"] for row in own)),
                    "CPU seconds": round(statistics.fmean(row["cpu_seconds"] for row in own)),
                }
            )
    return sorted(told, key=lambda row: -row["accuracy"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--results", type=Path, required=True, help="file of results, one a line, that is gone on with")
    parser.add_argument("--budget", type=float, default=40.0, help="GFLOPs of each training")
    parser.add_argument("--kind", choices=["classes", "modality"])
    parser.add_argument("--at", type=float)
    parser.add_argument("--race", type=float)
    parser.add_argument("--least", type=int)
    parser.add_argument("--judge", choices=["loss", "trend"])
    parser.add_argument("--start", type=float)
    parser.add_argument("--zoo", type=json.loads, default={}, help="settings of the zoo in all arms, as JSON")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--arms", help="names with semicolons; all if left out")
    given = parser.parse_args()
    torch.set_num_threads(1)
    settings = made(given)
    kind = str(settings.evaluation.options["grow"]["shift"]["kind"])
    arms = {trial.name: trial for trial in settings.experiment.trainings()}
    arms[GROWN] = grown_at_shift(settings, arms[RACED])
    names = given.arms.split(";") if given.arms else list(arms)
    if unknown := sorted(set(names) - set(arms)):
        parser.error(f"there is no arm {unknown[0]}; there are {'; '.join(arms)}")
    task = NetworkProblem(lambda one: one, settings.evaluation, None).open_task({})
    changed = {name: getattr(given, name) for name in ("budget", "at", "race", "least", "judge", "start")}
    of = {"data": Path(given.data).resolve().name, "kind": kind, **changed}
    of |= {"zoo": given.zoo} if given.zoo else {}
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    rows = [row for row in map(json.loads, lines) if row["of"] == of]
    for seed in given.seeds:
        for name in names:
            if any((row["arm"], row["seed"]) == (name, seed) for row in rows):
                continue
            trial = arms[name].model_copy(update={"seed": seed})
            row = {"of": of, "arm": name, "seed": seed, **trained(settings, task, trial, kind)}
            rows.append(row)
            print(json.dumps(row), flush=True)
            with given.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
    rows = [row for row in rows if row["seed"] in given.seeds and row["arm"] in names]
    print_table(table(rows, [name for name in names if name == AGAIN] + [name for name in names if name != AGAIN]))


if __name__ == "__main__":
    main()
