"""What adapters between frozen blocks are worth beside a copy of the whole path, on tasks that the root has not seen.

Run: python benchmarks/extend_adapters.py --data FOLDER --results FILE
    [--sets cmaterdb_devanagari,cmaterdb_bangla,notmnist10k,cifar10_jpg] [--seeds 0,1,2] [--steps 700]

Each set is a task of a system of ``ConvSmall`` with the root of the package. Arms, all with a new head and the root's
norm: ``whole`` trains a copy of every component of the root; ``adapters`` trains residual blocks a quarter as wide
behind its frozen blocks; ``last block`` a copy of the last block; ``head`` nothing else. Each arm has two learning
rates, .1 and .3, of which validation chooses; a seed is of weights, order and samples. Accuracy on the test split,
which nothing has chosen by; CPU seconds of one process of one thread. What is in the file of results is not measured
again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.evaluate import evaluate_path, measure_path
from evodevo.multitask.paths.blocks_spec import ADAPTER, HEAD, NORM
from evodevo.multitask.paths.convolution.kind import CONVOLUTION
from evodevo.multitask.problem import EVALS
from evodevo.multitask.recorded import ACCURACY
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System
from evodevo.storage import Store
from extend_few import asked
from measuring import THREADS, mean_in_words, print_table

KIND, SYSTEM, WIDTH = "ConvSmall", "zoo", 0.25
RATES = (0.1, 0.3)
ARMS = ("whole", "adapters", "last block", "head")


class AdapterTrials:
    """A system with the root of the package and a task for each set."""

    def __init__(self, folder: Path, data: Path, sets: list[str]) -> None:
        common: dict[str, Any] = {"store": folder / "runs", "cache_folder": folder / "cache"}
        self.folder = folder
        create_system(SYSTEM, kind=KIND, **common)
        for name in sets:
            add_task(SYSTEM, name, data=data / name, **common)
        with Store.open(folder / "runs") as store, SerialExecutor() as executor:
            system = System.open(store, SYSTEM)
            system.run([agent for agent in system.agents() if agent.settings["root"]], 1, executor)

    def trained(self, name: str, arm: str, steps: int, seed: int) -> dict[str, Any]:
        """Accuracy on test, trained parameters and CPU seconds of an arm."""
        with Store.open(self.folder / "runs") as store:
            system = System.open(store, SYSTEM)
            settings = agent_settings(system.agent(f"{KIND}~{name}"))
            (root,) = system.view().offers.values()
            known = system.library.request(root)
            structure = CONVOLUTION.structure_of(root.path).changed(classes=settings.classes)
            if arm == "adapters":
                structure = CONVOLUTION.adapted_structure(structure, WIDTH)
            roles = structure.roles
            learns = {HEAD, NORM} | {
                "whole": set(roles),
                "adapters": {role for role in roles if role.startswith(ADAPTER)},
                "last block": {roles[-3]},
                "head": set(),
            }[arm]
            sources = {
                role: {"train": True, "how": "insert" if role.startswith(ADAPTER) else "new"}
                if role not in known["components"]
                else {**known["components"][role], "train": role in learns, "how": "clone" if role in learns else ""}
                for role in roles
            }
            path = {**known["path"], "classes": settings.classes, "task": name}
            path["structure"] = structure.changed(classes=0).model_dump(mode="json")
            maker = root.path.agent
            path["components"] = [{"role": role, "id": f"{maker}:{place}"} for place, role in enumerate(roles)]
            request = {
                "task": name,
                "task_settings": settings.task,
                "task_key": settings.task_key,
                "training": {**settings.training, "steps": steps},
                "blobs": store.blobs.address,
                "cache": str(self.folder / "cache"),
                "seed": seed,
            }
            began, ends = time.process_time(), []
            for rate in RATES:
                given = {**request, "path": {**path, "hparams": {**path["hparams"], "opt_lr": rate}}}
                outcome = asked(evaluate_path, {**given, "components": sources})
                measured = {role: {"digest": one.get("digest")} for role, one in sources.items()}
                measured |= {role: {"digest": digest} for role, digest in outcome.blobs.items()}
                test = asked(measure_path, {**given, "components": measured, "split": "test"})
                ends.append((max(outcome.extra[EVALS]), test.scores[ACCURACY]))
            sizes = CONVOLUTION.parameters(structure)
            return {
                "accuracy": max(ends)[1],
                "parameters": sum(size for role, size in sizes.items() if role in learns),
                "seconds": time.process_time() - began,
            }


def by_seed(rows: list[dict[str, Any]], arm: str, fact: str) -> dict[int, float]:
    """Seed -> a fact of an arm in percent, mean over the sets."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if row["arm"] == arm:
            found.setdefault(row["seed"], []).append(100 * row[fact])
    return {seed: statistics.fmean(values) for seed, values in found.items()}


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each arm on each set, and on all."""
    told = []
    for name in [*dict.fromkeys(row["set"] for row in rows), "all"]:
        own = [row for row in rows if name in ("all", row["set"])]
        whole = by_seed(own, ARMS[0], "accuracy")
        for arm in ARMS:
            accuracies = by_seed(own, arm, "accuracy")
            gaps = [accuracies[seed] - whole[seed] for seed in accuracies] if arm != ARMS[0] else []
            told.append(
                {
                    "set": name,
                    "arm": arm,
                    "accuracy": f"{statistics.fmean(accuracies.values()):.1f}",
                    "minus whole": mean_in_words(gaps),
                    "trained parameters": round(statistics.fmean(by_seed(own, arm, "parameters").values()) / 100),
                    "CPU seconds": round(statistics.fmean(by_seed(own, arm, "seconds").values()) / 100),
                }
            )
    return told


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with a folder for each set")
    parser.add_argument("--results", type=Path, required=True, help="file of results, one a line")
    parser.add_argument("--sets", default="cmaterdb_devanagari,cmaterdb_bangla,notmnist10k,cifar10_jpg")
    parser.add_argument("--seeds", default="0,1,2", help="numbers, separated by commas")
    parser.add_argument("--steps", type=int, default=700, help="of each training")
    given = parser.parse_args()
    torch.set_num_threads(THREADS)
    sets = given.sets.split(",")
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    rows = [json.loads(line) for line in lines]
    with tempfile.TemporaryDirectory() as scratch:
        bench = AdapterTrials(Path(scratch), given.data.resolve(), sets)
        for seed, name, arm in itertools.product(given.seeds.split(","), sets, ARMS):
            known = {"set": name, "arm": arm, "seed": int(seed), "steps": given.steps}
            if any(known.items() <= row.items() for row in rows):
                continue
            rows.append({**known, **bench.trained(name, arm, given.steps, int(seed))})
            print(json.dumps(rows[-1]), flush=True)
            with given.results.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    print_table(table([row for row in rows if row["steps"] == given.steps and row["set"] in sets]))


if __name__ == "__main__":
    main()
