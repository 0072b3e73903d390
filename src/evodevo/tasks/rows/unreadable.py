"""Rows of which an image cannot be read, which a user may wish to leave out."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from evodevo.errors import DataError
from evodevo.tasks.images.arrays import read_bytes
from evodevo.tasks.images.pixels import decode
from evodevo.tasks.rows.columns import are_images
from evodevo.tasks.rows.sources import Rows


def content(rows: Rows, cell: str) -> tuple[bytes, str]:
    """Bytes and path of the file of an image that a cell names.

    Raises:
        DataError: It cannot be read.
        UnsafeFileError: Its path leads out of the folder of the rows.
    """
    path = (rows.folder or Path()) / cell.strip()
    return read_bytes(path, inside=rows.folder), str(path)


def without_unreadable(rows: Rows, ignore: Collection[str] = ()) -> tuple[Rows, tuple[str, ...]]:
    """The rows whose images can all be read, and the cells that name the others.

    Each image is decoded to find that out, which takes as long as reading it does.

    Args:
        rows: Rows.
        ignore: Columns that are no images: labels and what is no input.

    Raises:
        UnsafeFileError: A path leads out of the folder of the rows.
    """
    lost: dict[str, None] = {}
    images = []
    for name, cells in rows.cells.items():
        there = [cell for cell in dict.fromkeys(cells) if cell.strip()]
        if name in ignore or not there or not are_images([cell.strip() for cell in there], rows.folder):
            continue
        images.append(name)
        for cell in there:
            try:
                decode(*content(rows, cell))
            except DataError:
                lost[cell] = None
    return (rows.take(np.flatnonzero(~rows.with_cells(lost, images))) if lost else rows), tuple(lost)
