"""How good ``extend`` is on tables with its defaults, beside scikit-learn's plain models and ``evodevo.fit``.

Run: OMP_NUM_THREADS=1 python benchmarks/extend_tables.py [--json PATH] [--sets wine --classes MlpSmall --seeds 3]
    [--children 8 --fit-seconds 60]

The sets come with scikit-learn: breast_cancer, wine, digits (as 64 numbers). A seed divides a set 70/15/15 anew, and is
that of the system and of the models. An agent runs with all its defaults in a system of its own; it trains on training
samples and chooses on validation samples, and what it publishes is measured once on test samples. The others make no
choice by hand, and so get training and validation samples together: logistic regression and 3-NN on standardised
numbers, gradient boosting on trees (HistGradientBoostingClassifier), all with their defaults, and ``evodevo.fit``, that
holds samples back by itself, with a limit of wall time. CPU seconds are those of this process and of its children.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evodevo
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.run.run import run_system
from evodevo.tasks.multitask.task import MultitaskSettings, MultitaskTask
from measuring import THREADS, Report

SETS: dict[str, Callable[[], Any]] = {
    "breast_cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "digits": datasets.load_digits,
}
MODELS: dict[str, Callable[[int], Any]] = {
    "logistic regression": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "3-NN": lambda seed: make_pipeline(StandardScaler(), KNeighborsClassifier(3)),
    "gradient boosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
}
Samples = tuple[NDArray[np.float32], NDArray[np.int64]]


def cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def samples(task: MultitaskTask, *splits: Any) -> Samples:
    """Numbers as they stand in the table (N, F), and classes (N,)."""
    rows = [task.fetch(split, np.arange(task.count(split)))["row"] for split in splits]
    whole = np.concatenate(rows)
    return whole[:, : whole.shape[1] // 2], np.concatenate([task.labels(split) for split in splits])


def extend(folder: Path, data: Path, kind: str, seed: int, children: int) -> float:
    """Accuracy on test of what an agent publishes."""
    common = {"store": folder / "runs", "cache_folder": folder / "cache"}
    cycle = {"cycle": {"samples": children, "generation_size": min(children, 4)}} if children else {}
    create_system("one", kind=kind, seed=seed, overrides=cycle, **common)
    add_task("one", "task", data=data, overrides={"task": {"seed": seed}}, **common)
    with SerialExecutor() as executor:
        summary = run_system("one", test=True, executor=executor, **common)
    (ended,) = [one for one in summary.agents if one.task == "task"]
    assert ended.test is not None
    return float(ended.test)


def fitted(train: Samples, test: Samples, seed: int, seconds: float) -> float:
    """Accuracy on test of ``evodevo.fit``."""
    model = evodevo.fit({"x": train[0], "label": train[1]}, label="label", time_limit=seconds, seed=seed)
    answers = [int(name) for name in model.predict({"x": test[0]})]
    return float(np.mean(np.asarray(answers) == test[1]))


def measured(name: str, seed: int, options: argparse.Namespace) -> Iterator[tuple[str, float, float]]:
    """(who, accuracy on test, CPU seconds) of all, on one division of a set."""

    def timed(label: str, work: Callable[[], float]) -> tuple[str, float, float]:
        begin = cpu_seconds()
        accuracy = work()
        seconds = cpu_seconds() - begin
        print(f"{name:14s} {seed}  {label:20s} {accuracy:.4f} {seconds:6.1f} CPU s", flush=True)
        return label, accuracy, seconds

    with tempfile.TemporaryDirectory() as scratch:
        bundled, data = SETS[name](), Path(scratch) / f"{name}.npz"
        np.savez(data, x=bundled.data, y=bundled.target)
        settings = MultitaskSettings(source="rows", data=str(data), seed=seed)
        task = MultitaskTask.open(settings, Path(scratch))
        train, test = samples(task, "train", "validation"), samples(task, "test")
        for label, make in MODELS.items():
            yield timed(label, lambda make=make: float(make(seed).fit(*train).score(*test)))
        if options.fit_seconds:
            yield timed("evodevo.fit", lambda: fitted(train, test, seed, options.fit_seconds))
        for kind in options.classes.split(",") if options.classes else ():
            with tempfile.TemporaryDirectory(dir=scratch) as inner:
                given = Path(inner), data, kind, seed, options.children
                yield timed(f"extend, {kind}", lambda given=given: extend(*given))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=None, help="write everything measured to this file")
    parser.add_argument("--sets", default=",".join(SETS), help="separated by commas")
    parser.add_argument("--classes", default="MlpTiny,MlpSmall", help="classes of agents")
    parser.add_argument("--seeds", type=int, default=3, help="number of divisions and seeds")
    parser.add_argument("--children", type=int, default=0, help="of a cycle; 0 is the default of the class")
    parser.add_argument("--fit-seconds", type=float, default=60, help="limit of evodevo.fit; 0 leaves it out")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(THREADS)
    report = Report("extend on tables", settings={"seeds": options.seeds, "clock": "CPU time, children included"})
    for name in options.sets.split(","):
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(options.seeds):
            for label, accuracy, seconds in measured(name, seed, options):
                found.setdefault(label, []).append((accuracy, seconds))
        for label, results in found.items():
            accuracies, used = (np.asarray(column) for column in zip(*results, strict=True))
            report.rows.append(
                {
                    "set": name,
                    "who": label,
                    "test accuracy": f"{accuracies.mean():.4f}",
                    "deviation": f"{accuracies.std(ddof=1) if len(accuracies) > 1 else 0:.4f}",
                    "of each seed": " ".join(f"{value:.4f}" for value in accuracies),
                    "CPU seconds": round(float(used.mean()), 1),
                }
            )
    report.finish(options.json)


if __name__ == "__main__":
    main()
