"""Reading of the images, or boxes of images, that the rows of a table name; each is decoded once.

Shapes: N rows, M distinct images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, quoted_list
from evodevo.tasks.image_text.references import References, from_arrays
from evodevo.tasks.images.arrays import PATH_ADVICE, is_arrays
from evodevo.tasks.images.pixels import ADVICE, MAX_BYTES, UNEQUAL_SIDE, Colour, Pixels, decode, resized, uniform
from evodevo.tasks.table import cells as table_cells
from evodevo.tasks.table.cells import Box, Trouble


@dataclass(frozen=True)
class Named:
    """The images that one table names.

    Args:
        references: Names of the images, one per row.
        boxes: Cells of each row with the box in its image; None = whole images.
    """

    references: References
    boxes: Sequence[Sequence[str]] | None


@dataclass(frozen=True)
class TableImages:
    """Distinct images, and the image of each row.

    Args:
        pixels: Distinct images, (M, height, width, channels); None where no row names a readable one.
        numbers: Index of each row's image, (N,); -1 for none, and for one that cannot be read.
        troubles: Rows whose image cannot be read, numbered over all tables together, and the reasons.
    """

    pixels: Pixels | None
    numbers: NDArray[np.int64]
    troubles: list[Trouble]


_LARGEST_SIDE = 128


def read(tables: Sequence[Named], size: tuple[int, int] | None, colour: Colour) -> TableImages:
    """Decode the images that the tables name.

    Args:
        tables: Names of the images.
        size: Height and width in pixels; None is their own where all have one of at most 128 x 128, else 64 x 64.
        colour: Colour of the result; ``auto`` is colour where any image has it.

    Raises:
        DataError: An npz lacks a named image, or the images exceed the memory limit.
        UnsafeFileError: A path leads out of the folder.
    """
    images: list[Pixels] = []
    numbers: list[int] = []
    troubles: list[Trouble] = []
    room = MAX_BYTES
    for table in tables:
        reader = _ImageReader(table.references)
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
                    )  # the advice is given once, at the end of the common error message
                else:
                    # The first image that does not fit fixes one size for all, also for those read before.
                    if size is None and not _fits(image, images):
                        size = (UNEQUAL_SIDE, UNEQUAL_SIDE)
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
    return TableImages(pixels, np.asarray(numbers, np.int64), troubles)


def _fits(image: Pixels, others: Sequence[Pixels]) -> bool:
    """Whether an image can keep its size beside the others."""
    return max(image.shape[:2]) <= _LARGEST_SIDE and (not others or image.shape[:2] == others[0].shape[:2])


class _ImageReader:
    """Images of one table by name; the last one is cached, since boxes of one image are often in consecutive rows."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._packed: dict[str, Pixels] | None = None
        if is_arrays(references.place):
            named = references.distinct()
            self._packed = dict(zip(named, from_arrays(references, named), strict=True))
        self._last: tuple[str, Pixels] | None = None

    def read(self, name: str, box: Box | None) -> Pixels:
        """An image, or its part in a box.

        Raises:
            DataError: The image is unreadable, or the box is outside of it.
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
    """The part of an image in a box.

    Raises:
        DataError: The box is outside of the image.
    """
    left, top, width, height = box
    part = image[max(0, top) : max(0, top + height), max(0, left) : max(0, left + width)]
    if not part.size:
        raise DataError(
            f"the box {quoted_list(box)} lies outside of the image {name}, {image.shape[1]} x {image.shape[0]}"
        )
    return part
