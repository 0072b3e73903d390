"""What ``evodevo.fit`` is worth on rows with a text, numbers and categories: the section of a Debian package.

Run: python benchmarks/fit_packages.py --json FILE [--rows 5000 --seconds 60 --seeds 0,1,2 --classes 20]

Needs Debian's ``apt-cache`` with its lists (``apt-get update``). A row is a package: its short description, maintainer,
architecture, sizes and number of dependencies; the label is its section, one of the most frequent. Packages of one
source are on one side of the division, a quarter of the sources for the test, at most 5,000 of their packages. Rivals
are what one would write by hand with scikit-learn, each tuned over three values by five folds of whole sources:
logistic regression and gradient boosting on all columns (tf-idf of words, for boosting its 100 first singular vectors;
categories as indicators), logistic regression on the description alone, and the most frequent section. Accuracy on the
test rows with the interval of the paired difference to the best rival *on the test rows*, a choice that favours rivals.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import evodevo
from evodevo.estimators.automatic.scores import METRICS, difference
from measuring import surroundings

TEST_SHARE = 4
MOST_TEST = 5_000
FOLDS = 5
TEXT, CATEGORIES, NUMBERS = "description", ("maintainer", "architecture"), ("installed", "size", "depends")
Rows = list[dict[str, Any]]


def packages() -> Iterator[dict[str, str]]:
    """Fields of each package that Debian's lists have."""
    listed = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    for paragraph in listed.split("\n\n"):
        yield dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))


def rows_of(classes: int) -> Rows:
    """Rows of the packages of the most frequent sections, with their ``section`` and ``source``."""
    found = [fields for fields in packages() if {"Package", "Section", "Description"} <= set(fields)]
    sections = {name for name, _ in Counter(fields["Section"] for fields in found).most_common(classes)}
    return [
        {
            TEXT: fields["Description"],
            "maintainer": re.sub(r"\s*<.*", "", fields.get("Maintainer", "")),
            "architecture": fields.get("Architecture", ""),
            "installed": float(fields.get("Installed-Size", 0)),
            "size": float(fields.get("Size", 0)),
            "depends": float(len([one for one in fields.get("Depends", "").split(",") if one.strip()])),
            "section": fields["Section"],
            "source": fields.get("Source", fields["Package"]).split()[0],
        }
        for fields in found
        if fields["Section"] in sections
    ]


def divided(rows: Rows, count: int, seed: int) -> tuple[Rows, Rows]:
    """Training rows, of which a random part, and test rows."""

    def tested(row: dict[str, Any]) -> bool:
        return hashlib.sha256(row["source"].encode()).digest()[0] % TEST_SHARE == 0

    train, test = [row for row in rows if not tested(row)], [row for row in rows if tested(row)]
    chosen = np.random.default_rng(seed).permutation(len(train))[:count]
    judged = np.random.default_rng(0).permutation(len(test))[:MOST_TEST]
    return [train[place] for place in chosen], [test[place] for place in judged]


def columns(rows: Rows) -> dict[str, NDArray[Any]]:
    """Columns of the inputs, as ``evodevo.fit`` takes them."""
    texts = {name: np.array([row[name] for row in rows], object) for name in (TEXT, *CATEGORIES)}
    return {**texts, **{name: np.array([row[name] for row in rows]) for name in NUMBERS}}


def table(rows: Rows) -> NDArray[Any]:
    """The same as one array of objects, for scikit-learn."""
    return np.stack([column.astype(object) for column in columns(rows).values()], axis=1)


def rivals() -> dict[str, tuple[BaseEstimator, dict[str, list[Any]]]]:
    """Name -> model, and the values that it is tuned over."""
    names = [TEXT, *CATEGORIES, *NUMBERS]
    text, categories = names.index(TEXT), [names.index(name) for name in CATEGORIES]
    numbers = [names.index(name) for name in NUMBERS]
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    indicators = OneHotEncoder(handle_unknown="ignore", min_frequency=5)
    logs = make_pipeline(FunctionTransformer(_logs), StandardScaler())
    linear = Pipeline(
        [
            ("columns", ColumnTransformer([("t", words, text), ("c", indicators, categories), ("n", logs, numbers)])),
            ("model", LogisticRegression(max_iter=300)),
        ]
    )
    dense = OneHotEncoder(handle_unknown="ignore", min_frequency=20, sparse_output=False)
    vectors = make_pipeline(words, TruncatedSVD(100, random_state=0))
    boosted = Pipeline(
        [
            ("columns", ColumnTransformer([("t", vectors, text), ("c", dense, categories), ("n", logs, numbers)])),
            ("model", HistGradientBoostingClassifier(random_state=0, max_iter=60)),
        ]
    )
    alone = Pipeline(
        [("columns", ColumnTransformer([("t", words, text)])), ("model", LogisticRegression(max_iter=300))]
    )
    return {
        "logistic regression on all columns": (linear, {"model__C": [1, 10, 100]}),
        "logistic regression on the text": (alone, {"model__C": [1, 10, 100]}),
        "boosting on all columns": (boosted, {"model__learning_rate": [0.05, 0.1, 0.2]}),
    }


def _logs(values: NDArray[Any]) -> NDArray[np.float64]:
    return np.log1p(values.astype(np.float64))


def measured(train: Rows, test: Rows, seconds: float, seed: int) -> dict[str, Any]:
    """Accuracy of all on the test rows, and the paired difference of ``fit`` to the best rival there."""
    labels, truth = (np.array([row["section"] for row in rows], object) for rows in (train, test))
    sources = [row["source"] for row in train]
    answers: dict[str, NDArray[Any]] = {}
    spent: dict[str, float] = {}
    for name, (model, grid) in rivals().items():
        began = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = GridSearchCV(model, grid, cv=GroupKFold(FOLDS)).fit(table(train), labels, groups=sources)
        answers[name], spent[name] = search.predict(table(test)), time.monotonic() - began
    frequent = Counter(labels.tolist()).most_common(1)[0][0]
    answers["the most frequent section"] = np.full(len(truth), frequent, object)
    began = time.monotonic()
    model = evodevo.fit({**columns(train), "section": labels}, "section", time_limit=seconds, seed=seed)
    took = time.monotonic() - began
    ours = np.asarray(model.predict(columns(test)))
    found = {name: float((answer == truth).mean()) for name, answer in answers.items()}
    best = max(found, key=lambda name: found[name])
    wrong = [(answer != truth).astype(np.int64) for answer in (ours, answers[best])]
    gap = difference(METRICS["accuracy"], *wrong, np.zeros(len(truth), np.int64))
    return {
        "train": len(train),
        "test": len(test),
        "fit": float((ours == truth).mean()),
        "chosen": model.name,
        "seconds": took,
        "rivals": {name: {"accuracy": found[name], "seconds": spent.get(name, 0.0)} for name in found},
        "best_rival": best,
        "difference": [gap.value, gap.low, gap.high],
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000, help="training rows")
    parser.add_argument("--classes", type=int, default=20, help="sections, the most frequent ones")
    parser.add_argument("--seconds", type=float, default=60.0, help="time of each fit")
    parser.add_argument("--seeds", default="0,1,2", help="of the training rows and fits")
    parser.add_argument("--json", type=Path, required=True, help="file of the results; what is in it is not repeated")
    given = parser.parse_args()
    kept = json.loads(given.json.read_text()) if given.json.exists() else {"surroundings": surroundings(), "rows": []}
    rows = rows_of(given.classes)
    for seed in map(int, given.seeds.split(",")):
        known = {"rows": given.rows, "classes": given.classes, "time": given.seconds, "seed": seed}
        if any(known.items() <= row.items() for row in kept["rows"]):
            continue
        kept["rows"].append({**known, **measured(*divided(rows, given.rows, seed), given.seconds, seed)})
        given.json.write_text(json.dumps(kept, indent=1))
        print(json.dumps(kept["rows"][-1]), flush=True)


if __name__ == "__main__":
    main()
