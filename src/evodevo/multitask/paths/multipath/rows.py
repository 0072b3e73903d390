"""Rows of numbers on disk, in blocks that are made at their first use, by any number of processes.

A block is a file whose SHA-256 is in its name. It is written beside its place and renamed, so two processes that make
the same block at once write the same. It is mapped into memory, checked when it is opened, and made anew where it is
damaged or was thrown out. Numbers do not depend on what was kept: a block is computed as a whole in any case, and
rounded to the type that is kept.

Legend: N samples of a set, n of them requested, W numbers of each.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.errors import DataError
from evodevo.settings import Settings

Kept = Literal["float16", "float32", "float64"]
Rows = NDArray[np.floating[Any]]
Places = NDArray[np.int64]
FORMAT = "evodevo.path_rows/1"
FEWEST_ROWS = 1024
MOST_BLOCKS = 128
"""Largest number of blocks of one set: each is a file that stays mapped."""
_SCRATCH = ".new-"
_STALE_SECONDS = 3600.0
_BLOCK = re.compile(r"(\d+)-([0-9a-f]{64})\.rows")


class CacheSettings(Settings):
    """The settings of a cache.

    Attributes:
        kept: type of the numbers on disk; ``float16`` halves the space and rounds to three digits.
        limit_bytes: largest number of bytes of all files together; the longest unused files are removed. None keeps
            everything.
    """

    kept: Kept = "float32"
    limit_bytes: int | None = Field(default=None, ge=0)


class CachedRows:
    """Rows of one set, made in blocks at their first use.

    Args:
        folder: folder of these rows alone.
        count: N.
        width: W.
        settings: settings of the cache.
        written: called after a block was written.
    """

    def __init__(
        self, folder: Path, count: int, width: int, settings: CacheSettings, written: Callable[[], None]
    ) -> None:
        self._folder = folder
        self._limit = settings.limit_bytes
        self._written = written
        self.count = count
        self.width = width
        self.block_rows = max(FEWEST_ROWS, math.ceil(count / MOST_BLOCKS))
        self._type = np.dtype(settings.kept).newbyteorder("<")
        self._open: dict[int, Rows] = {}

    def blocks_of(self, places: Places) -> list[int]:
        """Numbers of the blocks in which these samples lie, ascending.

        Raises:
            DataError: a sample that the set does not have.
        """
        if len(places) and not 0 <= places.min() <= places.max() < self.count:
            wrong = places[(places < 0) | (places >= self.count)]
            raise DataError(f"a set of {self.count} samples has no sample {int(wrong[0])}.")
        return [int(number) for number in np.unique(places // self.block_rows)]

    def samples_of(self, block: int) -> Places:
        """All samples of a block, in order."""
        begin = block * self.block_rows
        return np.arange(begin, min(begin + self.block_rows, self.count))

    def has(self, block: int) -> bool:
        """Whether a block is there and whole; it is then open, and stays readable."""
        return block in self._open or self._find(block)

    def put(self, block: int, rows: Rows) -> None:
        """Keep all rows of a block.

        Where the folder cannot be written, or the block alone is over the limit, this process keeps them in memory:
        a full disk is no reason not to train.

        Raises:
            DataError: rows of another shape, or numbers that cannot be kept.
        """
        if rows.shape != self._shape(block):
            raise DataError(f"block {block} has shape {self._shape(block)}; rows of shape {rows.shape} were given.")
        with np.errstate(over="ignore"):
            kept = np.ascontiguousarray(rows, self._type)
        if not np.isfinite(kept).all():
            raise DataError(f"what a path makes of samples is not finite, or too large for {self._type.name}.")
        self._open[block] = kept
        if self._limit is not None and kept.nbytes > self._limit:
            return
        try:
            self._write(block, kept)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS):
                raise DataError(f"rows of paths cannot be kept under {self._folder}: {error}.") from None
            return
        self._find(block)  # the map takes the place of the copy in memory
        self._written()

    def take(self, places: Places) -> Rows:
        """Rows (n, W) of samples (n,) whose blocks are there (``has``, ``put``), a copy in the requested order."""
        taken = np.empty((len(places), self.width), self._type.newbyteorder("="))
        blocks, within = np.divmod(places, self.block_rows)
        for block in self.blocks_of(places):
            here = np.flatnonzero(blocks == block)
            taken[here] = self._open[block][within[here]]
        return taken

    def read(self, places: Places, make: Callable[[Places], Rows]) -> Rows:
        """Rows (n, W) of samples (n,); ``make`` is called with all samples of each block that is not there."""
        for block in self.blocks_of(places):
            if not self.has(block):
                self.put(block, make(self.samples_of(block)))
        return self.take(places)

    def remove(self) -> None:
        """Forget all of them."""
        self._open.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _shape(self, block: int) -> tuple[int, int]:
        return len(self.samples_of(block)), self.width

    def _find(self, block: int) -> bool:
        for path in sorted(self._folder.glob(f"{block}-*.rows")):
            if (named := _BLOCK.fullmatch(path.name)) and self._map(path, block, named[2]):
                return True
        return False

    def _map(self, path: Path, block: int, digest: str) -> bool:
        try:
            rows = np.asarray(np.memmap(path, self._type, "r", shape=self._shape(block)))
            whole = path.stat().st_size == rows.nbytes and hashlib.sha256(rows.data).hexdigest() == digest
        except FileNotFoundError:
            return False  # thrown out since it was listed
        except (OSError, ValueError):
            whole = False  # shorter than it should be
        with suppress(OSError):  # another user's files can be read, and no more
            if whole:
                os.utime(path)  # the longest unused make room first
            else:
                path.unlink()
        if whole:
            self._open[block] = rows
        return whole

    def _write(self, block: int, rows: Rows) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sweep()
        digest = hashlib.sha256(rows.data).hexdigest()
        descriptor, scratch = tempfile.mkstemp(prefix=_SCRATCH, dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(rows.data)
            os.replace(scratch, self._folder / f"{block}-{digest}.rows")
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise

    def _sweep(self) -> None:
        """Remove what killed processes left half written."""
        for path in self._folder.glob(f"{_SCRATCH}*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                    path.unlink()
