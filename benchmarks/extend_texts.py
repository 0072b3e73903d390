"""Whether a user is better off with a system of text tasks: classes of agents beside logistic regression on words.

Run: python benchmarks/extend_texts.py --data FOLDER --results FILE
    [--sets trec,mr,sst2,r8 --classes NgramSmall,TextTiny --budget 4000steps --seeds 0,1,2]

Each run is a new system with one agent of a class, all else by default, under a budget. Logistic regression reads
tf-idf of words and pairs of words of the whole text, where paths read its first 256 bytes, and has its strength chosen
by five folds of the training rows. Accuracy on the test file, which nothing has chosen by; CPU seconds of one process
of one thread, everything included. What is in the file of results is not measured again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.run.run import run_system
from evodevo.tasks.table import tables
from measuring import THREADS, mean_in_words, print_table

LOGISTIC = "logistic regression"


def of_system(data: Path, kind: str, budget: str, seed: int) -> float:
    """Accuracy on test of what an agent publishes."""
    with tempfile.TemporaryDirectory() as scratch, SerialExecutor() as executor:
        common: dict[str, Any] = {"store": Path(scratch) / "runs", "cache_folder": Path(scratch) / "cache"}
        create_system("texts", kind=kind, seed=seed, **common)
        add_task("texts", "task", data=data, **common)
        summary = run_system("texts", budget=budget, cycles=1, test=True, executor=executor, **common)
        (ended,) = [one for one in summary.agents if one.task == "task"]
    assert ended.test is not None
    return ended.test


def of_logistic(data: Path) -> float:
    """Accuracy on test of logistic regression."""
    train, test = (tables.read(data / f"{part}.jsonl.gz") for part in ("train", "test"))
    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(max_iter=300))
    search = GridSearchCV(model, {"logisticregression__C": [1, 10, 100]}, cv=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(np.asarray(train["text"], object), np.asarray(train["label"]))
    return float(search.score(np.asarray(test["text"], object), np.asarray(test["label"])))


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each set and model, with the mean difference to logistic regression over seeds."""
    told = []
    for name, model in dict.fromkeys((row["set"], row["model"]) for row in rows):
        own = [row for row in rows if (row["set"], row["model"]) == (name, model)]
        plain = [row["accuracy"] for row in rows if (row["set"], row["model"]) == (name, LOGISTIC)]
        gaps = [100 * (row["accuracy"] - plain[0]) for row in own] if plain and model != LOGISTIC else []
        told.append(
            {
                "set": name,
                "model": model,
                "seeds": len(own),
                "accuracy": f"{100 * statistics.fmean(row['accuracy'] for row in own):.1f}",
                "minus logistic regression": mean_in_words(gaps),
                "CPU seconds": round(statistics.fmean(row["seconds"] for row in own)),
            }
        )
    return told


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with a folder for each set")
    parser.add_argument("--results", type=Path, required=True, help="file of results, one a line")
    parser.add_argument("--sets", default="trec,mr,sst2,r8")
    parser.add_argument("--classes", default="NgramSmall,TextTiny", help="of agents")
    parser.add_argument("--budget", default="4000steps", help="of a system")
    parser.add_argument("--seeds", default="0,1,2", help="of the systems")
    given = parser.parse_args()
    torch.set_num_threads(THREADS)
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    rows = [json.loads(line) for line in lines]
    asked = [(name, LOGISTIC, None) for name in given.sets.split(",")]
    asked += itertools.product(given.sets.split(","), given.classes.split(","), map(int, given.seeds.split(",")))
    for name, model, seed in asked:
        known = {"set": name, "model": model, "seed": seed, "budget": None if seed is None else given.budget}
        if any(known.items() <= row.items() for row in rows):
            continue
        data, began = given.data.resolve() / name, time.process_time()
        found = of_logistic(data) if seed is None else of_system(data, model, given.budget, seed)
        rows.append({**known, "accuracy": found, "seconds": time.process_time() - began})
        print(json.dumps(rows[-1]), flush=True)
        with given.results.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    print_table(table([row for row in rows if row["budget"] in (None, given.budget)]))


if __name__ == "__main__":
    main()
