"""Rows of a user's data, whatever form they are given in: a file, a folder with one folder per class, columns.

Legend: n rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, UsageError, unknown_name
from evodevo.tasks.cell_values import text_of
from evodevo.tasks.images.arrays import as_pixels, is_arrays, open_arrays
from evodevo.tasks.images.pixels import Pixels
from evodevo.tasks.table import rows as table_rows
from evodevo.tasks.table import tables
from evodevo.tasks.table.folder import LABEL, columns_of
from evodevo.tasks.text import corpus

FORMS = (
    "a .csv, .jsonl or .npz file (also .gz, .xz), a .parquet file, a folder with one folder of images or .txt files "
    "per class, a data frame, or a mapping of columns"
)


@dataclass(frozen=True)
class Rows:
    """Rows as columns.

    Attributes:
        source: Name of the source, for messages.
        count: n.
        cells: Column -> n texts, empty where a value is missing.
        pixels: Column -> n images, (n, height, width, channels).
        folder: Folder that relative paths of images begin in; None where there is none.
    """

    source: str
    count: int
    cells: Mapping[str, Sequence[str]]
    pixels: Mapping[str, Pixels] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns, in order."""
        return (*self.cells, *self.pixels)

    def unknown(self, name: str) -> UsageError:
        """The error for a column that is not among them."""
        return unknown_name("column", name, self.names)

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """Some of the rows, in this order."""
        cells = {name: [column[row] for row in rows.tolist()] for name, column in self.cells.items()}
        return replace(self, count=len(rows), cells=cells, pixels={key: px[rows] for key, px in self.pixels.items()})

    def with_cells(self, values: Collection[str], names: Sequence[str]) -> NDArray[np.bool_]:
        """Which rows have one of some values in one of some columns, (n,)."""
        wanted = frozenset(values)
        cells = [self.cells[name] for name in names if name in self.cells]
        return np.asarray([any(cell in wanted for cell in row) for row in zip(*cells, strict=True)], np.bool_)


def is_file_of_rows(path: Path) -> bool:
    """Whether a file is called as one of those that ``read`` takes."""
    return is_arrays(path) or corpus.suffixes(path)[0] in table_rows.READABLE


def read(data: Any, label: Sequence[str] = ()) -> Rows:
    """Read data of any form.

    Args:
        data: See ``FORMS``; rows that were read stay as they are.
        label: Label columns. A folder's classes take the name of the first one, ``label`` where there is none.

    Raises:
        DataError: The data are missing, unreadable, or have no rows.
        UsageError: Data of another form, or columns of unequal lengths.
    """
    if isinstance(data, Rows):
        return data
    if isinstance(data, (str, Path)):
        path = Path(data)
        if path.is_dir():
            return _folder(path, label[0] if label else LABEL)
        if is_arrays(path) and path.is_file():
            arrays = open_arrays(path)
            return _columns(arrays, str(path))
        table = tables.read(path)
        return Rows(str(path), table.rows, table.some(table), folder=path.absolute().parent)
    columns = _of_frame(data)
    if columns is None:
        raise UsageError(f"data of type {type(data).__name__} cannot be read; give {FORMS}.")
    return _columns(columns, f"the {type(data).__name__}")


def _of_frame(data: Any) -> dict[str, Any] | None:
    """The columns of a data frame or mapping; None for anything else."""
    if isinstance(data, Mapping):
        return {str(name): data[name] for name in data}
    names = getattr(data, "columns", None)
    if names is None or not hasattr(data, "__getitem__"):
        return None
    texts = [str(name) for name in names]
    if len(set(texts)) != len(texts):
        raise UsageError(f"the data frame has columns of equal names: {sorted(texts)}.")
    return {text: data[name] for text, name in zip(texts, names, strict=True)}


def _columns(columns: Mapping[str, Any], source: str) -> Rows:
    cells: dict[str, list[str]] = {}
    pixels: dict[str, Pixels] = {}
    for name, values in columns.items():
        array = values if isinstance(values, np.ndarray) else None
        if array is not None and array.ndim in (3, 4):
            pixels[name] = as_pixels(array, f"{source}: {name!r}")
        elif array is not None and array.ndim == 2:
            for place in range(array.shape[1]):
                cells[f"{name}_{place}"] = _texts(array[:, place].tolist(), f"{source}: {name!r}")
        elif array is not None and array.ndim == 0:
            raise UsageError(f"{source}: {name!r} is a single value; a column has one value per row.")
        else:
            cells[name] = _texts(values.tolist() if hasattr(values, "tolist") else list(values), f"{source}: {name!r}")
    lengths = {name: len(cells[name]) for name in cells} | {name: len(pixels[name]) for name in pixels}
    if len(set(lengths.values())) > 1:
        raise UsageError(f"the columns of {source} need equal lengths; they have {lengths}.")
    count = next(iter(lengths.values()), 0)
    if not count:
        raise DataError(f"{source} has no rows. Give {FORMS}.")
    return Rows(source, count, cells, pixels, Path.cwd())


def _texts(values: Sequence[Any], what: str) -> list[str]:
    return [_text(value, f"{what}, row {row}") for row, value in enumerate(values, start=1)]


def _text(value: Any, place: str) -> str:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Path):
        value = str(value)
    return text_of(value, place)


def _folder(root: Path, label: str) -> Rows:
    """A row for each file below the folder; its class is the name of the folder on the first level."""
    cells = columns_of(root, f"Give {FORMS}", label)
    return Rows(str(root), len(next(iter(cells.values()))), cells, folder=root)
