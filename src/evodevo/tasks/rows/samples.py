"""Rows as arrays: numbers, codes of categories, texts and images, which every candidate reads in its own way.

Legend: n rows, F numbers, K categories.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.errors import DataError, UsageError, quoted_list
from evodevo.settings import Settings
from evodevo.tasks.images.pixels import MAX_BYTES, Colour, Pixels, decode, resized, shape_of, uniform
from evodevo.tasks.rows import columns
from evodevo.tasks.rows.columns import DATE_PARTS, Column
from evodevo.tasks.rows.sources import Rows
from evodevo.tasks.rows.unreadable import content

MISSING_CODE, OTHER_CODE, FIRST_CODE = 0, 1, 2
"""Codes of a category that is missing, of one that has no code of its own, and of the first of the others."""
LARGEST_SIDE = 64
"""Largest height and width in pixels of an image, where nothing else is chosen; larger ones are made smaller."""
LARGEST_SIDES = 1, 1024
"""Range of what can be chosen."""
Progress = Callable[[int, int], None]
_MEASURED = 500
"""Images whose sizes decide the size of all."""
_THREADS = 4
_TOLD_EVERY = 50


@dataclass(frozen=True)
class Samples:
    """Samples as arrays.

    Attributes:
        count: n.
        numbers: (n, F), NaN where a number is missing.
        codes: Codes of categories, (n, K), from 0.
        texts: One list of n texts per column of text, empty where there is none.
        images: One array (n, height, width, channels) per column of images, 0 where there is none.
        present: One array (n,) per column of images: whether the sample has it.
    """

    count: int
    numbers: NDArray[np.float64]
    codes: NDArray[np.int64]
    texts: tuple[tuple[str, ...], ...] = ()
    images: tuple[Pixels, ...] = ()
    present: tuple[NDArray[np.bool_], ...] = ()

    def take(self, rows: NDArray[np.int64]) -> Samples:
        """Some of the samples, in this order."""
        order = rows.tolist()
        return Samples(
            len(order),
            self.numbers[rows],
            self.codes[rows],
            tuple(tuple(text[row] for row in order) for text in self.texts),
            tuple(pixels[rows] for pixels in self.images),
            tuple(here[rows] for here in self.present),
        )


class RowReading(Settings):
    """All that the conversion of rows to samples needs; part of a saved model.

    Attributes:
        columns: Columns of the training rows, in order, without labels.
        shapes: Height, width and channels of the images of each column of images.
    """

    columns: tuple[Column, ...]
    shapes: tuple[tuple[int, int, int], ...] = Field(default=())

    @classmethod
    def of(
        cls,
        rows: Rows,
        label: Sequence[str],
        *,
        ignore: Sequence[str] = (),
        image_size: int = LARGEST_SIDE,
        skip_corrupt: bool = False,
    ) -> Self:
        """Find the columns of training rows.

        Args:
            rows: Training rows.
            label: Label columns, which are no inputs.
            ignore: Further columns that are no inputs.
            image_size: Largest height and width of an image in pixels; larger ones are made smaller.
            skip_corrupt: Whether images that cannot be read are overlooked, where one of a column can.

        Raises:
            UsageError: No column can be used, or a size out of range.
            DataError: No image of a column can be read, or the images would take more than ``MAX_BYTES``.
        """
        least, most = LARGEST_SIDES
        if not least <= image_size <= most:
            raise UsageError(f"the image size is {image_size}; it must be {least} to {most} pixels.")
        found = [
            columns.find(name, cells, rows.folder)
            for name, cells in rows.cells.items()
            if name not in label and name not in ignore
        ]
        found += [Column(name=name, kind="image") for name in rows.pixels if name not in ignore]
        if all(column.kind == "ignored" for column in found):
            reasons = (
                "; ".join(f"{column.name!r}: {column.reason}" for column in found) or "there is none but the label"
            )
            raise UsageError(f"{rows.source} has no column to learn from ({reasons}).")
        shapes = tuple(
            _shape(rows, column.name, image_size, skip_corrupt) for column in found if column.kind == "image"
        )
        return cls(columns=tuple(found), shapes=shapes)

    def of_kind(self, *kinds: str) -> tuple[Column, ...]:
        """The columns of some kinds, in order."""
        return tuple(column for column in self.columns if column.kind in kinds)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the F numbers."""
        return tuple(name for column in self.columns for name in column.numbers)

    @property
    def levels(self) -> tuple[int, ...]:
        """Number of codes of each of the K categories."""
        return tuple(FIRST_CODE + len(column.values) for column in self.of_kind("category"))

    def read(self, rows: Rows, *, lost: list[str] | None = None, progress: Progress | None = None) -> Samples:
        """Rows as samples; a missing column is a column of missing values.

        Args:
            rows: Rows.
            lost: Gets the cells that name images which cannot be read, and are missing ones then; None refuses them.
            progress: Receives the number of images of a column that were read, and their number in all.

        Raises:
            DataError: The rows have no column of the training rows, or an image cannot be read.
        """
        known = [column.name for column in self.columns if column.kind != "ignored"]
        if not any(name in known for name in rows.names):
            raise DataError(f"{rows.source} has none of the columns {quoted_list(known[:12])}.")
        numbers = [_numbers(rows, column) for column in self.columns if column.numbers]
        codes = [_codes(rows, column) for column in self.of_kind("category")]
        texts = tuple(tuple(_cells(rows, column.name)) for column in self.of_kind("text"))
        pictures = [
            _images(rows, column.name, shape, lost, progress or _nobody)
            for column, shape in zip(self.of_kind("image"), self.shapes, strict=True)
        ]
        return Samples(
            rows.count,
            np.concatenate(numbers, axis=1) if numbers else np.zeros((rows.count, 0)),
            np.stack(codes, axis=1) if codes else np.zeros((rows.count, 0), np.int64),
            texts,
            tuple(pixels for pixels, _ in pictures),
            tuple(here for _, here in pictures),
        )

    def unreadable(self, rows: Rows) -> list[str]:
        """A sentence for each column of numbers, dates or vectors with values that are none, and count as missing."""
        found = []
        for column in self.columns:
            if column.numbers and column.name in rows.cells:
                there = [cell for cell in rows.cells[column.name] if not columns.is_missing(cell)]
                other = [cell.strip() for cell in there if not _is_readable(cell, column)]
                if other:
                    found.append(
                        f"{len(other):,} of {len(there):,} values of {column.name!r} are no {_form(column)}, and count "
                        f"as missing; the first is {other[0][:40]!r}."
                    )
        return found


def _is_readable(cell: str, column: Column) -> bool:
    if column.kind == "number":
        return not math.isnan(columns.number(cell))
    if column.kind == "date":
        return columns.date(cell, column.form) is not None
    values = columns.vector(cell.strip())
    return values is not None and len(values) == column.size


def _form(column: Column) -> str:
    if column.kind == "number":
        return "numbers"
    return f"dates of the form {column.form}" if column.kind == "date" else f"lists of {column.size} numbers"


def _cells(rows: Rows, name: str) -> Sequence[str]:
    return rows.cells.get(name) or [""] * rows.count


def _numbers(rows: Rows, column: Column) -> NDArray[np.float64]:
    cells = _cells(rows, column.name)
    size = len(column.numbers)
    if column.kind == "number":
        values = [[math.nan if columns.is_missing(cell) else columns.number(cell)] for cell in cells]
    elif column.kind == "date":
        missing = (math.nan,) * len(DATE_PARTS)
        values = [list(columns.date(cell, column.form) or missing) for cell in cells]
    else:
        lists = (columns.vector(cell.strip()) for cell in cells)
        values = [found if found is not None and len(found) == size else [math.nan] * size for found in lists]
    return np.asarray(values, np.float64).reshape(rows.count, size)


def _codes(rows: Rows, column: Column) -> NDArray[np.int64]:
    code = {value: number for number, value in enumerate(column.values, start=FIRST_CODE)}
    cells = (cell.strip() for cell in _cells(rows, column.name))
    found = (MISSING_CODE if columns.is_missing(cell) else code.get(cell, OTHER_CODE) for cell in cells)
    return np.fromiter(found, np.int64, rows.count)


def _shape(rows: Rows, name: str, largest: int, skip_corrupt: bool) -> tuple[int, int, int]:
    """Shape for all images of a column: the largest sides, colour where any image has it, bounded."""
    if name in rows.pixels:
        height, width, channels = rows.pixels[name].shape[1:]
    else:
        shapes = []
        for cell in islice((one for one in dict.fromkeys(rows.cells[name]) if one.strip()), _MEASURED):
            try:
                shapes.append(shape_of(*content(rows, cell)))
            except DataError:
                if not skip_corrupt:
                    raise
        if not shapes:
            raise DataError(f"none of the first {_MEASURED} images in {name!r} of {rows.source} can be read.")
        height, width, channels = (max(side) for side in zip(*shapes, strict=True))
    shrink = min(1.0, largest / max(height, width))
    shape = max(1, round(height * shrink)), max(1, round(width * shrink)), channels
    if rows.count * math.prod(shape) > MAX_BYTES:
        raise DataError(
            f"{rows.count:,} images of {shape[1]} x {shape[0]} pixels in {name!r} take more than {MAX_BYTES:,} bytes."
            " Choose a smaller image size."
        )
    return shape


def _images(
    rows: Rows, name: str, shape: tuple[int, int, int], lost: list[str] | None, progress: Progress
) -> tuple[Pixels, NDArray[np.bool_]]:
    """Images (n, height, width, channels) of one shape, and which there are, (n,); each file is decoded once."""
    pixels = np.zeros((rows.count, *shape), np.uint8)
    size = shape[:2]
    colour: Colour = "rgb" if shape[2] == 3 else "grey"
    if name in rows.pixels:
        given = [resized(image, *size) for image in rows.pixels[name]]
        return uniform(given, size, colour, rows.source), np.ones(rows.count, np.bool_)
    cells = _cells(rows, name)
    names = [cell for cell in dict.fromkeys(cells) if cell.strip()]

    def one(cell: str) -> Pixels | DataError:
        try:
            made: Pixels = uniform([resized(decode(*content(rows, cell)), *size)], size, colour, rows.source)[0]
        except DataError as error:
            return error
        return made

    known: dict[str, Pixels] = {}
    # Pillow decodes outside of Python's lock. Each thread silences its warnings; the filters are put back here.
    with warnings.catch_warnings(), ThreadPoolExecutor(_THREADS) as threads:
        try:
            for done, (cell, made) in enumerate(zip(names, threads.map(one, names), strict=True)):
                if isinstance(made, DataError):
                    if lost is None:
                        raise made
                    lost.append(cell)
                else:
                    known[cell] = made
                if done % _TOLD_EVERY == 0:
                    progress(done, len(names))
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
    for row, cell in enumerate(cells):
        if cell in known:
            pixels[row] = known[cell]
    return pixels, np.asarray([cell in known for cell in cells], np.bool_)


def _nobody(done: int, count: int) -> None:
    """Receiver of no progress."""
