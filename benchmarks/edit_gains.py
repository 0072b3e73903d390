"""Can the gain of an edit be foreseen from the state before it, for runs that were not seen?

Run: python benchmarks/edit_gains.py MEMORY [DATA --runs 40 --budget 40] [--chosen-on 24] [--other MEMORY] [--zoo JSON]

Makes many short trainings of small zoos (width 16, batches of 16) that begin with one to three of the six modules and
make one random edit at each event, forks at every event, and writes what the forks measured to the memory of edits
MEMORY (``growth.strategists.edit_memory``); runs that it has already are not made again. DATA is a folder that
``module_zoo.growth_proof`` knows; without it the memory is only judged; ``--zoo`` changes all zoos, and ``--follow``
trains both sides of a fork on after it. Then prints the gains by operation, the noise
of a training, and for some models the rank correlation (Spearman) of foreseen and measured gains, whole runs held out:
the mean of each operation, the Bayesian linear regression of the strategist ``thompson``, the same without anything of
the edit, and gradient boosting of scikit-learn; for the runs after the first ``--chosen-on`` on their own. One thread.
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
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.ensemble import GradientBoostingRegressor

from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trials import Trial
from evodevo.growth.run import join
from evodevo.growth.spec import REPLACE
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.gains.features import IN_PLACE, KINDS, NAMES
from evodevo.growth.strategists.gains.held_out import GainRows, Model, Numbers, foreseen, held_out, linear, rows_of
from evodevo.growth.strategists.spec import MemorySettings
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.randomness import generator
from evodevo.settings import merge
from evodevo.storage.blobs import FolderPool
from measuring import print_table
from starting_race import RATE, experiment

Flags = NDArray[np.bool_]
MOST_AT_START = 3
DRAWS = 2000
OF_STATE = ("constant", "modules", "budget", "value", "slope", "diversity", "FLOPs of modules")
STATE = [NAMES.index(name) for name in OF_STATE]
ALLOW = ["prune", "grow", "spawn", "hybridise", "widen", "deepen", "replace"]
GROWTH: dict[str, Any] = {
    "strategist": "random",
    "allow": ALLOW,
    "events": {"count": 5, "first": 0.05, "last": 0.7, "actions": 1, "warm": 0.03, "horizon": 0.05},
    "prune": {"least": 1, "age": 0, "rule": "quantile", "quantile": 0.5},
    "forks": {"share": 0.7, "samples": 500, "least": 60, "orders": 1},
}
"""Who may be pruned does not depend on what it is worth to the answer, so that prunings of all kinds are seen."""


def trial(made: ExperimentSettings, seed: int, more: dict[str, Any]) -> Trial:
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
        options=merge(made.evaluation.options["grow"], merge(GROWTH, more)),
        seed=seed,
    )


def measured(
    made: ExperimentSettings, seed: int, folder: Path, more: dict[str, Any]
) -> tuple[EditMemory, dict[str, Any]]:
    """The edits of one training, and what it was."""
    arm, began = trial(made, seed, more), time.process_time()
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
    made = experiment(given.data, given.budget, zoo=given.zoo)
    how = {"data": Path(given.data).resolve().name, "budget": given.budget}
    more = {"forks": {"follow": given.follow}, "events": {"count": given.events}}
    how |= {"follow": given.follow, "events": given.events} if given.follow else {}
    how |= {"zoo": given.zoo} if given.zoo else {}
    told = given.memory.with_suffix(".runs")
    known = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
    done = {row["seed"] for row in known if row["of"] == how}
    for seed in range(given.first, given.first + given.runs):
        if seed in done:
            continue
        with tempfile.TemporaryDirectory() as folder:
            memory, facts = measured(made, seed, Path(folder), more)
        before = read(given.memory) if given.memory.exists() else EditMemory()
        draft = given.memory.with_suffix(".draft")
        draft.write_text(join([before, memory]).dumps())
        draft.replace(given.memory)
        with told.open("a") as file:
            file.write(json.dumps({"of": how, **facts}) + "\n")
        del facts["forks"]
        print(json.dumps({**how, **facts}), flush=True)


def read(path: Path) -> EditMemory:
    """The memory in a file."""
    return EditMemory.loads(path.read_text(), what=str(path))


def by_operation(features: Numbers, gains: Numbers, others: Numbers) -> Numbers:
    """The mean gain of each operation, shrunk towards that of all as ``MemorySettings.doubt`` shrinks rewards."""
    places = [NAMES.index(name) for name in (*KINDS, IN_PLACE)]
    own, theirs = features[:, places].argmax(1), others[:, places].argmax(1)
    usual, doubt = gains.mean(), MemorySettings().doubt
    sums, counts = (np.bincount(own, weights=each, minlength=len(places)) for each in (gains, np.ones_like(gains)))
    means: Numbers = ((sums + doubt * usual) / (counts + doubt))[theirs]
    return means


def state_alone(features: Numbers, gains: Numbers, others: Numbers) -> Numbers:
    """The regression of ``thompson`` without anything of the edit: what it foresees is of no use for a choice."""
    return linear(features[:, STATE], gains, others[:, STATE])


def boosted(features: Numbers, gains: Numbers, others: Numbers) -> Numbers:
    """Gradient boosting of scikit-learn with its defaults but for small steps and leaves of five."""
    trees = GradientBoostingRegressor(
        n_estimators=200, learning_rate=0.05, max_depth=3, min_samples_leaf=5, subsample=0.7, random_state=0
    )
    return np.asarray(trees.fit(features, gains).predict(others))


MODELS: dict[str, Model] = {
    "mean of the operation": by_operation,
    "linear, state alone": state_alone,
    "linear (thompson)": linear,
    "gradient boosting": boosted,
}


def judge(rows: GainRows, expected: dict[str, Numbers], counted: Flags) -> list[dict[str, Any]]:
    """The rank correlation of each model over some rows, with a 95 % interval: runs are drawn with replacement."""
    runs, found = np.array(rows.runs), []
    members = [np.flatnonzero((runs == run) & counted) for run in dict.fromkeys(runs[counted])]
    drawn = generator(0, "resampled runs").integers(len(members), size=(DRAWS, len(members)))
    others = counted & np.array([edit.action.operation != REPLACE for edit in rows.edits])
    for name, values in expected.items():
        draws = [np.concatenate([members[place] for place in places]) for places in drawn]
        again = [correlation(values[draw], rows.gains[draw]) for draw in draws]
        low, high = np.nanquantile(again, [0.025, 0.975])
        chosen = counted & (values > 0)
        found.append(
            {
                "model": name,
                "rank correlation": f"{correlation(values[counted], rows.gains[counted]):+.2f}",
                "95 % interval": f"{low:+.2f} to {high:+.2f}",
                "without replace": f"{correlation(values[others], rows.gains[others]):+.2f}",
                "foreseen above 0": int(chosen.sum()),
                "mean gain of these": f"{rows.gains[chosen].mean():+.4f}" if chosen.any() else "",
                "above 0": int((rows.gains[chosen] > 0).sum()),
            }
        )
    return found


def correlation(expected: Numbers, gains: Numbers) -> float:
    """Spearman's; not a number where either is constant."""
    if len(gains) < 2 or np.ptp(expected) == 0 or np.ptp(gains) == 0:
        return float("nan")
    return float(spearmanr(expected, gains).statistic)


def operations(rows: GainRows) -> list[dict[str, Any]]:
    """The gains of each operation."""
    names, told = [edit.action.operation for edit in rows.edits], []
    for name in sorted(set(names)):
        own = np.array([one == name for one in names])
        gains = rows.gains[own]
        error = gains.std(ddof=1) / len(gains) ** 0.5 if len(gains) > 1 else float("nan")
        told.append(
            {
                "operation": name,
                "rows": len(gains),
                "mean gain": f"{gains.mean():+.4f}",
                "± 2 errors": f"{2 * error:.4f}",
                "median": f"{np.median(gains):+.4f}",
                "above 0": int((gains > 0).sum()),
                "largest": f"{gains.max():+.3f}",
                "least": f"{gains.min():+.3f}",
            }
        )
    return told


def noise(told: Path) -> str:
    """The noise of a training by the order of its batches, pooled over runs: standard deviation of a difference."""
    forks = [json.loads(line)["forks"] for line in told.read_text().splitlines()]
    first = [next((row for row in fork["tried"] if row["scatter"]), None) for fork in forks if fork]
    scatter = [row["scatter"] for row in first if row is not None]  # one other order each, one degree of freedom
    root = (2 * statistics.fmean(scatter)) ** 0.5
    middle = statistics.median((2 * each) ** 0.5 for each in scatter)
    return f"noise of a difference: {root:.4f} nats (root mean square of {len(scatter)} runs), median {middle:.4f}"


def kept(told: Path) -> list[str]:
    """The edits that forks kept, with the gain on samples that did not choose."""
    runs = [json.loads(line) for line in told.read_text().splitlines()]
    forks = [(run["seed"], fork) for run in runs if run["forks"] for fork in run["forks"]["tried"]]
    found = [(seed, fork) for seed, fork in forks if fork["kept"] and fork["published"]]
    return [
        f"kept by its fork: {', '.join(fork['edits'])} (seed {seed}), published {fork['published']['gain']:+.3f} nats"
        for seed, fork in found
    ]


def later(told: Path) -> list[dict[str, Any]]:
    """Gains of forks beside those after copies of both sides were trained on, on the same samples; a row per operation.

    The interval of the rank correlation is by drawing runs with replacement.
    """
    runs = [json.loads(line) for line in told.read_text().splitlines()]
    rows = [
        (place, fork["edits"][0].split()[0], fork["published"]["gain"], fork["followed"]["gain"], fork["kept"])
        for place, run in enumerate(runs)
        if run["forks"]
        for fork in run["forks"]["tried"]
        if fork.get("followed")
    ]
    if not rows:
        return []
    of, names = np.array([row[0] for row in rows]), [row[1] for row in rows]
    short, long = (np.array([row[column] for row in rows]) for column in (2, 3))
    drawn = generator(0, "resampled runs").choice(np.unique(of), size=(DRAWS, len(np.unique(of))))
    places = [np.concatenate([np.flatnonzero(of == run) for run in draw]) for draw in drawn]
    low, high = np.nanquantile([correlation(short[draw], long[draw]) for draw in places], [0.025, 0.975])
    told_rows = []
    for name in ("all", *sorted(set(names))):
        own = np.array([name in ("all", one) for one in names])
        told_rows.append(
            {
                "operation": name,
                "forks": int(own.sum()),
                "mean gain": f"{short[own].mean():+.4f}",
                "later": f"{long[own].mean():+.4f}",
                "median later": f"{np.median(long[own]):+.4f}",
                "above 0": int((short[own] > 0).sum()),
                "above 0 later": int((long[own] > 0).sum()),
                "above 0 later alone": int(((long[own] > 0) & (short[own] <= 0)).sum()),
                "rank correlation": f"{correlation(short, long):+.2f} ({low:+.2f} to {high:+.2f})" * (name == "all"),
            }
        )
    return told_rows


def show(path: Path, chosen_on: int, other: Path | None) -> None:
    """Print what the memory says."""
    memory = read(path)
    rows = rows_of(memory.edits)
    seen = held_out(memory)
    every = np.ones(len(rows.gains), bool)
    print(f"{len(rows.gains)} gains of {len(set(rows.runs))} runs; standard deviation {rows.gains.std():.4f} nats")
    told = path.with_suffix(".runs")
    if told.exists():
        print("\n".join([noise(told), *kept(told)]))
        if followed := later(told):
            print("forks, and what became of their gains where both sides were trained on")
            print_table(followed)
    print_table(operations(rows))
    expected = {name: foreseen(rows, model) for name, model in MODELS.items()}
    print("all runs, each held out")
    print_table(judge(rows, expected, every))
    unseen = ~np.isin(rows.runs, list(dict.fromkeys(rows.runs))[:chosen_on])
    if chosen_on and unseen.any():
        print(f"the {len(set(np.array(rows.runs)[unseen]))} runs after the first {chosen_on}, {unseen.sum()} gains")
        print_table(judge(rows, expected, unseen))
    if other is not None:
        given = rows_of(read(other).edits)
        expected = {name: model(given.features, given.gains, rows.features) for name, model in MODELS.items()}
        print(f"foreseen from the {len(given.gains)} gains of {other.name} alone")
        print_table(judge(rows, expected, every))
    print(f"thompson with this memory is called {'learned' if seen.learned else 'not learned'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("memory", type=Path, help="file of the memory of edits, that is gone on with")
    parser.add_argument("data", nargs="?", help="folder of data; without it nothing is trained")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--first", type=int, default=1, help="seed of the first run")
    parser.add_argument("--budget", type=float, default=40.0, help="GFLOPs of each training")
    parser.add_argument("--zoo", type=json.loads, default={}, help="settings of all zoos, as JSON")
    parser.add_argument("--follow", type=int, default=0, help="times its length for which sides go on after a fork")
    parser.add_argument("--events", type=int, default=GROWTH["events"]["count"], help="events of each training")
    parser.add_argument("--chosen-on", type=int, default=0, help="first runs, by which the model was chosen")
    parser.add_argument("--other", type=Path, help="another memory, from which alone these gains are foreseen as well")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.data:
        collect(given)
    if given.memory.exists():
        show(given.memory, given.chosen_on, given.other)


if __name__ == "__main__":
    main()
