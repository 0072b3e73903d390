"""Reading of the images that rows of a table name: a file below a folder, or the number of an image in an npz."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evodevo import files
from evodevo.errors import DataError, UnsafeFileError, quoted_list
from evodevo.tasks.images.arrays import as_pixels, is_arrays, open_arrays, read_bytes
from evodevo.tasks.images.pixels import Colour, Pixels, decode_all, uniform
from evodevo.tasks.sample_splits import fingerprint


@dataclass(frozen=True)
class References:
    """The image names of one table.

    Args:
        names: One name per row; an empty one is no image.
        place: Folder of the images, or an npz with images ``x``.
        column: Column of the names. Where the npz has an array of this name, a row's image is the first with that
            number; otherwise the number is an index of images.
        source: Path of the table, for messages.
    """

    names: Sequence[str]
    place: Path
    column: str
    source: Path

    def digest(self) -> str:
        """SHA-256 over the bytes of all named images.

        Raises:
            DataError: The npz cannot be read.
            UnsafeFileError: A path leads out of the folder.
        """
        if is_arrays(self.place):
            return files.sha256(self.place)
        whole = hashlib.sha256()
        for name in self.distinct():
            data = self.bytes_or_error(name)
            # An unreadable file raises an error or is left out when images are decoded; here it has no content.
            whole.update(fingerprint(name.encode(), b"" if isinstance(data, DataError) else data))
        return whole.hexdigest()

    def distinct(self) -> list[str]:
        """The distinct names, in order of their first row."""
        return [name for name in dict.fromkeys(self.names) if name]

    def bytes_or_error(self, name: str) -> bytes | DataError:
        """The bytes of a file below the folder, or the error of reading it.

        Raises:
            UnsafeFileError: The path leads out of the folder.
        """
        root = self.place.resolve()
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise UnsafeFileError(
                f"{self.source} names {name[:200]!r}, which is outside {root}. Set images to the folder of all images."
            )
        try:
            return read_bytes(path, root)
        except DataError as error:
            return error


@dataclass(frozen=True)
class NamedImages:
    """Distinct images, and the image of each row.

    Args:
        pixels: Distinct images, (M, height, width, channels).
        numbers: Index of each row's image, (N,); -1 for none.
        usable: False where a row's image could not be read, (N,).
        skipped: Names of the images that could not be read.
    """

    pixels: Pixels
    numbers: NDArray[np.int64]
    usable: NDArray[np.bool_]
    skipped: list[str]


def read(tables: Sequence[References], size: tuple[int, int] | None, colour: Colour, skip_corrupt: bool) -> NamedImages:
    """Decode the images that the tables name, each once.

    Raises:
        DataError: An image is missing or cannot be read, unless such images are skipped.
        UnsafeFileError: A path leads out of the folder.
    """
    images: list[Pixels] = []
    numbers: list[int] = []
    usable: list[bool] = []
    skipped: list[str] = []
    for table in tables:
        named = table.distinct()
        if is_arrays(table.place):
            decoded, kept = from_arrays(table, named), list(range(len(named)))
        else:
            files = ((name, table.bytes_or_error(name)) for name in named)
            decoded, kept, lost, _ = decode_all(files, size, skip_corrupt)
            skipped += lost
        index_of = {named[row]: len(images) + index for index, row in enumerate(kept)}
        images += decoded
        numbers += [index_of.get(name, -1) for name in table.names]
        usable += [not name or name in index_of for name in table.names]
    sources = quoted_list(table.source for table in tables)
    if not images:
        raise DataError(f"{sources}: no image could be read. Check the paths below {tables[0].place}.")
    pixels = uniform(images, size, colour, f"what {sources} names")
    return NamedImages(pixels, np.asarray(numbers, np.int64), np.asarray(usable, bool), skipped)


def from_arrays(table: References, named: list[str]) -> list[Pixels]:
    """The images of an npz with these names.

    Raises:
        DataError: The npz lacks one of them, or has no images at all.
    """
    arrays = open_arrays(table.place)
    if "x" not in arrays:
        raise DataError(f"{table.place} has no array 'x' of images (there: {quoted_list(arrays)}).")
    stored = arrays["x"]
    own = arrays.get(table.column)
    # Reversed, because a later entry overwrites an earlier one, and the first image of a number is wanted.
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
