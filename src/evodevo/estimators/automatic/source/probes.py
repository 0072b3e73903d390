"""Rows that are drawn, the same everywhere, on which the export of a model without rows of its own is verified."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evodevo.randomness import generator
from evodevo.tasks.rows.columns import ISO, Column
from evodevo.tasks.rows.samples import RowReading
from evodevo.tasks.rows.sources import Rows

COUNT = 50
GONE = 0.1
"""Fraction of the cells that are missing values."""
LONGEST = 12
"""Largest number of known terms in a text."""
_BEGIN = datetime.datetime(1990, 1, 1)
_DAYS = 15_000


def drawn(reading: RowReading, facts: Mapping[str, Any]) -> Rows:
    """Rows with a cell in every column that a model reads; numbers have different magnitudes.

    Args:
        reading: Columns of the model.
        facts: Facts of the model; texts are made of the terms in them.
    """
    known = sorted(set(_terms(facts)))
    cells: dict[str, list[str]] = {}
    pixels = {}
    shapes = iter(reading.shapes)
    for column in reading.columns:
        rng = generator(0, "probes", column.name)
        if column.kind == "image":
            pixels[column.name] = rng.integers(0, 256, (COUNT, *next(shapes))).astype(np.uint8)
        elif column.kind != "ignored":
            gone = rng.random(COUNT) < GONE
            cells[column.name] = ["" if missing else _cell(column, known, rng) for missing in gone]
    return Rows("drawn rows", COUNT, cells, pixels, Path.cwd())


def _terms(facts: Any) -> Iterator[str]:
    """All terms and words that a model's facts hold."""
    if isinstance(facts, Mapping):
        for name, value in facts.items():
            if name in ("terms", "words") and isinstance(value, (list, tuple)):
                yield from (term for term in value if isinstance(term, str))
            yield from _terms(value)
    elif isinstance(facts, (list, tuple)):
        for value in facts:
            if isinstance(value, (Mapping, list, tuple)):
                yield from _terms(value)


def _cell(column: Column, known: list[str], rng: np.random.Generator) -> str:
    if column.kind == "number":
        return repr(_number(rng))
    if column.kind == "vector":
        return json.dumps([_number(rng) for _ in range(column.size)])
    if column.kind == "date":
        moment = _BEGIN + datetime.timedelta(days=int(rng.integers(_DAYS)), minutes=int(rng.integers(1440)))
        return moment.isoformat() if column.form == ISO else moment.strftime(column.form)
    if column.kind == "category":
        values = (*column.values, "a value that training did not have")
        return values[int(rng.integers(len(values)))]
    chosen = rng.choice(known, int(rng.integers(1, LONGEST))).tolist() if known else []
    return " ".join([*chosen, "unknownword!"])


def _number(rng: np.random.Generator) -> float:
    return float(rng.normal() * 10.0 ** rng.integers(-2, 4))
