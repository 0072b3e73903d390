"""Predictions of a model that evodevo has fitted: numpy, pillow where there are images, torch where there are networks,
transformers where a pretrained tower reads.

    python predict.py rows.csv > answers.csv

    from predict import Model
    Model().predict([{"column": "value"}, ...])    # of an image its path, or its pixels

``model.json`` and ``arrays.safetensors`` lie beside this file, and ``torch_networks.py`` and ``pretrained_towers.py``
where the model has some.
Values are texts, as in a CSV file; "" is a missing one.
"""

from __future__ import annotations

import collections
import csv
import datetime
import functools
import importlib.util
import io
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

MISSING = {"", "na", "n/a", "nan", "null", "none", "nat", "?", "-", "inf", "-inf", "infinity", "-infinity"}
DECIMAL_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?")
FARTHEST, LINEAR_SIDE, TREE_SIDE, FEW_LEVELS, DIGITS, NETWORK_LEVELS = 10.0, 28, 12, 12, 9, 32
HUGE, FORMULA = 1e30, ("=", "+", "-", "@", "\t", "\r")
WORDS = {"words": r"\b\w+\b", "tokens": r"\w+|[^\w\s]"}
TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}


def read_arrays(path: Path) -> dict[str, Any]:
    """The arrays of a safetensors file by name."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    same = json.loads(header.pop("__metadata__", {}).get("same", "{}"))  # of equal arrays one is stored
    arrays = {}
    for name, facts in header.items():
        begin, end = facts["data_offsets"]
        piece = data[8 + size + begin : 8 + size + end]
        arrays[name] = np.frombuffer(piece, TYPES[facts["dtype"]]).reshape(facts["shape"])
    return {**arrays, **{name: arrays[first] for name, first in same.items()}}


class PlainSamples:
    """Rows as arrays: numbers (n, F), codes of categories (n, K), texts and images by column."""

    def __init__(self, reading: dict[str, Any], rows: list[dict[str, str]], folder: Path) -> None:
        self.count = len(rows)
        numbers, codes, self.texts, self.images, self.present = [], [], [], [], []
        shapes = iter(reading["shapes"])
        for column in reading["columns"]:
            cells: list[Any] = ["" if (cell := row.get(column["name"])) is None else cell for row in rows]
            kind = column["kind"]
            if kind in ("number", "date", "vector"):
                numbers.append([_numbers(cell.strip(), column) for cell in cells])
            elif kind == "category":
                place = {value: number for number, value in enumerate(column["values"], start=2)}
                codes.append([0 if cell.strip().lower() in MISSING else place.get(cell.strip(), 1) for cell in cells])
            elif kind == "text":
                self.texts.append(cells)
            elif kind == "image":
                shape = next(shapes)
                self.images.append(np.stack([_image(cell, shape, folder) for cell in cells]))
                self.present.append(np.asarray([not isinstance(cell, str) or bool(cell.strip()) for cell in cells]))
        empty = np.zeros((self.count, 0))
        self.numbers = np.concatenate(
            [np.asarray(part, float).reshape(self.count, -1) for part in [*numbers, empty]], 1
        )
        self.codes = np.asarray(codes, int).reshape(len(codes), self.count).T
        self.levels = [2 + len(column["values"]) for column in reading["columns"] if column["kind"] == "category"]

    def rows(self, begin: int, end: int) -> PlainSamples:
        """Some of the samples."""
        part = object.__new__(PlainSamples)
        part.count = min(end, self.count) - begin
        part.numbers, part.codes, part.levels = self.numbers[begin:end], self.codes[begin:end], self.levels
        part.texts = [cells[begin:end] for cells in self.texts]
        part.images = [pixels[begin:end] for pixels in self.images]
        part.present = [there[begin:end] for there in self.present]
        return part


def _numbers(cell: str, column: dict[str, Any]) -> list[float]:
    if column["kind"] == "number":
        return [math.nan if cell.lower() in MISSING else _number(cell)]
    if column["kind"] == "vector":
        try:
            values = json.loads(cell)
            found = [math.nan if value is None else _number(str(value)) for value in values]
        except (ValueError, TypeError):
            found = []
        return found if len(found) == column["size"] else [math.nan] * column["size"]
    try:
        if column["form"] == "ISO 8601":
            moment = datetime.datetime.fromisoformat(cell)
        else:
            moment = datetime.datetime.strptime(cell, column["form"])
    except ValueError:
        return [math.nan] * 4
    plain = moment.replace(tzinfo=None)
    days = (plain - datetime.datetime(1970, 1, 1)).total_seconds() / 86_400
    hour = plain.hour + plain.minute / 60 + plain.second / 3600
    return [days, plain.month, plain.weekday(), hour]


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if abs(value) < 3e38 else math.nan


def _image(given: Any, shape: list[int], folder: Path) -> Any:
    """Pixels (height, width, channels) of a file or of an array, black where there is none."""
    if not isinstance(given, str):
        pixels = np.asarray(given, np.uint8)
        return _fitting(pixels if pixels.ndim == 3 else pixels[..., None], shape)
    if not given.strip():
        return np.zeros(shape, np.uint8)
    from PIL import Image, ImageOps

    data = (folder / given.strip()).read_bytes()
    if data[8:12] == b"WAVE":
        return _fitting(_beside("sounds").picture(data, given), shape)
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if picture.mode.startswith("I"):
        pixels = (np.asarray(picture, np.int64).clip(0, 65_535) // 257).astype(np.uint8)[..., None]
    elif picture.mode in ("1", "L"):
        pixels = np.asarray(picture.convert("L"))[..., None]
    else:
        if picture.has_transparency_data:
            layered = picture.convert("RGBA")
            picture = Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered)
        pixels = np.asarray(picture.convert("RGB"))
    return _fitting(pixels, shape)


def _fitting(pixels: Any, shape: list[int]) -> Any:
    """Pixels of the wanted height, width and number of channels."""
    pixels = _resized(pixels, shape[0], shape[1])
    if pixels.shape[2] < shape[2]:
        return np.repeat(pixels, 3, axis=2)
    if pixels.shape[2] > shape[2]:
        return np.rint(pixels @ np.asarray([0.299, 0.587, 0.114])).astype(np.uint8)[..., None]
    return pixels


def _resized(pixels: Any, height: int, width: int) -> Any:
    if pixels.shape[:2] == (height, width):
        return pixels
    from PIL import Image

    size, how = (width, height), Image.Resampling.BILINEAR
    planes = [Image.fromarray(pixels[..., place]).resize(size, how) for place in range(pixels.shape[2])]
    return np.stack([np.asarray(plane) for plane in planes], axis=-1)


def _flat(images: Any, side: int) -> Any:
    """Brightness 0 to 1 of all pixels, (n, pixels), of images made smaller than ``side``."""
    shrink = side / max(images.shape[1:3])
    if shrink < 1:
        height, width = (max(1, round(length * shrink)) for length in images.shape[1:3])
        images = np.stack([_resized(image, height, width) for image in images])
    return images.reshape(len(images), -1) / 255


def tf_idf(terms: dict[str, Any], text: str) -> dict[int, float]:
    """Place of a term -> its weight in a text: (1 + log count) times its rarity, all of length 1."""
    if "place" not in terms:
        terms["place"] = {term: number for number, term in enumerate(terms["terms"])}
    counts: dict[int, int] = collections.Counter()
    for term in _terms(terms["unit"], terms["longest"], text.lower()):
        if term in terms["place"]:
            counts[terms["place"][term]] += 1
    values = {place: (1 + math.log(count)) * terms["weights"][place] for place, count in counts.items()}
    length = math.sqrt(sum(value**2 for value in values.values())) or 1.0
    return {place: value / length for place, value in values.items()}


def _terms(unit: str, longest: int, text: str) -> Any:
    if unit in WORDS:
        words = re.findall(WORDS[unit], text)
        for size in range(1, longest + 1):
            for begin in range(len(words) - size + 1):
                yield " ".join(words[begin : begin + size])
        return
    for word in text.split():
        padded = f" {word} "
        for size in range(2, longest + 1):
            yield padded[:size]
            for begin in range(1, len(padded) - size + 1):
                yield padded[begin : begin + size]
            if len(padded) <= size:
                break  # a word that is shorter than the term counts once


def _linear_features(features: dict[str, Any], samples: PlainSamples) -> Any:
    """Features (n, D) without those of texts."""
    gone = np.isnan(samples.numbers)
    scaled = (samples.numbers - np.asarray(features["means"])) / np.asarray(features["deviations"])
    parts = [np.where(gone, 0, scaled).clip(-FARTHEST, FARTHEST), gone[:, features["gaps"]].astype(float)]
    parts += [np.eye(size)[samples.codes[:, place]] for place, size in enumerate(features["levels"])]
    parts += [_flat(images, LINEAR_SIDE) for images in samples.images]
    return np.concatenate([part.reshape(samples.count, -1) for part in parts], axis=1)


def _linear(facts: dict[str, Any], arrays: dict[str, Any], samples: PlainSamples) -> Any:
    dense = _linear_features(facts["features"], samples)
    weights = arrays["weights"]
    outputs = dense @ weights[: dense.shape[1]] + arrays["bias"]
    begin = dense.shape[1]
    for every, cells in zip(facts["features"]["terms"], samples.texts, strict=True):
        for terms in every:
            for row, text in enumerate(cells):
                for place, value in tf_idf(terms, text).items():
                    outputs[row] += value * weights[begin + place]
            begin += len(terms["terms"])
    return _probabilities(outputs, facts["link"])


def _trees(facts: dict[str, Any], arrays: dict[str, Any], samples: PlainSamples) -> Any:
    features = facts["features"]
    parts = [samples.numbers]
    for place, size in enumerate(features["levels"]):
        codes = samples.codes[:, place]
        parts.append(np.eye(size)[codes] if size <= FEW_LEVELS else codes[:, None].astype(float))
    for number, (terms, cells) in enumerate(zip(features["terms"], samples.texts, strict=True)):
        components = arrays[f"components_{number}"]
        found = np.zeros((samples.count, components.shape[1]))
        for row, text in enumerate(cells):
            for place, value in tf_idf(terms, text).items():
                found[row] += value * components[place]
        parts += [
            np.round(found, DIGITS),
            np.asarray([[np.log1p(len(text.split())), np.log1p(len(text))] for text in cells]),
        ]
    parts += [_flat(images, TREE_SIDE) for images in samples.images]
    table = np.concatenate([part.reshape(samples.count, -1) for part in parts], axis=1)
    if "fill" in arrays:
        table = np.where(np.isnan(table), arrays["fill"], table).astype(np.float32).astype(float)
    outputs = np.zeros((samples.count, facts["outputs"]))
    for root, target in zip(arrays["roots"], arrays["target"], strict=True):
        values = arrays["value"][_leaves(arrays, table, int(root))]
        if target < 0:
            outputs += values
        else:
            outputs[:, int(target)] += values[:, 0]
    if facts["link"] == "mean":
        return outputs / len(arrays["roots"])
    return _probabilities(outputs + arrays["start"], facts["link"])


def _leaves(arrays: dict[str, Any], table: Any, root: int) -> Any:
    """Number of the leaf that each row ends in."""
    nodes, rows = np.full(len(table), root), np.arange(len(table))
    while len(rows):
        rows = rows[arrays["feature"][nodes[rows]] >= 0]
        at = nodes[rows]
        asked = table[rows, arrays["feature"][at]]
        left = np.where(np.isnan(asked), arrays["missing_left"][at] == 1, asked <= arrays["threshold"][at])
        nodes[rows] = np.where(left, arrays["left"][at], arrays["right"][at])
    return nodes


def _neighbours(facts: dict[str, Any], arrays: dict[str, Any], samples: PlainSamples) -> Any:
    table = _linear_features(facts["features"], samples).astype(np.float32).astype(float)
    stored, count = arrays["stored"].astype(float), facts["neighbours"]
    distances = (stored**2).sum(1) - 2 * table @ stored.T + (table**2).sum(1, keepdims=True)
    chosen = np.argpartition(distances, count - 1, axis=1)[:, :count]
    near = np.sqrt(np.maximum(np.take_along_axis(distances, chosen, 1), 0))
    weights = 1 / (near + near.mean(1, keepdims=True) * 0.1 + 1e-9)
    weights *= count / weights.sum(1, keepdims=True)
    smoothing = facts.get("smoothing", 0.5)
    votes = (weights[:, :, None] * arrays["answers"][chosen]).sum(1) + smoothing * arrays["shares"]
    return votes / (count + smoothing)


def _mean(facts: dict[str, Any], arrays: dict[str, Any], samples: PlainSamples) -> Any:
    total: Any = 0.0
    for place, part in enumerate(facts["parts"]):
        own = {name.split(".", 1)[1]: array for name, array in arrays.items() if name.startswith(f"{place}.")}
        total = total + part["weight"] * FORMS[part["form"]](part["facts"], own, samples)
    return total


def _tower(facts: dict[str, Any], arrays: dict[str, Any], samples: PlainSamples) -> Any:
    tower, rest = facts["tower"], samples.rows(0, samples.count)
    if "root" in tower:
        reads, found = ["image"], _beside("package_root").numbers(arrays, samples.images, samples.present)
    else:
        reads = tower["reads"]
        found = _beside("pretrained_towers").numbers(tower, samples.texts, samples.images, samples.present)
    rest.numbers = np.concatenate([samples.numbers, *found], axis=1)
    if "tokens" in reads:
        rest.texts = []
    if "image" in reads:
        rest.images, rest.present = [], []
    return FORMS[facts["form"]](facts["facts"], arrays, rest)


def _constant(facts: dict[str, Any], arrays: dict[str, Any], samples: PlainSamples) -> Any:
    return np.tile(arrays["shares"], (samples.count, 1))


def _network(facts: dict[str, Any], arrays: dict[str, Any], samples: PlainSamples) -> Any:
    own = facts["network"]
    outputs = _beside("torch_networks").logits(own, arrays, _network_inputs(own["reading"], facts["levels"], samples))
    if own["kind"] == "quantity":
        return outputs * own["scale"]["deviation"] + own["scale"]["mean"]
    return _probabilities(outputs, "sigmoid" if own["kind"] == "labels" else "softmax")


@functools.cache
def _beside(name: str) -> Any:
    """A module that lies beside this file, also where the folder is not on Python's path."""
    spec = importlib.util.spec_from_file_location(f"{__name__}_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _network_inputs(reading: dict[str, Any], levels: list[int], samples: PlainSamples) -> dict[str, Any]:
    """Pixels; ids of words in order and weights of terms, filled up with zeros; scaled numbers. And what is there."""
    given: dict[str, Any] = {}
    if reading["image"]:
        given |= {"image": samples.images[0], "image/present": samples.present[0]}
    if reading["text"]:
        texts = [" ".join(part for part in row if part) for row in zip(*samples.texts, strict=True)]
        place = {word: number for number, word in enumerate(reading["text"]["words"], start=2)}
        tokens = np.zeros((samples.count, reading["text"]["length"]), np.int64)
        every = [sorted(tf_idf(reading["text"]["terms"], text).items()) for text in texts]
        terms = np.zeros((samples.count, max([1, *map(len, every)])), np.int64)
        weights = np.zeros(terms.shape, np.float32)
        for row, (text, found) in enumerate(zip(texts, every, strict=True)):
            ids = [place.get(word, 1) for word in re.findall(WORDS["tokens"], text.lower())][: tokens.shape[1]]
            tokens[row, : len(ids)] = ids
            terms[row, : len(found)] = [number + 1 for number, _ in found]
            weights[row, : len(found)] = [value for _, value in found]
        mask = tokens > 0
        given |= {"text": tokens, "text/mask": mask, "text/present": mask.any(1)}
        given |= {"terms": terms, "terms/weight": weights}
    if reading["numbers"]:
        parts = [samples.numbers]
        for number, size in enumerate(levels):
            most = min(size, NETWORK_LEVELS)
            parts.append(np.eye(most)[np.minimum(samples.codes[:, number], most - 1)])
        given["vectors"] = _scaled(reading["numbers"], np.concatenate(parts, axis=1))
    return given


def _scaled(reading: dict[str, Any], numbers: Any) -> Any:
    finite, centre = numbers.clip(-HUGE, HUGE), np.asarray(reading["centre"])
    missing = np.isnan(finite)
    x = ((np.where(missing, centre, finite) - centre) * np.asarray(reading["scale"])).clip(-HUGE, HUGE)
    return np.concatenate([x / np.sqrt(1 + (x / 3) ** 2), missing[:, reading["indicated"]]], 1).astype(np.float32)


FORMS = {
    "linear": _linear,
    "trees": _trees,
    "neighbours": _neighbours,
    "network": _network,
    "mean": _mean,
    "tower": _tower,
    "constant": _constant,
}


def _probabilities(outputs: Any, link: str) -> Any:
    if link == "identity":
        return outputs
    if link == "softmax":
        raised = np.exp(outputs - outputs.max(1, keepdims=True))
        return raised / raised.sum(1, keepdims=True)
    small = np.exp(-np.abs(outputs))
    yes = np.where(outputs >= 0, 1.0, small) / (1.0 + small)
    return yes if link == "sigmoid" else np.concatenate([1 - yes, yes], axis=1)


class Model:
    """The model in a folder.

    Args:
        folder: Folder with ``model.json`` and ``arrays.safetensors``; that of this file if left out.
    """

    def __init__(self, folder: str | Path = Path(__file__).parent) -> None:
        self.about = json.loads((Path(folder) / "model.json").read_text(encoding="utf-8"))
        self.arrays = read_arrays(Path(folder) / "arrays.safetensors")
        self.names: list[str] = self.about["targets"]["names"]

    def predict_proba(self, rows: list[dict[str, str]], folder: str | Path = ".") -> Any:
        """Probabilities (n, classes or labels) of rows; paths of images begin in ``folder``."""
        if self.about["targets"]["kind"] == "quantity":
            raise ValueError("a quantity has no probabilities; use predict")
        return self.answers(rows, folder)

    def answers(self, rows: list[dict[str, str]], folder: str | Path = ".") -> Any:
        """Probabilities of rows, or the values of a quantity, (n, 1)."""
        samples = PlainSamples(self.about["reading"], rows, Path(folder))
        parts = [
            FORMS[self.about["form"]](self.about["facts"], self.arrays, samples.rows(begin, begin + 256))
            for begin in range(0, len(rows), 256)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.names)))

    def predict(self, rows: list[dict[str, str]], folder: str | Path = ".") -> list[Any]:
        """The class of each row, the labels that apply, or the value of a quantity."""
        return self.decided(self.answers(rows, folder))

    def decided(self, chances: Any) -> list[Any]:
        """The decisions that probabilities (n, classes or labels) give, or values (n, 1)."""
        if self.about["targets"]["kind"] == "quantity":
            return list(map(float, chances[:, 0]))
        if self.about["targets"]["kind"] == "labels":
            return [[name for name, value in zip(self.names, row, strict=True) if value > 0.5] for row in chances]
        if self.about["metric"] == "balanced_accuracy":
            chances = chances / np.maximum(self.about["shares"], 1e-7)
        return [self.names[place] for place in chances.argmax(1)]


def _cell(value: Any) -> Any:
    """A text that begins like a formula gets an apostrophe, so that no spreadsheet computes it; numbers stay."""
    if not isinstance(value, str) or not value.lstrip(" ").startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _table(text: str) -> list[dict[str, str]]:
    """Rows, column -> text, separated by commas, semicolons or tabs; without commas, decimal commas become points."""
    header = re.sub('"[^"]*"', "", text.partition("\n")[0])
    mark = max(",;\t", key=header.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=mark)
    rows = list(reader)
    for name in (reader.fieldnames or ()) if mark != "," else ():
        cells = [(row[name] or "").strip() for row in rows]
        there = [cell for cell in cells if cell.lower() not in MISSING]
        if any("," in cell for cell in there) and all(map(DECIMAL_COMMA.fullmatch, there)):
            for row, cell in zip(rows, cells, strict=True):
                row[name] = cell.replace(".", "").replace(",", ".")
    return rows


def main() -> None:
    with open(sys.argv[1], newline="", encoding="utf-8-sig") as file:
        rows = _table(file.read())
    model, folder = Model(), Path(sys.argv[1]).absolute().parent
    writer = csv.writer(sys.stdout)
    quantity = model.about["targets"]["kind"] == "quantity"
    writer.writerow(["answer", *([] if quantity else (f"probability of {name}" for name in model.names))])
    chances = model.answers(rows, folder)
    for answer, row in zip(model.decided(chances), chances[:, :0] if quantity else chances, strict=True):
        writer.writerow([_cell("|".join(answer) if isinstance(answer, list) else answer), *map(float, row)])


if __name__ == "__main__":
    main()
