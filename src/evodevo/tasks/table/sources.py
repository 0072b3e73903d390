"""Reading of the files of a user's table: their columns, and the inputs in their rows.

Shapes: N rows, M distinct images, F numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, quoted_list
from evodevo.tasks.base import ALL_SPLITS, Split
from evodevo.tasks.image_text.references import References
from evodevo.tasks.sample_splits import columns_digest
from evodevo.tasks.split_files import splits_in, with_others
from evodevo.tasks.table import cells as table_cells
from evodevo.tasks.table import images as table_images
from evodevo.tasks.table import rows, tables
from evodevo.tasks.table import text as table_text
from evodevo.tasks.table.cells import Trouble
from evodevo.tasks.table.images import Named
from evodevo.tasks.table.settings import Columns, TableSettings, columns_of, data_of
from evodevo.tasks.table.tables import ColumnTable
from evodevo.tasks.text import corpus

_VERSION = 1
# Paths are no part of the key: the contents of the files are. The tokenizer is identified by its content.
_NOT_OF_CONTENT = {"data", "architecture", "validation", "test", "images", "test_images", "tokenizer", "vocabulary"}


@dataclass(frozen=True)
class TableFile:
    """One file.

    Attributes:
        path: Path of the file.
        given: Split of its rows; None where the settings define none for the file.
        table: The columns in use, and only these.
        images: Images that its rows name; None without a column of images.
    """

    path: Path
    given: Split | None
    table: Mapping[str, list[str]]
    images: Named | None

    def __len__(self) -> int:
        return len(next(iter(self.table.values())))


@dataclass(frozen=True)
class RowInputs:
    """The inputs in the rows.

    Attributes:
        pixels: Distinct images, (M, height, width, channels); None without images.
        image: Index of each row's image, (N,), -1 for none.
        texts: Text of each row, empty where there is none, N of them; None without a column of texts.
        vectors: Numbers of each row, (N, F), NaN for missing ones; None without columns of numbers.
        troubles: Rows whose image (``image``) or numbers (``vectors``) cannot be read.
    """

    pixels: NDArray[np.uint8] | None
    image: NDArray[np.int64]
    texts: list[str] | None
    vectors: NDArray[np.float32] | None
    troubles: dict[str, list[Trouble]]

    def present(self) -> dict[str, NDArray[np.bool_]]:
        """Input -> whether each row has it, (N,)."""
        has: dict[str, NDArray[Any]] = {}
        if self.pixels is not None:
            has["image"] = self.image >= 0
        if self.texts is not None:
            has["text"] = np.asarray([bool(text) for text in self.texts], bool)
        if self.vectors is not None:
            has["vectors"] = np.logical_not(np.isnan(self.vectors).all(axis=1))
        return has


def read_parts(settings: TableSettings) -> tuple[Columns, list[TableFile]]:
    """The columns and rows of all files.

    Raises:
        DataError: A file is unreadable, empty, or lacks a column.
    """
    files: list[tuple[Path, Split | None, str | None]] = []
    for split, path in _paths(settings).items():
        own = settings.test_images if split == "test" else None
        files.append((path, None if split == "train" else split, own or settings.images))
    parts: list[TableFile] = []
    columns: Columns | None = None
    for path, given, images in files:
        table = tables.read(path)
        columns = columns or columns_of(settings, table)
        tables.check_columns(table, columns.all(), path)
        parts.append(part(path, given, table, columns, images))
    assert columns is not None
    return columns, parts


def _paths(settings: TableSettings) -> dict[Split, Path]:
    """The file of each split, that of training first; a folder may hold a file for each."""
    data = Path(data_of(settings)).expanduser()
    found: dict[Split, Path] = splits_in(data, _is_table) or {"train": data}
    named: dict[Split, str | None] = {split: getattr(settings, split) for split in ALL_SPLITS[1:]}
    others = {split: None if name is None else Path(name).expanduser() for split, name in named.items()}
    given = with_others(found, data, others)
    return {split: given[split] for split in ALL_SPLITS if split in given}


def _is_table(entry: Path) -> bool:
    return entry.is_file() and corpus.suffixes(entry)[0] in rows.READABLE


def part(path: Path, given: Split | None, table: ColumnTable, columns: Columns, images: str | None) -> TableFile:
    """One file with the columns in use."""
    kept = table.some(columns.all())
    named: Named | None = None
    if columns.image in kept:
        folder = Path(images).expanduser() if images else path if path.is_dir() else path.parent
        names = [name.strip() for name in kept[columns.image]]
        boxes = list(zip(*(kept[name] for name in columns.box), strict=True)) if columns.box else None
        named = Named(References(names, folder, columns.image, path), boxes)
    return TableFile(path, given, kept, named)


def identity(settings: TableSettings, columns: Columns, parts: Sequence[TableFile]) -> dict[str, Any]:
    """All that determines the samples: settings, rows, and the bytes of the images that they name. JSON-able."""
    return {
        "task": "table",
        "version": _VERSION,
        "settings": settings.model_dump(exclude=_NOT_OF_CONTENT, mode="json"),
        "columns": columns.model_dump(mode="json"),
        "tokenizer": table_text.identify(settings.tokenizer, settings.vocabulary),
        "sources": [
            [part.given, columns_digest(part.table), part.images.references.digest() if part.images else None]
            for part in parts
        ],
    }


def read_inputs(
    settings: TableSettings, columns: Columns, parts: Sequence[TableFile], *, settled: bool = False
) -> RowInputs:
    """The inputs in the rows; unreadable ones raise an error, or are missing where they are to be skipped.

    Args:
        settings: Settings of the task.
        columns: Columns in use.
        parts: Files of the table.
        settled: Whether the settings are fixed, so that error messages recommend no change of them.

    Raises:
        DataError: Images or numbers cannot be read; the message has their number and the first three.
        UnsafeFileError: A path leads out of the folder of images.
    """

    def repair(what: str) -> str:
        return f"Repair {what}, or leave the cells empty{'' if settled else ', or set skip_corrupt'}."

    named = [part.images for part in parts if part.images is not None]
    troubles: dict[str, list[Trouble]] = {}
    pixels, image = None, np.full(sum(map(len, parts)), -1, np.int64)
    if named:
        decoded = table_images.read(named, settings.size, settings.colour)
        pixels, image, troubles["image"] = decoded.pixels, decoded.numbers, decoded.troubles
        _refuse(settings, parts, decoded.troubles, "images that cannot be read", repair("the paths or files"))
        if pixels is None and decoded.troubles and not (columns.text or columns.vectors):
            raise DataError(f"{sources(parts)}: no image could be read. Check the paths in {columns.image!r}.")
    texts = [text.strip() for text in column(parts, columns.text)] if columns.text else None
    numbers: NDArray[np.float32] | None = None
    if columns.vectors:
        numbers, troubles["vectors"] = table_cells.vectors([column(parts, name) for name in columns.vectors])
        _refuse(settings, parts, troubles["vectors"], "numbers that cannot be read", repair("them"))
    return RowInputs(pixels, image, texts, numbers, troubles)


def column(parts: Sequence[TableFile], name: str) -> list[str]:
    """The values of a column in all files, empty in those that lack it."""
    return [value for part in parts for value in part.table.get(name, [""] * len(part))]


def sources(parts: Sequence[TableFile]) -> str:
    """The files, for messages."""
    return quoted_list(part.path for part in parts)


def _refuse(
    settings: TableSettings, parts: Sequence[TableFile], troubles: Sequence[Trouble], what: str, advice: str
) -> None:
    if settings.skip_corrupt:
        return
    start = 0
    for part in parts:
        own = [Trouble(t.row - start, t.reason) for t in troubles if start < t.row <= start + len(part)]
        table_cells.refuse(own, str(part.path), what, advice)
        start += len(part)
