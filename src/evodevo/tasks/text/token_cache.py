"""A disk cache of prepared data: memory-mapped arrays under a key over everything that they were made from.

An entry is one folder, complete or absent: it is written under another name and then renamed. Each file's SHA-256 is
checked when a worker opens the entry first, and again whenever the file has changed; a damaged entry is never used and
made again.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import DataError, DiskFullError, UsageError
from evodevo.tasks.base import check_key
from evodevo.tasks.verified import file_digest
from evodevo.tasks.whole_folders import put_whole

FORMAT = "evodevo.tokens/1"
_KEY = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z][a-z_]{0,63}")
_DTYPES = frozenset({"uint8", "uint16", "uint32"})
_HEADER_BYTES = 128


@dataclass(frozen=True)
class CachedTokens:
    """The data of one key.

    Args:
        arrays: Name -> one-dimensional array of unsigned integers; read-only memory maps where they are read from disk.
        tokenizer: Bytes of the tokenizer; empty where there is none.
        info: Description of the data and their source, JSON-able.
    """

    arrays: dict[str, NDArray[Any]]
    tokenizer: bytes
    info: dict[str, Any]


def default_folder() -> Path:
    """``$XDG_CACHE_HOME/evodevo``, or ``~/.cache/evodevo``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "evodevo"


@dataclass(frozen=True)
class ArrayStream:
    """An array that is written piece by piece and never whole in memory.

    Args:
        dtype: Number format.
        pieces: Function that gives its pieces in order.
    """

    dtype: np.dtype[Any]
    pieces: Callable[[], Iterable[NDArray[Any]]]

    def whole(self) -> NDArray[Any]:
        """All of it in memory."""
        return np.concatenate([np.empty(0, self.dtype), *self.pieces()])


S = TypeVar("S")


def recall(
    settings: S,
    cache_folder: Path | None,
    key: str | None,
    prepare: Callable[[S, TokenCache], tuple[str, CachedTokens]],
) -> tuple[str, CachedTokens]:
    """The key and the data of a task: looked up where a key is given, else prepared (see ``SampleTask.open``).

    Args:
        settings: Settings of the task.
        cache_folder: Folder of the cache; None = ``default_folder()``.
        key: Key of the data; None where it is not known yet.
        prepare: Function that makes key and data from settings and cache.

    Raises:
        DataError: The prepared data have another key.
    """
    cache = TokenCache(cache_folder or default_folder())
    entry = cache.get(key) if key is not None else None
    if entry is not None and key is not None:
        return key, entry
    actual, entry = prepare(settings, cache)
    check_key(actual, key, str(entry.info["source"]))
    return actual, entry


class TokenCache:
    """A cache below one folder; safe for any number of processes, because entries never change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "tokens"

    def get(self, key: str) -> CachedTokens | None:
        """The entry, or None where it is absent or damaged."""
        path = self._place(key)
        try:
            return _read(path, key)
        except (OSError, ValueError):  # UsageError and numpy's complaints about a file are ValueErrors
            return None

    def put(self, key: str, entry: CachedTokens) -> CachedTokens:
        """Write the entry and return it as read back; where the folder cannot be written, the given entry itself.

        Raises:
            DiskFullError: The disk is full; nothing was changed.
        """
        path = self._place(key)
        try:
            put_whole(path, lambda folder: _write(folder, key, entry), lambda: self.get(key) is not None)
        except OSError as error:
            self._refuse_full(error)
            return entry  # training works without a cache, for example with a read-only home folder
        return self.get(key) or entry

    def write(
        self, key: str, streams: Mapping[str, ArrayStream], tokenizer: bytes, info: dict[str, Any]
    ) -> CachedTokens:
        """Write an entry whose arrays may exceed the memory, and return it as read back.

        Raises:
            DataError: The folder cannot be written.
            DiskFullError: The disk is full; nothing was changed.
        """
        path = self._place(key)

        def fill(folder: Path) -> None:
            for name, stream in streams.items():
                _write_stream(folder / f"{name}.npy", stream)
            _describe(folder, key, list(streams), tokenizer, info)

        try:
            put_whole(path, fill, lambda: self.get(key) is not None)
        except OSError as error:
            self._refuse_full(error)
            raise DataError(
                f"prepared data that are larger than the memory cannot be written under {self._folder}: {error}. Set "
                "XDG_CACHE_HOME."
            ) from None
        entry = self.get(key)
        if entry is None:
            raise DataError(f"the prepared data at {path} are not what was just written; look at the disk.")
        return entry

    def _refuse_full(self, error: OSError) -> None:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(
                f"no space left for prepared data under {self._folder}. Free some space, or set XDG_CACHE_HOME."
            ) from None

    def remove(self, key: str) -> None:
        """Delete the entry if it exists."""
        shutil.rmtree(self._place(key), ignore_errors=True)

    @property
    def folder(self) -> Path:
        """Folder of all entries."""
        return self._folder

    def _place(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise UsageError(f"a key of the token cache has 64 hexadecimal digits; got {key[:80]!r}.")
        return self._folder / key[:2] / key


def _write(folder: Path, key: str, entry: CachedTokens) -> None:
    for name, array in entry.arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    _describe(folder, key, list(entry.arrays), entry.tokenizer, entry.info)


def _write_stream(path: Path, stream: ArrayStream) -> None:
    """A file of one array as ``np.save`` writes it; its length is known at the end."""
    count = 0
    with path.open("wb") as file:
        file.write(_header(stream.dtype, 0))
        for piece in stream.pieces():
            file.write(np.ascontiguousarray(piece, dtype=stream.dtype).data)
            count += len(piece)
        file.seek(0)
        file.write(_header(stream.dtype, count))


def _header(dtype: np.dtype[Any], count: int) -> bytes:
    """The header of an array file, of the same size for any length."""
    buffer = io.BytesIO()
    facts = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(buffer, facts)
    written = buffer.getvalue()
    assert len(written) == _HEADER_BYTES, "one axis"
    return written


def _describe(folder: Path, key: str, names: Sequence[str], tokenizer: bytes, info: dict[str, Any]) -> None:
    assert all(map(_NAME.fullmatch, names)), names
    (folder / "tokenizer.json").write_bytes(tokenizer)
    manifest = {
        "format": FORMAT,
        "key": key,
        "arrays": {name: file_digest(folder / f"{name}.npy") for name in names},
        "tokenizer": hashlib.sha256(tokenizer).hexdigest(),
        "info": info,
        "info_digest": canonical.digest(info),
    }
    (folder / "manifest.json").write_text(canonical.dumps(manifest), encoding="utf-8")


def _read(folder: Path, key: str) -> CachedTokens:
    manifest = canonical.loads((folder / "manifest.json").read_bytes(), what="the manifest")
    match manifest:
        case {
            "format": "evodevo.tokens/1",
            "key": str(stated),
            "arrays": dict(files),
            "tokenizer": str(tokenizer_digest),
            "info": dict(info),
            "info_digest": str(info_digest),
        } if stated == key and info_digest == canonical.digest(info):
            tokenizer = (folder / "tokenizer.json").read_bytes()
            if hashlib.sha256(tokenizer).hexdigest() != tokenizer_digest:
                raise ValueError("the tokenizer is damaged")
            return CachedTokens({name: _array(folder, name, digest) for name, digest in files.items()}, tokenizer, info)
        case _:
            raise ValueError("not a manifest of this key")


def _array(folder: Path, name: str, digest: str) -> NDArray[Any]:
    if not _NAME.fullmatch(name) or file_digest(folder / f"{name}.npy") != digest:
        raise ValueError(f"{name} is damaged")
    array = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    if array.ndim != 1 or array.dtype.name not in _DTYPES:
        raise ValueError(f"{name} is not an array of tokens")
    # A plain view: the memmap subclass makes every slice and gather several times slower.
    return np.asarray(array)
