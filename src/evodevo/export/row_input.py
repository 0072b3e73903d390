"""Rows of a table as the input of an exported network: vectors of numbers whose meaning is written beside it.

Shapes: B samples, G numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.export.base import SampleInput
from evodevo.randomness import generator
from evodevo.tasks.cell_values import MISSING

_TABLE = '''\
import csv
import datetime
import io
import json
import re
import sys

import torch

{load}
MISSING = {missing}
COMMA = re.compile(r"[+-]?(\\d{{1,3}}(\\.\\d{{3}})+|\\d+)(,\\d+)?")


def numbers(column, cell):
    """The numbers of a cell; None where they are missing."""
    try:
        if column["kind"] == "number":
            value = float(cell)
            return [value if abs(value) < 3e38 else None]
        if column["kind"] == "vector":
            values = json.loads(cell)
            return values if len(values) == column["numbers"] else [None] * column["numbers"]
        iso = column["form"] == "ISO 8601"
        day = datetime.datetime.fromisoformat(cell) if iso else datetime.datetime.strptime(cell, column["form"])
    except ValueError:
        return [None] * column["numbers"]
    day = day.replace(tzinfo=None)
    hour = day.hour + day.minute / 60 + day.second / 3600
    return [(day - datetime.datetime(1970, 1, 1)).total_seconds() / 86400, day.month, day.weekday(), hour]


def vector(row):
    """A row, column -> text, as the numbers that the model reads."""
    found, codes = [], []
    for column in spec["input"]["columns"]:
        cell = (row.get(column["name"]) or "").strip()
        missing = cell.lower() in MISSING
        if column["kind"] == "category":
            codes += [missing, not missing and cell not in column["values"]]
            codes += [not missing and cell == value for value in column["values"]]
        else:
            found += [None] * column["numbers"] if missing else numbers(column, cell)
    return [float(one or 0) for one in found] + [float(one is None) for one in found] + list(map(float, codes))


def table(text):
    """Rows, column -> text, separated by commas, semicolons or tabs; without commas, decimal commas become points."""
    header = re.sub('"[^"]*"', "", text.partition("\\n")[0])
    mark = max(",;\\t", key=header.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=mark)
    rows = list(reader)
    for name in (reader.fieldnames or ()) if mark != "," else ():
        cells = [(row[name] or "").strip() for row in rows]
        there = [cell for cell in cells if cell.lower() not in MISSING]
        if any("," in cell for cell in there) and all(COMMA.fullmatch(cell) for cell in there):
            for row, cell in zip(rows, cells):
                row[name] = cell.replace(".", "").replace(",", ".")
    return rows


with open(sys.argv[1], newline="", encoding="utf-8-sig") as file:
    rows = torch.tensor([vector(row) for row in table(file.read())])
with torch.no_grad():
    for number, row in enumerate({call}(rows).softmax(-1), start=1):
        print(number, spec["classes"][int(row.argmax())], round(float(row.max()), 4))
'''


@dataclass(frozen=True)
class RowInput(SampleInput):
    """Vectors (B, G) of finite numbers.

    Attributes:
        size: G.
        names: meaning of each number; empty where nobody has recorded it.
        columns: columns of the table, JSON: name, kind, and what their cells are read by; likewise.
        middle, spread: mean and deviation of the numbers in the training samples, for probes that are like them.
    """

    size: int
    names: tuple[str, ...]
    columns: tuple[Mapping[str, Any], ...]
    middle: NDArray[np.float32]
    spread: NDArray[np.float32]

    name = "rows"
    dtype = "float32"
    subject = "rows of a table"
    tag = "tabular-classification"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size,)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "modality": "vector",
            "dtype": self.dtype,
            "shape": [None, self.size],
            "axes": ["samples", "numbers"],
            "numbers": list(self.names),
            "columns": [dict(column) for column in self.columns],
        }

    def probe(self, size: int) -> NDArray[Any]:
        noise = generator(0, size, "probe").normal(size=(size, self.size))
        batch: NDArray[np.float32] = (self.middle + self.spread * noise).astype(np.float32)
        return batch

    def words(self) -> str:
        return (
            f"`rows`: numbers (float32) of shape (samples, {self.size}), as they stand in the table: the model itself"
            " standardises them. First come the numbers, 0 where one is missing, then for each of them 1 where it is"
            " missing and else 0, then one number per value of each category. `spec.json` says what each of them is."
        )

    @property
    def example(self) -> str:
        return f"rows = torch.zeros(4, {self.size})  # your rows, in the order of spec.json"

    def files(self, load: str, call: str) -> Sequence[tuple[str, str]]:
        if not self.columns:
            return ()
        code = _TABLE.format(load=load, call=call, missing=sorted(MISSING))
        return (("Rows of a table: `python classify.py a.csv`", code),)
