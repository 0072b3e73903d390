"""Whether a user is better off: one system of small image tasks in a given time, beside plain models on each task.

Run: python benchmarks/extend_budget.py --data FOLDER [--json PATH] [--sets cmaterdb_devanagari,cmaterdb_bangla]
    [--budget 10m --workers 2 --cycles 1 --class ConvSmall --root default --seed 0 --joint]
    python benchmarks/extend_budget.py --of PATH PATH ...    over the seeds of such files

One system gets an agent for each set and ``run --budget``, all else by default; with ``--joint`` also a root that all
sets train together. Each set then has 3-NN and logistic regression on pixels at 20 x 20 grey, and a network of three
convolutions (26,000 parameters) in colour whose rate is the best of three on the validation split, which also chooses
whether its training images are moved by chance, and which has as many CPU seconds, for all of that, as the system used
per task. Accuracy
on the test split, which nothing has chosen by; the interval is that of the difference of two shares of so many samples
(95 %, as if their errors were independent). CPU seconds of the process and its workers.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from evodevo.multitask.run.create import add_root, add_task, create_system
from evodevo.multitask.run.run import run_system
from evodevo.tasks.multitask.task import MultitaskSettings, MultitaskTask
from extend_images import SIDE, nearest, pixels, plain
from measuring import THREADS, Report, mean_in_words

RATES = (5e-4, 2e-3, 8e-3)
MOVED = (0, 3)
"""Movements of training images of the plain network, in pixels of 28."""
PILOT = 16_000
"""Training samples with which a rate is chosen."""
MOST_SEEN = 4_000_000


def source(options: Any, name: str) -> Path | None:
    """Folder of a set; scikit-learn's digits need none."""
    return None if name == "digits" else Path(options.data).resolve() / name


def cpu() -> float:
    """CPU seconds of this process and of its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def system(folder: Path, options: Any) -> tuple[dict[str, float], float, float]:
    """Set -> accuracy on test of the best path; CPU and wall seconds of everything."""
    began, cpu_before = time.monotonic(), cpu()
    common = {"store": folder / "runs", "cache_folder": folder / "cache"}
    root = {} if options.root == "default" else {"root": options.root}
    create_system("zoo", kind=options.kind, seed=options.seed, **root, **common)
    for name in options.sets.split(","):
        add_task("zoo", name, data=source(options, name), **common)
    if options.joint:
        add_root("zoo", root="joint", kind=options.kind, **common)
    ended = run_system(
        "zoo", budget=options.budget, cycles=options.cycles, workers=options.workers, test=True, **common
    )
    wall = time.monotonic() - began
    found = {one.task: one.test for one in ended.agents if one.test is not None}
    return found, cpu() - cpu_before, wall


def logistic(task: MultitaskTask) -> float:
    """Accuracy on test of logistic regression on pixels, its strength chosen on the validation split."""
    from sklearn.linear_model import LogisticRegression

    train, validation, test = (
        pixels(task, split, SIDE).flatten(1).numpy() for split in ("train", "validation", "test")
    )
    best, answer = -1.0, 0.0
    for strength in (0.01, 0.1, 1.0):
        model = LogisticRegression(C=strength, max_iter=200).fit(train, task.labels("train"))
        score = model.score(validation, task.labels("validation"))
        if score > best:
            best, answer = score, float(model.score(test, task.labels("test")))
    return answer


def tuned(task: MultitaskTask, seconds: float, seed: int) -> tuple[float, str]:
    """Accuracy on test of three convolutions at the best of three rates in so many CPU seconds, with training images
    moved or not, as validation chooses; the choices in words."""
    began = cpu()
    scores = {
        rate: plain(task, rate=rate, seen=PILOT, splits=("validation",), colour=True, seed=seed)[0] for rate in RATES
    }
    rate = max(scores, key=lambda one: scores[one])
    each = (cpu() - began) / len(RATES) / PILOT
    seen = int(min(MOST_SEEN, max(PILOT, (seconds - (cpu() - began)) / each / len(MOVED))))
    found = {
        moved: plain(task, rate=rate, seen=seen, splits=("validation", "test"), colour=True, moved=moved, seed=seed)
        for moved in MOVED
    }
    moved = max(found, key=lambda one: found[one][0])
    return found[moved][1], f"rate {rate:g}, moved by {moved}"


def over_seeds(paths: list[Path]) -> None:
    """Print means over files of several seeds, and the differences, paired, with the interval of Student's t."""
    gaps: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for path in paths:
        for row in json.loads(path.read_text())["rows"]:
            pair = (row["set"], row["other"].partition(",")[0])
            gaps.setdefault(pair, []).append((float(row["system"]), float(row["its accuracy"])))
    report = Report("one system in a given time, over seeds", settings={"files": len(paths)})
    for (name, other), found in gaps.items():
        report.rows.append(
            {
                "set": name,
                "seeds": len(found),
                "system": f"{statistics.fmean(ours for ours, _ in found):.4f}",
                "other": other,
                "its accuracy": f"{statistics.fmean(theirs for _, theirs in found):.4f}",
                "difference, points": mean_in_words([100 * (ours - theirs) for ours, theirs in found]),
            }
        )
    report.finish(None)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=None, help="write everything measured to this file")
    parser.add_argument("--of", type=Path, nargs="+", help="files of --json; measures nothing")
    parser.add_argument("--data", help="folder with a folder for each set")
    parser.add_argument("--sets", default="cmaterdb_devanagari,cmaterdb_bangla", help="folders, by commas; or digits")
    parser.add_argument("--budget", default="10m", help="of the whole system")
    parser.add_argument("--cycles", type=int, default=1, help="of each agent")
    parser.add_argument("--workers", type=int, default=2, help="children at a time")
    parser.add_argument("--class", dest="kind", default="ConvSmall", help="class of agents")
    parser.add_argument("--root", default="default", help="as evodevo extend create has it")
    parser.add_argument("--seed", type=int, default=0, help="of the system and of the plain network")
    parser.add_argument("--joint", action="store_true", help="a root that all sets train together")
    options = parser.parse_args()
    if options.of:
        over_seeds(options.of)
        return
    if options.data is None:
        parser.error("--data is needed")
    torch.set_num_threads(THREADS)
    settings = {"budget": options.budget, "cycles": options.cycles, "workers": options.workers, "seed": options.seed}
    settings |= {"class": options.kind, "root": options.root, "joint root": options.joint}
    report = Report("one system in a given time", settings=settings)
    with tempfile.TemporaryDirectory() as scratch:
        found, used, wall = system(Path(scratch) / "system", options)
        share = used / len(found)
        print(f"system: {wall:.0f} s, {used:.0f} CPU s, {share:.0f} CPU s per task", flush=True)
        print(", ".join(f"{name} {accuracy:.4f}" for name, accuracy in found.items()), flush=True)
        for name, accuracy in found.items():
            data = source(options, name)
            task = MultitaskTask.open(
                MultitaskSettings(data=None if data is None else str(data)), Path(scratch) / "plain"
            )
            count = task.count("test")
            network, chosen = tuned(task, share, options.seed)
            others = {"3-NN on pixels": nearest(task), "logistic regression": logistic(task)}
            others[f"three convolutions, {chosen}"] = network
            for who, other in others.items():
                half = 1.96 * math.sqrt((accuracy * (1 - accuracy) + other * (1 - other)) / count)
                report.rows.append(
                    {
                        "set": name,
                        "test samples": count,
                        "system": f"{accuracy:.4f}",
                        "other": who,
                        "its accuracy": f"{other:.4f}",
                        "difference, points": f"{100 * (accuracy - other):+.1f} ± {100 * half:.1f}",
                    }
                )
                print(name, f"{accuracy:.4f}", who, f"{other:.4f}", flush=True)
    report.finish(options.json)


if __name__ == "__main__":
    main()
