"""What ``evodevo.fit`` is worth: against logistic regression, boosting and a plain network, on unseen rows.

Each rival is tuned over three values on the training rows alone: logistic regression (on tf-idf of words, standardised
numbers, pixels, or on all that a row has) and gradient boosting by five folds, the network (three convolutions with
batch norm on images, a GRU over words on texts, concatenated where a row has both) by a fifth that is held out, each of
its rates for a third of the time that ``fit`` has. ``fit`` is compared with whichever of them is best *on the test
rows*, a choice that favours the rivals; the interval is that of the paired difference. With ``--without-root`` the one
rival is ``fit`` itself without the root of the package, in the same time.

    python benchmarks/fit.py --data sets/ --seconds 60 --json fit.json
    python benchmarks/fit.py --seconds 60 --json fit.json --sets breast_cancer digits
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import evodevo
from evodevo.estimators.automatic.scores import METRICS, difference
from evodevo.tasks.images import files
from evodevo.tasks.images.arrays import joined_files
from evodevo.tasks.images.pixels import decode_all, uniform
from evodevo.tasks.table import tables
from measuring import surroundings

Rows = tuple[dict[str, Any], NDArray[np.str_]]
IMAGES = ("fashion_mnist", "mnist10k", "cmaterdb_bangla", "cmaterdb_devanagari", "notmnist10k", "cifar10_jpg")
"""Sets of images; the package's root has learned the first two, and relatives of notmnist10k."""
UNSEEN = ("clipart", "icons", "terrain", "scripts")
"""Sets of ``debian_sets.py``, where the folder of sets has them."""
FOLDS = 5
BATCH = 64
WORDS = 128


def halves(inputs: NDArray[Any], answers: NDArray[Any], name: str, seed: int) -> tuple[Rows, Rows]:
    """Training and test rows of a set without a given division, 60 to 40."""
    first, second = train_test_split(np.arange(len(answers)), test_size=0.4, random_state=seed, stratify=answers)

    def rows(places: NDArray[np.int64]) -> Rows:
        some = inputs[places]
        columns = {name: some} if some.ndim > 2 else {f"{name}_{at}": some[:, at] for at in range(some.shape[1])}
        return columns, answers[places].astype(str)

    return rows(first), rows(second)


def texts(folder: Path, rows: int, seed: int) -> tuple[Rows, Rows]:
    """Texts and labels; of the training rows a random part."""
    train, test = (tables.read(folder / f"{part}.jsonl.gz") for part in ("train", "test"))
    chosen = np.random.default_rng(seed).permutation(train.rows)[:rows]
    shown, labels = np.asarray(train["text"], object)[chosen], np.asarray(train["label"])[chosen]
    return ({"text": shown}, labels), ({"text": np.asarray(test["text"], object)}, np.asarray(test["label"]))


def images(folder: Path, rows: int, seed: int) -> tuple[Rows, Rows]:
    """Images and labels; of the training rows a random part, at most 3,000 test rows."""

    def part(name: str, chance: int, most: int) -> Rows:
        file = folder / f"{name}.npz"
        stored = np.load(file)
        chosen = np.random.default_rng(chance).permutation(len(stored["y"]))[:most]
        if "x" in stored:
            return {"image": stored["x"][chosen]}, stored["y"][chosen].astype(str)
        decoded, *_ = decode_all(joined_files(stored["jpg"], stored["offset"], file), None, skip_corrupt=False)
        return {"image": np.stack([decoded[place] for place in chosen])}, stored["y"][chosen].astype(str)

    return part("train", seed, rows), part("test", 0, 3_000)


def drawings(folder: Path, rows: int, seed: int) -> tuple[Rows, Rows]:
    """Images in folders of classes, made 32 x 32 in colour; of the training rows a random part."""

    def part(name: str, most: int) -> Rows:
        (source,) = files.locate(folder / name)
        found = files.read(source, size=(32, 32))
        chosen = np.random.default_rng(seed).permutation(len(found.labels))[:most]
        pixels = uniform(found.images, (32, 32), "rgb", name)
        return {"image": pixels[chosen]}, np.asarray(found.labels)[chosen]

    return part("train", rows), part("test", 3_000)


def questions(folder: Path, rows: int, seed: int) -> tuple[Rows, Rows]:
    """Images with a question each, and answers; of the training rows a random part, at most 3,000 test rows."""

    def part(name: str, chance: int, most: int) -> Rows:
        table, pictures = tables.read(folder / f"{name}.jsonl.gz"), np.load(folder / f"{name}_images.npz")["x"]
        chosen = np.random.default_rng(chance).permutation(table.rows)[:most]
        asked, answers = (np.asarray(table[column], object)[chosen] for column in ("question", "answer"))
        return {"image": pictures[np.asarray(table["image"], np.int64)[chosen]], "text": asked}, answers.astype(str)

    return part("train", seed, rows), part("test", 0, 3_000)


def sets(data: Path | None, seed: int, count: int) -> dict[str, Callable[[], tuple[Rows, Rows]]]:
    """Name of a set -> its training and test rows; of training rows at most so many where ``data`` has the set."""
    cancer, digits = load_breast_cancer(), load_digits()
    found: dict[str, Callable[[], tuple[Rows, Rows]]] = {
        "breast_cancer": lambda: halves(cancer.data, cancer.target, "value", seed),
        "digits": lambda: halves((digits.images * 15).astype(np.uint8), digits.target, "image", seed),
    }
    if data is not None:
        for name in ("trec", "sst2", "mr", "r8"):
            found[name] = partial(texts, data / name, count, seed)
        for name in IMAGES:
            found[name] = partial(images, data / name, count, seed)
        for name in (one for one in UNSEEN if (data / one).exists()):
            found[name] = partial(drawings, data / name, count, seed)
        found["easy_vqa"] = partial(questions, data / "easy_vqa", count, seed)
    return found


def rivals(train: Rows, test: Rows, seconds: float) -> dict[str, tuple[NDArray[np.str_], float]]:
    """Answers of each rival to the test rows, and the seconds of its tuning and training."""
    names = list(train[0])
    first = train[0][names[0]]
    found = {"logistic regression": logistic(train, test)}
    boosted = HistGradientBoostingClassifier(random_state=0)
    if {"image", "text"} & set(names):
        found[_called(names)] = _plain_network(train, test[0], seconds)
    if "text" in names:
        return found
    if first.ndim > 2:
        small, other = (_pooled(rows[0][names[0]]) for rows in (train, test))
        found["boosting"] = _boosted(boosted, small, train[1], other)
        return found
    shown, judged = (np.stack([rows[0][name] for name in names], axis=1) for rows in (train, test))
    found["boosting"] = _boosted(boosted, shown, train[1], judged)
    return found


def logistic(train: Rows, test: Rows) -> tuple[NDArray[np.str_], float]:
    """Answers of logistic regression to the test rows, and the seconds of its tuning and training."""
    names = list(train[0])
    first = train[0][names[0]]
    linear = LogisticRegression(max_iter=300)
    if {"image", "text"} <= set(names):
        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=2_000).fit(train[0]["text"])
        both = (
            np.hstack([words.transform(rows[0]["text"]).toarray(), _pooled(rows[0]["image"]) / 255])
            for rows in (train, test)
        )
        return _searched(linear, {"C": [0.03, 0.3, 3]}, next(both), train[1], next(both))
    if first.dtype == object:
        model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), linear)
        return _searched(model, {"logisticregression__C": [1, 10, 100]}, first, train[1], test[0][names[0]])
    if first.ndim > 2:
        shown, judged = (rows[0][names[0]].reshape(len(rows[1]), -1) / 255 for rows in (train, test))
        return _searched(linear, {"C": [0.03, 0.3, 3]}, shown, train[1], judged)
    shown, judged = (np.stack([rows[0][name] for name in names], axis=1) for rows in (train, test))
    model = make_pipeline(StandardScaler(), linear)
    return _searched(model, {"logisticregression__C": [0.1, 1, 10]}, shown, train[1], judged)


def _searched(model: Any, grid: Any, shown: Any, answers: Any, judged: Any) -> tuple[NDArray[np.str_], float]:
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = GridSearchCV(model, grid, cv=FOLDS).fit(shown, answers)
    return np.asarray(best.predict(judged)), time.monotonic() - began


def _boosted(model: Any, shown: Any, answers: Any, judged: Any) -> tuple[NDArray[np.str_], float]:
    return _searched(model, {"learning_rate": [0.03, 0.1, 0.3]}, shown, answers, judged)


def _pooled(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Means of squares of pixels, until a side has 16 or fewer, as rows."""
    values = pixels.reshape(*pixels.shape[:3], -1).astype(np.float64)
    while values.shape[1] > 16:
        values = values[:, : values.shape[1] // 2 * 2, : values.shape[2] // 2 * 2]
        values = (values[:, ::2, ::2] + values[:, 1::2, ::2] + values[:, ::2, 1::2] + values[:, 1::2, 1::2]) / 4
    return values.reshape(len(values), -1)


def _called(names: Sequence[str]) -> str:
    return " and ".join(word for column, word in (("image", "cnn"), ("text", "gru")) if column in names)


def _plain_network(train: Rows, judged: dict[str, Any], seconds: float) -> tuple[NDArray[np.str_], float]:
    began = time.monotonic()
    names, places = np.unique(train[1], return_inverse=True)
    known: dict[str, int] = {}
    inputs = [_tensors(columns, known, grow=grow) for columns, grow in ((train[0], True), (judged, False))]
    y = torch.from_numpy(places)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(y)))
    held, rest = order[: len(y) // 5], order[len(y) // 5 :]

    def some(parts: dict[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
        return {name: tensor[rows] for name, tensor in parts.items()}

    best: tuple[float, Any] = (-1.0, None)
    for rate in (3e-4, 1e-3, 3e-3):
        torch.manual_seed(0)
        net = PlainNetwork(inputs[0], len(known) + 2, len(names))
        optimizer = torch.optim.AdamW(net.parameters(), rate)
        ends = time.monotonic() + seconds / 3
        while time.monotonic() < ends:
            net.train()
            for rows in rest[torch.randperm(len(rest))].split(BATCH):
                loss = nn.functional.cross_entropy(net(some(inputs[0], rows)), y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            net.eval()
            with torch.no_grad():
                right = float((net(some(inputs[0], held)).argmax(1) == y[held]).float().mean())
                if right > best[0]:
                    parts = torch.arange(len(next(iter(inputs[1].values())))).split(500)
                    best = (right, torch.cat([net(some(inputs[1], rows)).argmax(1) for rows in parts]).numpy())
    return names[best[1]], time.monotonic() - began


def _tensors(columns: dict[str, Any], known: dict[str, int], *, grow: bool) -> dict[str, Tensor]:
    """Pixels (N, C, H, W) in [0, 1]; words (N, WORDS) as numbers, 0 = none, 1 = unknown."""
    found = {}
    if "image" in columns:
        pixels = columns["image"]
        found["image"] = torch.from_numpy(pixels.reshape(*pixels.shape[:3], -1)).permute(0, 3, 1, 2) / 255
    if "text" in columns:
        words = [re.findall(r"\w+|[^\w\s]", text.lower())[:WORDS] for text in columns["text"]]
        for word in (one for row in words for one in row if grow):
            known.setdefault(word, len(known) + 2)
        numbers = np.zeros((len(words), max(map(len, words))), np.int64)
        for place, row in enumerate(words):
            numbers[place, : len(row)] = [known.get(word, 1) for word in row]
        found["text"] = torch.from_numpy(numbers)
    return found


class PlainNetwork(nn.Module):
    """Convolutions of an image, a GRU over the words of a text, and one linear map of both."""

    def __init__(self, inputs: dict[str, Tensor], words: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = inputs["image"].shape[1] if "image" in inputs else 0
        for width in (32, 64, 128) if channels else ():
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
            channels = width
        self.image = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()) if channels else None
        self.words = nn.Embedding(words, 64, padding_idx=0) if "text" in inputs else None
        self.text = nn.GRU(64, 64, batch_first=True, bidirectional=True)
        self.head = nn.Linear(channels + (128 if self.words is not None else 0), classes)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Logits (B, classes)."""
        parts = [self.image(inputs["image"])] if self.image is not None else []
        if self.words is not None:
            there = (inputs["text"] > 0)[:, :, None]
            states = self.text(self.words(inputs["text"]))[0].masked_fill(~there, -1e4)
            parts.append(states.amax(1))
        logits: Tensor = self.head(torch.cat(parts, 1))
        return logits


def measured(train: Rows, test: Rows, seconds: float, seed: int, *, without_root: bool) -> dict[str, Any]:
    """One set: accuracy of all, and the paired difference of ``fit`` to the best rival on the test rows.

    Args:
        train, test: The rows.
        seconds: Time of each fit.
        seed: Seed of the fits.
        without_root: Whether ``fit`` without the package's root is the rival, and the only one.
    """
    others = {} if without_root else rivals(train, test, seconds)
    if without_root:
        plain, spent = _fitted(train, seconds, seed, towers=())
        others[f"fit without the root ({plain.name})"] = np.asarray(plain.predict(test[0])), spent
    model, spent = _fitted(train, seconds, seed)
    ours = np.asarray(model.predict(test[0]))
    accuracies = {name: float((answers == test[1]).mean()) for name, (answers, _) in others.items()}
    best = max(accuracies, key=lambda name: accuracies[name])
    right = np.zeros(len(ours), np.int64)
    gap = difference(
        METRICS["accuracy"], (ours != test[1]).astype(np.int64), (others[best][0] != test[1]).astype(np.int64), right
    )
    return {
        "train": len(train[1]),
        "test": len(test[1]),
        "fit": float((ours == test[1]).mean()),
        "chosen": model.name,
        "seconds": spent,
        "rivals": {name: {"accuracy": accuracies[name], "seconds": others[name][1]} for name in others},
        "best_rival": best,
        "difference": [gap.value, gap.low, gap.high],
    }


def _fitted(train: Rows, seconds: float, seed: int, **more: Any) -> tuple[evodevo.FittedModel, float]:
    """A fit, and the seconds that it took."""
    began = time.monotonic()
    model = evodevo.fit({**train[0], "label": train[1]}, "label", time_limit=seconds, seed=seed, **more)
    return model, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=None, help="folder of data sets; scikit-learn's own if left out")
    parser.add_argument("--seconds", type=float, default=60.0, help="time of each fit")
    parser.add_argument("--sets", nargs="+", default=None, help="names; all that there are if left out")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=2_000, help="training rows of each set of the folder")
    parser.add_argument("--without-root", action="store_true", help="compare with fit without the package's root alone")
    parser.add_argument("--json", type=Path, required=True, help="file of the results; what is in it is not repeated")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.json.read_text()) if options.json.exists() else {}
    results["machine"] = surroundings()
    for seed in range(options.seeds):
        every = sets(options.data, seed, options.rows)
        for name in options.sets or every:
            key = f"{name}/{seed}/{options.seconds:g}/{options.rows}" + "/root" * options.without_root
            if key not in results:
                results[key] = measured(*every[name](), options.seconds, seed, without_root=options.without_root)
                options.json.write_text(json.dumps(results, indent=1))
            row = results[key]
            value, low, high = row["difference"]
            others = ", ".join(f"{rival} {found['accuracy']:.3f}" for rival, found in row["rivals"].items())
            print(
                f"{key}: fit {row['fit']:.3f} ({row['chosen']}); {others}; {value:+.3f} ({low:+.3f} to {high:+.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
