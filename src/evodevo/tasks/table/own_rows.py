"""Reading of a user's rows without answers, with the columns, sizes and scaling of the table used for training.

Shapes: B samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, unknown_name
from evodevo.tasks import own_samples
from evodevo.tasks.inputs import Batch, InputSpec
from evodevo.tasks.table import cells as table_cells
from evodevo.tasks.table import tables
from evodevo.tasks.table.images import cropped
from evodevo.tasks.table.preparation import standardise
from evodevo.tasks.table.settings import Columns, TableSettings
from evodevo.tasks.table.sources import RowInputs, part, read_inputs
from evodevo.tasks.table.tables import ColumnTable


@dataclass(frozen=True)
class TableReading:
    """The preparation of the training table, to be repeated on other rows.

    Attributes:
        settings: Settings of the task.
        columns: Columns of the table.
        inputs: Inputs of the task.
        encode: Function from an input and its text to token ids.
        mean: Mean of each number over the training rows, (F,); empty without numbers.
        scale: Standard deviation of each number over the training rows, (F,); empty without numbers.
    """

    settings: TableSettings
    columns: Columns
    inputs: tuple[InputSpec, ...]
    encode: Callable[[str, str], NDArray[np.int64]]
    mean: Sequence[float]
    scale: Sequence[float]


def read_sample(reading: TableReading, columns: Mapping[str, str]) -> Batch:
    """See ``TableTask.read_sample``."""
    given = dict(columns)
    names = [spec.name for spec in reading.inputs]
    crop: own_samples.Crop | None = None
    if "box" in given and "image" in names:
        box = table_cells.box([given.pop("box")])
        crop = None if box is None else lambda whole: cropped(whole, box, columns.get("image", ""))
    for name in given:
        if name not in names:
            raise unknown_name("input", name, [*names, "box"] if "image" in names else names)
    batch = dict(own_samples.read(reading.inputs, given, reading.encode, crop))
    if "vectors" in batch and batch["vectors/present"].any():
        batch["vectors"] = standardise(batch["vectors"], reading.mean, reading.scale)
    return batch


def read_rows(reading: TableReading, path: Path, size: int) -> Iterator[Batch]:
    """See ``TableTask.read_rows``."""
    table = tables.read(path)
    if not any(name in table for name in reading.columns.inputs()):
        tables.check_columns(table, reading.columns.inputs()[:1], path)
    own = _columns_in(table, reading.columns)
    tables.check_columns(table, own.inputs(), path)
    rows = part(path, None, table, own, reading.settings.images)
    shown = read_inputs(_as_learned(reading), own, [rows], settled=True)
    batch: dict[str, NDArray[Any]] = {}
    for spec in reading.inputs:
        batch |= _input(reading, spec, shown, path)
    for start in range(0, len(rows), size):
        yield {name: array[start : start + size] for name, array in batch.items()}


def _as_learned(reading: TableReading) -> TableSettings:
    """The settings, with the size and colour of the training images."""
    for spec in reading.inputs:
        if spec.modality == "image":
            colour = "grey" if spec.channels == 1 else "rgb"
            return reading.settings.model_copy(update={"size": (spec.height, spec.width), "colour": colour})
    return reading.settings


def _input(reading: TableReading, spec: InputSpec, shown: RowInputs, path: Path) -> dict[str, NDArray[Any]]:
    count = len(shown.image)
    here = np.asarray(shown.present().get(spec.name, np.zeros(count, bool)))
    if spec.modality == "image":
        pixels = np.zeros((count, spec.height, spec.width, spec.channels), np.uint8)
        if shown.pixels is not None:
            pixels[here] = shown.pixels[shown.image[here]]
        return {spec.name: pixels, f"{spec.name}/present": here}
    if spec.modality == "tokens":
        texts = shown.texts or [""] * count
        return own_samples.padded(spec, [reading.encode(spec.name, text) for text in texts])
    if shown.vectors is not None and shown.vectors.shape[1] != spec.size:
        raise DataError(f"{path} has vectors of {shown.vectors.shape[1]} numbers, and {spec.size} are wanted.")
    values = np.full((count, spec.size), np.nan, np.float32) if shown.vectors is None else shown.vectors
    return {spec.name: standardise(values, reading.mean, reading.scale), f"{spec.name}/present": here}


def _columns_in(table: ColumnTable, columns: Columns) -> Columns:
    """The columns of inputs that a table has; those of numbers and of boxes are all kept where one of them exists."""
    image = columns.image if columns.image in table else None
    kept = {
        "image": image,
        "box": columns.box if image and any(name in table for name in columns.box) else (),
        "text": columns.text if columns.text in table else None,
        "vectors": columns.vectors if any(name in table for name in columns.vectors) else (),
    }
    return columns.model_copy(update=kept | {"label": None, "match": None, "group": None, "split": None})
