"""What the defaults of ``ZooClassifier`` and ``GrowingClassifier`` are worth, at equal seconds.

``as before`` is what both were until 2026-11-28: six modules, linear patches with blocks, attention between inputs, the
mean over positions, no layer before the heads, and growth by PPO. Beside them the best of three logistic regressions
(on tf-idf of words, standardised numbers, or pixels; by five folds on the training rows), which takes the time that it
takes. Sets as in ``fit.py``. Differences are paired over seeds, with the 95 % interval of the t distribution.

    python benchmarks/zoo_classifier.py --data sets/ --seconds 20 --seeds 3 --results FILE
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evodevo import GrowingClassifier, ZooClassifier
from evodevo.estimators.classifier import Classifier
from evodevo.module_zoo.spec import ZooStructure
from fit import Rows, logistic, sets
from measuring import mean_in_words, print_table

BEFORE = ZooStructure().model_dump(mode="json", include={"extractor", "fusion", "losses", "readout", "pool"})
LINEAR = "logistic regression"
ENDLESS = 1_000_000
"""Epochs that no time is enough for: the clock ends each training."""


def _zoo(seconds: float, seed: int, **more: Any) -> Classifier:
    timed = {"seconds": seconds, "epochs": ENDLESS, "patience": None}
    return ZooClassifier(**timed, plain=False, random_state=seed, **more)


def _growing(seconds: float, seed: int, **more: Any) -> Classifier:
    return GrowingClassifier(budget={"seconds": seconds}, plain=False, random_state=seed, **more)


ARMS: dict[str, Callable[[float, int], Classifier]] = {
    "ZooClassifier": lambda seconds, seed: _zoo(seconds, seed),
    "GrowingClassifier": lambda seconds, seed: _growing(seconds, seed),
    "ZooClassifier, six modules": lambda seconds, seed: _zoo(seconds, seed, modules="start"),
    "ZooClassifier as before": lambda seconds, seed: _zoo(seconds, seed, modules="start", network=BEFORE),
    "GrowingClassifier as before": lambda seconds, seed: _growing(seconds, seed, network=BEFORE, strategist="ppo"),
}


def inputs_of(rows: Rows) -> Any:
    """Columns as the classifiers take them: images, texts, or a table of numbers."""
    columns = rows[0]
    if set(columns) <= {"image", "text"}:
        return {name: list(values) for name, values in columns.items()}
    return np.stack(list(columns.values()), axis=1)


def measured(arm: str, train: Rows, test: Rows, seconds: float, seed: int) -> dict[str, Any]:
    """Accuracy of an arm on the test rows in percent."""
    began = time.monotonic()
    if arm == LINEAR:
        answers, _ = logistic(train, test)
        modules: list[str] = []
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ARMS[arm](seconds, seed).fit(inputs_of(train), train[1])
        answers, modules = np.asarray(model.predict(inputs_of(test))), model.modules_
    accuracy = round(100 * float((answers == test[1]).mean()), 2)
    return {"accuracy": accuracy, "seconds": round(time.monotonic() - began, 1), "modules": modules}


def difference(one: dict[int, float], other: dict[int, float]) -> str:
    """Mean and interval over the seeds that both have."""
    return mean_in_words([one[seed] - other[seed] for seed in one if seed in other])


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each arm on each set."""
    told = []
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        found: dict[str, dict[int, float]] = {}
        for row in own:
            found.setdefault(row["arm"], {})[row["seed"]] = row["accuracy"]
        for arm, accuracies in found.items():
            before = found.get(f"{arm} as before", {})
            told.append(
                {
                    "set": name,
                    "arm": arm,
                    "accuracy": f"{statistics.fmean(accuracies.values()):.1f}",
                    "minus as before": difference(accuracies, before),
                    f"minus {LINEAR}": difference(accuracies, found.get(LINEAR, {})) if arm != LINEAR else "",
                }
            )
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=None, help="folder of data sets; scikit-learn's own if left out")
    parser.add_argument("--seconds", type=float, default=20.0, help="time of each training")
    parser.add_argument("--sets", nargs="+", default=None, help="names; all that there are if left out")
    parser.add_argument("--arms", default=";".join([LINEAR, *ARMS]), help="names, with semicolons")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, required=True, help="file of results, one a line; not made twice")
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    rows = [json.loads(line) for line in lines]
    known = {(row["set"], row["arm"], row["seed"]) for row in rows if row["of"] == given.seconds}
    for seed in range(given.seeds):
        every = sets(given.data, seed)
        for name in given.sets or every:
            wanted = [arm for arm in given.arms.split(";") if (name, arm, seed) not in known]
            if not wanted:
                continue
            train, test = every[name]()
            for arm in wanted:
                found = measured(arm, train, test, given.seconds, seed)
                rows.append({"of": given.seconds, "set": name, "arm": arm, "seed": seed, **found})
                print(json.dumps(rows[-1]), flush=True)
                with given.results.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print_table(table([row for row in rows if row["of"] == given.seconds]))


if __name__ == "__main__":
    main()
