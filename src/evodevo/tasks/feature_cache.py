"""A disk cache of features that a frozen extractor computed from samples, under a key over all of its inputs.

An entry is one folder, complete or absent, as in ``token_cache``. Its values are memory-mapped, so that they may exceed
the memory. Each file's SHA-256 is checked when a worker opens the entry first, and again whenever the file has changed;
a damaged entry counts as absent.

Shapes: N samples of a split, R positions of all samples together without padding, D numbers per position.
"""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import DataError, DiskFullError, UsageError
from evodevo.tasks.base import Split
from evodevo.tasks.verified import file_digest
from evodevo.tasks.whole_folders import put_whole

FORMAT = "evodevo.features/1"
_KEY = re.compile(r"[0-9a-f]{64}")
_SPLITS = frozenset(get_args(Split))
Chunk = tuple[Split, Sequence[NDArray[np.float32]]]
"""Features (positions, D) of the next samples of a split."""


@dataclass(frozen=True)
class SplitFeatures:
    """Features of one split.

    Attributes:
        values: Features of all samples one after the other, (R, D).
        offsets: First row of each sample in ``values``, and the end, (N + 1,).
    """

    values: NDArray[np.float32]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def padded(self, places: NDArray[np.int64], length: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Features (B, L, D), zero where there are none, and their mask (B, L)."""
        begin = self.offsets[places]
        mask = np.arange(length) < (self.offsets[places + 1] - begin)[:, None]
        features = np.zeros((*mask.shape, self.values.shape[1]), np.float32)
        rows, columns = np.nonzero(mask)
        features[rows, columns] = self.values[begin[rows] + columns]
        return features, mask


class FeatureCache:
    """A cache below one folder; safe for any number of processes, because entries never change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "features"

    def get(self, key: str) -> dict[Split, SplitFeatures] | None:
        """The entry, or None where it is absent or damaged."""
        path = self._place(key)
        try:
            return _read(path, key)
        except (OSError, ValueError):  # UsageError and numpy's complaints about a file are ValueErrors
            return None

    def put(self, key: str, size: int, chunks: Iterable[Chunk]) -> dict[Split, SplitFeatures]:
        """Write an entry chunk by chunk, and return it as read back.

        Args:
            key: Key of the entry, 64 hexadecimal digits.
            size: Number of entries D of each feature.
            chunks: All samples of all splits, each split in order.

        Raises:
            DataError: A feature is not finite, or the folder cannot be written.
            DiskFullError: The disk is full; nothing was changed.
        """
        path = self._place(key)
        try:
            put_whole(path, lambda folder: _write(folder, key, size, chunks), lambda: self.get(key) is not None)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFullError(
                    f"no space left for features under {self._folder}. Free some space, or set XDG_CACHE_HOME."
                ) from None
            raise DataError(f"features cannot be written under {self._folder}: {error}. Set XDG_CACHE_HOME.") from None
        entry = self.get(key)
        if entry is None:
            raise DataError(f"the features at {path} are not what was just written; look at the disk.")
        return entry

    def remove(self, key: str) -> None:
        """Delete the entry if it exists."""
        shutil.rmtree(self._place(key), ignore_errors=True)

    def _place(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise UsageError(f"a key of the feature cache has 64 hexadecimal digits; got {key[:80]!r}.")
        return self._folder / key[:2] / key


def _write(folder: Path, key: str, size: int, chunks: Iterable[Chunk]) -> None:
    ends: dict[Split, list[int]] = {}
    with ExitStack() as stack:
        files: dict[Split, Any] = {}
        for split, samples in chunks:
            if split not in files:
                files[split] = stack.enter_context((folder / f"{split}.values").open("wb"))
                ends[split] = [0]
            for sample in samples:
                if sample.ndim != 2 or sample.shape[1] != size or not np.isfinite(sample).all():
                    raise DataError(f"sample {len(ends[split]) - 1} of {split} has features that are not finite.")
                files[split].write(np.ascontiguousarray(sample, "<f4").tobytes())
                ends[split].append(ends[split][-1] + len(sample))
    for split, numbers in ends.items():
        np.save(folder / f"{split}.offsets.npy", np.asarray(numbers, np.int64), allow_pickle=False)
    digests = {path.name: file_digest(path) for path in sorted(folder.iterdir())}
    manifest = {"format": FORMAT, "key": key, "size": size, "splits": sorted(ends), "files": digests}
    (folder / "manifest.json").write_text(canonical.dumps(manifest), encoding="utf-8")


def _read(folder: Path, key: str) -> dict[Split, SplitFeatures]:
    manifest = canonical.loads((folder / "manifest.json").read_bytes(), what="the manifest")
    match manifest:
        case {
            "format": "evodevo.features/1",
            "key": str(stated),
            "size": int(size),
            "splits": list(splits),
            "files": dict(files),
        } if stated == key and size > 0 and _SPLITS.issuperset(splits):
            return {split: _split(folder, split, size, files) for split in splits}
        case _:
            raise ValueError("not a manifest of this key")


def _split(folder: Path, split: Split, size: int, digests: Mapping[str, Any]) -> SplitFeatures:
    values, offsets = folder / f"{split}.values", folder / f"{split}.offsets.npy"
    for path in (values, offsets):
        if file_digest(path) != digests.get(path.name):
            raise ValueError(f"{path.name} is damaged")
    ends = np.load(offsets, allow_pickle=False)
    shape = (int(ends[-1]), size)
    if not shape[0]:
        return SplitFeatures(np.zeros(shape, np.float32), ends)  # an empty file cannot be memory-mapped
    return SplitFeatures(np.asarray(np.memmap(values, "<f4", "r", shape=shape)), ends)
