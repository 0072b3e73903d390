"""Images, or boxes of images, that the rows of a table name; each is decoded once.

Shapes: N rows, M distinct images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, quoted_list
from evodevo.tasks.image_text.references import References, from_arrays
from evodevo.tasks.images.arrays import PATH_ADVICE
from evodevo.tasks.images.pixels import ADVICE, MAX_BYTES, Colour, Pixels, decode, resized, uniform
from evodevo.tasks.table import cells as table_cells
from evodevo.tasks.table.cells import Box, Trouble


@dataclass(frozen=True)
class Named:
    """What one table names.

    Args:
        references: the images, one name per row.
        boxes: the cells of each row that say which part of its image; None is whole images.
    """

    references: References
    boxes: Sequence[Sequence[str]] | None


@dataclass(frozen=True)
class Found:
    """Distinct images, and who names them.

    Args:
        pixels: (M, height, width, channels); None where no row names a readable one.
        numbers: (N,) which image each row names; -1 for none, and for one that cannot be read.
        troubles: the rows whose image cannot be read, and why; rows of several tables are counted on.
    """

    pixels: Pixels | None
    numbers: NDArray[np.int64]
    troubles: list[Trouble]


_LARGEST_SIDE = 128
SIDE = 64
"""Images that are larger than the former, or of several sizes, become this high and wide where no size is given."""


def read(tables: Sequence[Named], size: tuple[int, int] | None, colour: Colour) -> Found:
    """Decode what the tables name.

    Args:
        tables: the names.
        size: height and width to resize to; None is their own where all have one of at most 128 x 128, else 64 x 64.
        colour: ``auto`` is colour where any image has it.

    Raises:
        DataError: an npz that does not hold what is named, more than fits into memory.
        UnsafeFileError: a path that leads out of the folder.
    """
    images: list[Pixels] = []
    numbers: list[int] = []
    troubles: list[Trouble] = []
    room = MAX_BYTES
    for table in tables:
        reader = _Reader(table.references)
        known: dict[tuple[str, ...], int | str] = {}
        names = table.references.names
        for name, box in zip(names, table.boxes or [()] * len(names), strict=True):
            key = (name, *box)
            if name and key not in known:
                try:
                    image = reader.read(name, table_cells.box(box))
                except DataError as error:
                    known[key] = (
                        str(error).removesuffix(ADVICE).removesuffix(PATH_ADVICE).removesuffix(".")
                    )  # said once, behind all of them
                else:
                    if size is None and not _fits(image, images):
                        size = (SIDE, SIDE)
                        images = [resized(other, *size) for other in images]
                    image = image if size is None else resized(image, *size)
                    room -= image.size
                    if room < 0:
                        raise DataError(f"at {name} the images take more than {MAX_BYTES:,} bytes. Set a smaller size.")
                    known[key] = len(images)
                    images.append(image)
            number = known.get(key, -1)
            if isinstance(number, str):
                troubles.append(Trouble(len(numbers) + 1, number))
                number = -1
            numbers.append(number)
    sources = quoted_list(table.references.source for table in tables)
    pixels = uniform(images, size, colour, f"what {sources} names") if images else None
    return Found(pixels, np.asarray(numbers, np.int64), troubles)


def _fits(image: Pixels, others: Sequence[Pixels]) -> bool:
    """Whether an image can keep its size beside the others."""
    return max(image.shape[:2]) <= _LARGEST_SIDE and (not others or image.shape[:2] == others[0].shape[:2])


class _Reader:
    """Images of one table by name; the last one is kept, since boxes of an image often stand one after the other."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._packed: dict[str, Pixels] | None = None
        if references.place.suffix == ".npz":
            named = references.distinct()
            self._packed = dict(zip(named, from_arrays(references, named), strict=True))
        self._last: tuple[str, Pixels] | None = None

    def read(self, name: str, box: Box | None) -> Pixels:
        """An image, or the part of it that a box shows.

        Raises:
            DataError: unreadable, or a box beside it.
        """
        if self._last is None or self._last[0] != name:
            self._last = (name, self._whole(name))
        whole = self._last[1]
        return whole if box is None else cropped(whole, box, name)

    def _whole(self, name: str) -> Pixels:
        if self._packed is not None:
            return self._packed[name]
        data = self._references.bytes_or_error(name)
        if isinstance(data, DataError):
            raise data
        return decode(data, name)


def cropped(image: Pixels, box: Box, name: str) -> Pixels:
    """The part of an image that lies in a box.

    Raises:
        DataError: nothing does.
    """
    left, top, width, height = box
    part = image[max(0, top) : max(0, top + height), max(0, left) : max(0, left + width)]
    if not part.size:
        raise DataError(
            f"the box {quoted_list(box)} lies outside of the image {name}, {image.shape[1]} x {image.shape[0]}"
        )
    return part
