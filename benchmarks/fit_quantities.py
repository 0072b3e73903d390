"""What ``evodevo.fit`` is worth on quantities: against tuned ridge regression and tuned gradient boosting.

Each seed draws 60 % of the rows for training (at most ``--rows``); of the others at most 3,000 judge. Ridge regression
on standardised numbers and one-hot categories is tuned over nine strengths, boosting over three rates times two sizes
of trees, both by five folds of the training rows alone. ``fit`` is compared, in R2, with whichever of them is better
*on the test rows* in the mean over the seeds, a choice that favours the rivals. The interval of the mean difference is
that of a paired bootstrap over seeds and, within each, over test rows.

    python benchmarks/fit_quantities.py --seconds 30 --json quantities.json
    python benchmarks/fit_quantities.py --data sets/ --seeds 5 --json quantities.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_wine, make_friedman1, make_friedman2, make_friedman3
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import evodevo
from evodevo.tasks.table import tables
from measuring import surroundings

Table = tuple[dict[str, NDArray[Any]], NDArray[np.float64]]
FOLDS = 5
MOST_JUDGED = 3_000
DRAWS = 2_000
RIVALS = ("ridge regression", "boosting")


def numbers(inputs: NDArray[np.float64], names: list[str], values: NDArray[np.float64]) -> Table:
    """A table of numbers alone."""
    return {name: inputs[:, place] for place, name in enumerate(names)}, values


def wine() -> Table:
    """The alcohol of wines by twelve other measurements."""
    found = load_wine()
    names = list(found.feature_names)
    columns, values = numbers(found.data, names, found.data[:, names.index("alcohol")])
    del columns["alcohol"]
    return columns, values


def friedman(make: Callable[..., Any], noise: float) -> Table:
    """One of Friedman's functions, 800 rows."""
    inputs, values = make(n_samples=800, noise=noise, random_state=0)
    return numbers(inputs, [f"x{place}" for place in range(inputs.shape[1])], values)


def cells(folder: Path) -> Table:
    """Accuracy of 15,625 cells on CIFAR-100 after 12 epochs, by their six operations."""
    found = np.load(folder / "table.npz")
    columns = {f"edge {place}": found["ops"][found["genes"][:, place]] for place in range(6)}
    accuracy = found["acc"][found["acc_columns"].tolist().index("cifar100-val")]
    return columns, accuracy.astype(np.float64)


def layers(folder: Path) -> Table:
    """Accuracy of 6,561 networks on CIFAR-10, by the kind of each of eight layers."""
    table = tables.read(folder / "table.csv.gz")
    columns = {f"layer {place}": np.asarray([f"kind {arch[place]}" for arch in table["arch"]]) for place in range(8)}
    return columns, np.asarray([float(cell) for cell in table["mean_acc"]])


def sets(data: Path | None) -> dict[str, Callable[[], Table]]:
    """Name of a set -> its table."""
    diabetes = load_diabetes(scaled=False)
    found: dict[str, Callable[[], Table]] = {
        "diabetes": lambda: numbers(diabetes.data, list(diabetes.feature_names), diabetes.target),
        "wine alcohol": wine,
        "friedman1": lambda: friedman(make_friedman1, 1.0),
        "friedman2": lambda: friedman(make_friedman2, 125.0),
        "friedman3": lambda: friedman(make_friedman3, 0.1),
    }
    if data is not None:
        found["nas_bench_201"] = lambda: cells(data / "nas_bench_201_12epoch")
        found["nas_bench_macro"] = lambda: layers(data / "nas_bench_macro")
    return found


def rivals(table: Table, train: NDArray[np.int64], test: NDArray[np.int64]) -> dict[str, dict[str, Any]]:
    """Values that each rival predicts for the test rows, and the seconds of its tuning and training."""
    columns, values = table
    names = list(columns)
    categories = [place for place, name in enumerate(names) if columns[name].dtype.kind in "UO"]
    others = [place for place in range(len(names)) if place not in categories]
    codes = [np.unique(columns[name], return_inverse=True)[1] for name in names]
    inputs = np.stack(
        [codes[place] if place in categories else columns[name] for place, name in enumerate(names)], axis=1
    ).astype(np.float64)
    features = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), categories), (StandardScaler(), others), sparse_threshold=0
    )
    boosting = HistGradientBoostingRegressor(random_state=0, categorical_features=categories)
    searches = {
        "ridge regression": GridSearchCV(
            make_pipeline(features, Ridge()), {"ridge__alpha": np.logspace(-3, 3, 9).tolist()}, cv=FOLDS
        ),
        "boosting": GridSearchCV(boosting, {"learning_rate": [0.03, 0.1, 0.3], "max_leaf_nodes": [8, 31]}, cv=FOLDS),
    }
    found = {}
    for name in RIVALS:
        began = time.monotonic()
        model = searches[name].fit(inputs[train], values[train])
        found[name] = {"values": model.predict(inputs[test]).tolist(), "seconds": time.monotonic() - began}
    return found


def measured(table: Table, most: int, seconds: float, seed: int) -> dict[str, Any]:
    """One division of a set: what ``fit`` and the rivals predict for the test rows."""
    columns, values = table
    order = np.random.default_rng(seed).permutation(len(values))
    train, test = order[: int(0.6 * len(order))][:most], order[int(0.6 * len(order)) :][:MOST_JUDGED]
    found = rivals(table, train, test)
    began = time.monotonic()
    rows = {name: column[train] for name, column in columns.items()} | {"value": values[train]}
    model = evodevo.fit(rows, "value", kind="quantity", time_limit=seconds, seed=seed)
    spent = time.monotonic() - began
    own = model.predict({name: column[test] for name, column in columns.items()})
    found["fit"] = {"values": own, "seconds": spent, "chosen": model.name}
    return {"train": len(train), "truth": values[test].tolist(), "found": found}


def compared(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean R2 of each over the seeds, and that of ``fit`` minus the better rival's with its 95 % interval."""
    score = {name: [r2_score(row["truth"], row["found"][name]["values"]) for row in rows] for name in (*RIVALS, "fit")}
    best = max(RIVALS, key=lambda name: float(np.mean(score[name])))
    rng = np.random.default_rng(0)
    truth = [np.asarray(row["truth"]) for row in rows]
    own, other = ([np.asarray(row["found"][name]["values"]) for row in rows] for name in ("fit", best))
    drawn = []
    for _ in range(DRAWS):
        gaps = []
        for seed in rng.integers(0, len(rows), len(rows)):
            some = rng.integers(0, len(truth[seed]), len(truth[seed]))
            part = truth[seed][some]
            gaps.append(r2_score(part, own[seed][some]) - r2_score(part, other[seed][some]))
        drawn.append(float(np.mean(gaps)))
    low, high = np.quantile(drawn, (0.025, 0.975)).tolist()
    gap = float(np.mean(score["fit"]) - np.mean(score[best]))
    return {"r2": {name: float(np.mean(own)) for name, own in score.items()}, "best": best, "gap": [gap, low, high]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=None, help="folder of data sets; scikit-learn's own if left out")
    parser.add_argument("--seconds", type=float, default=30.0, help="time of each fit")
    parser.add_argument("--rows", type=int, default=2_000, help="largest number of training rows")
    parser.add_argument("--sets", nargs="+", default=None, help="names; all that there are if left out")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, required=True, help="file of the results; what is in it is not repeated")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.json.read_text()) if options.json.exists() else {}
    results["machine"] = surroundings()
    every = sets(options.data)
    for name in options.sets or every:
        rows = []
        for seed in range(options.seeds):
            key = f"{name}/{seed}/{options.seconds:g}/{options.rows}"
            if key not in results:
                results[key] = measured(every[name](), options.rows, options.seconds, seed)
                options.json.write_text(json.dumps(results))
            rows.append(results[key])
        found = compared(rows)
        seconds = {who: np.mean([row["found"][who]["seconds"] for row in rows]) for who in (*RIVALS, "fit")}
        scores = ", ".join(f"{who} {found['r2'][who]:.4f} ({seconds[who]:.0f} s)" for who in ("fit", *RIVALS))
        gap, low, high = found["gap"]
        chosen = [row["found"]["fit"]["chosen"] for row in rows]
        print(
            f"{name} ({rows[0]['train']:,} / {len(rows[0]['truth']):,}): {scores}; fit - {found['best']} {gap:+.4f} "
            f"({low:+.4f} to {high:+.4f}); chosen: {', '.join(chosen)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
