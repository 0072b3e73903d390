"""Documents beyond the memory: in a file that has no name, read where they are wanted."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

from evodevo.errors import DataError, DiskFullError

IN_MEMORY_BYTES = 2 * 2**30
"""Sum of a corpus's bytes above which its documents are kept on the disk."""


class Spool(Sequence[bytes]):
    """Documents that are added one after the other: in memory up to a sum of bytes, then all in a file.

    The file has no name, so that nothing of it stays whatever ends the process. Of a document on the disk each access
    is a copy.

    Args:
        folder: Folder of the file, made where it is missing; None keeps everything in memory.
        in_memory: Sum of bytes up to which documents are in memory; None = ``IN_MEMORY_BYTES``.
    """

    def __init__(self, folder: Path | None, in_memory: int | None = None) -> None:
        self._folder = folder
        self._in_memory = IN_MEMORY_BYTES if in_memory is None else in_memory
        self._documents: list[bytes] = []
        self._ends: list[int] = []
        self._size = 0
        self._file: int | None = None
        self._map: mmap.mmap | None = None

    def append(self, document: bytes) -> None:
        """Add a document.

        Raises:
            DataError: The folder cannot be written.
            DiskFullError: The disk is full.
        """
        self._size += len(document)
        self._ends.append(self._size)
        if self._file is not None:
            self._write(document)
            return
        self._documents.append(document)
        if self._folder is not None and self._size > self._in_memory:
            self._open(self._folder)
            for kept in self._documents:
                self._write(kept)
            self._documents = []

    def chosen(self, indices: Sequence[int]) -> Sequence[bytes]:
        """Some of the documents, in this order: a tuple where they are in memory."""
        return Pieces(self, [(index, 0, None) for index in indices]).settled()

    @property
    def is_on_disk(self) -> bool:
        """Whether the documents are more than the memory is to hold."""
        return self._file is not None

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return self.chosen(range(len(self))[index])
        if self._file is None:
            return self._documents[index]
        place = range(len(self))[index]
        begin, end = self._ends[place - 1] if place else 0, self._ends[place]
        if self._map is None or len(self._map) < end:
            self._map = mmap.mmap(self._file, 0, access=mmap.ACCESS_READ)
        return self._map[begin:end]

    def __iter__(self) -> Iterator[bytes]:
        return (self[index] for index in range(len(self)))

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)

    def _open(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file, name = tempfile.mkstemp(prefix=".documents-", dir=folder)
            os.unlink(name)
        except OSError as error:
            raise DataError(
                f"a corpus of more than {self._in_memory:,} bytes needs a folder for its documents, and {folder} "
                f"cannot be written: {error}. Set XDG_CACHE_HOME."
            ) from None

    def _write(self, document: bytes) -> None:
        assert self._file is not None, "opened"
        rest = memoryview(document)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFullError(
                    f"no space left for the documents of the corpus under {self._folder}. Free some space, set "
                    "XDG_CACHE_HOME, or take fewer (evaluation.language.max_bytes)."
                ) from None
            raise


class Pieces(Sequence[bytes]):
    """Stretches of documents, cut where they are wanted.

    Args:
        documents: Documents.
        places: Of each piece the index of its document, its first byte and the byte after its last (None: the end).
    """

    def __init__(self, documents: Sequence[bytes], places: Sequence[tuple[int, int, int | None]]) -> None:
        self._documents = documents
        self._places = places

    @property
    def is_on_disk(self) -> bool:
        """Whether the documents are."""
        return bool(getattr(self._documents, "is_on_disk", False))

    def settled(self) -> Sequence[bytes]:
        """The pieces themselves where the documents are in memory, else this view."""
        return self if self.is_on_disk else tuple(self)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return Pieces(self._documents, self._places[index])
        document, begin, end = self._places[index]
        whole = self._documents[document]
        return whole if begin == 0 and end is None else whole[begin:end]
