"""Images that rows of a table name: a file below a folder, or the number of an image in an npz."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, UnsafeFileError, quoted_list
from evodevo.tasks.images.arrays import as_pixels, open_arrays, read_bytes
from evodevo.tasks.images.pixels import Colour, Pixels, decode_all, uniform
from evodevo.tasks.sample_splits import fingerprint


@dataclass(frozen=True)
class References:
    """What one table names.

    Args:
        names: one per row; an empty one is no image.
        place: the folder of the images, or an npz with images ``x``.
        column: the column of the names. Where the npz has an array of this name, a row's image is the first with that
            number; otherwise the number counts images.
        source: the table, for messages.
    """

    names: Sequence[str]
    place: Path
    column: str
    source: Path

    def digest(self) -> str:
        """SHA-256 over the bytes of everything that is named.

        Raises:
            DataError: the npz cannot be read.
            UnsafeFileError: a path that leads out of the folder.
        """
        if self.place.suffix == ".npz":
            return hashlib.sha256(read_bytes(self.place)).hexdigest()
        whole = hashlib.sha256()
        for name in self.distinct():
            data = self.bytes_or_error(name)
            # An unreadable file stops the reading later or is left out there; either way it is no content.
            whole.update(fingerprint(name.encode(), b"" if isinstance(data, DataError) else data))
        return whole.hexdigest()

    def distinct(self) -> list[str]:
        """The names, each once, in their order."""
        return [name for name in dict.fromkeys(self.names) if name]

    def bytes_or_error(self, name: str) -> bytes | DataError:
        """The bytes of a file below the folder, or why there are none.

        Raises:
            UnsafeFileError: a path that leads out of the folder.
        """
        root = self.place.resolve()
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise UnsafeFileError(
                f"{self.source} names {name[:200]!r}, which is outside {root}. Set images to the folder of all images."
            )
        try:
            return read_bytes(path)
        except DataError as error:
            return error


@dataclass(frozen=True)
class Found:
    """Distinct images, and who names them.

    Args:
        pixels: (M, height, width, channels).
        numbers: (N,) which image each row names, -1 for none.
        usable: (N,) false where a row names an image that could not be read.
        skipped: names of the images that could not be read.
    """

    pixels: Pixels
    numbers: NDArray[np.int64]
    usable: NDArray[np.bool_]
    skipped: list[str]


def read(tables: Sequence[References], size: tuple[int, int] | None, colour: Colour, skip_corrupt: bool) -> Found:
    """Decode what the tables name, each image once.

    Raises:
        DataError: an image that is not there or cannot be read, unless it is to be skipped; sizes that differ.
        UnsafeFileError: a path that leads out of the folder.
    """
    images: list[Pixels] = []
    numbers: list[int] = []
    usable: list[bool] = []
    skipped: list[str] = []
    for table in tables:
        named = table.distinct()
        if table.place.suffix == ".npz":
            found, kept = from_arrays(table, named), list(range(len(named)))
        else:
            files = ((name, table.bytes_or_error(name)) for name in named)
            found, kept, lost = decode_all(files, size, skip_corrupt)
            skipped += lost
        place = {named[row]: len(images) + at for at, row in enumerate(kept)}
        images += found
        numbers += [place.get(name, -1) for name in table.names]
        usable += [not name or name in place for name in table.names]
    sources = quoted_list(table.source for table in tables)
    if not images:
        raise DataError(f"{sources}: no image could be read. Check the paths below {tables[0].place}.")
    pixels = uniform(images, size, colour, f"what {sources} names")
    return Found(pixels, np.asarray(numbers, np.int64), np.asarray(usable, bool), skipped)


def from_arrays(table: References, named: list[str]) -> list[Pixels]:
    """The images of an npz that have these names.

    Raises:
        DataError: it has none such, or no images at all.
    """
    arrays = open_arrays(table.place)
    if "x" not in arrays:
        raise DataError(f"{table.place} has no array 'x' of images (there: {quoted_list(arrays)}).")
    stored = arrays["x"]
    own = arrays.get(table.column)
    # Reversed, so that the first image of a number is what stays.
    first = {str(number): row for row, number in reversed(list(enumerate(own.tolist())))} if own is not None else None
    chosen: list[int] = []
    for name in named:
        row = first.get(name, -1) if first is not None else int(name) if name.isdecimal() else -1
        if not 0 <= row < len(stored):
            raise DataError(
                f"{table.source} names the image {name[:40]!r}, and {table.place} has none such among {len(stored):,}."
            )
        chosen.append(row)
    picked = stored[chosen]
    palette = arrays.get("palette")
    if palette is not None:
        fits = np.issubdtype(picked.dtype, np.integer) and palette.ndim == 2 and picked.ndim == 3
        if not fits or int(picked.max(initial=0)) >= len(palette) or int(picked.min(initial=0)) < 0:
            raise DataError(f"the palette of {table.place} does not fit its images.")
        picked = palette[picked]
    return list(as_pixels(picked, f"the array 'x' of {table.place}"))
