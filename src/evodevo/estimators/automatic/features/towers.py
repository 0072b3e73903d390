"""Features that a frozen pretrained tower makes of texts and images, which plain models read as numbers.

Legend: n samples, F numbers, D channels of a tower.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo import files
from evodevo.errors import DataError, StoreDamagedError, UsageError, missing_extra
from evodevo.networks.towers.spec import modalities
from evodevo.operators.pretrained.files import check_digest, weights_digest
from evodevo.operators.pretrained.spec import model_folder, root_of
from evodevo.settings import Settings
from evodevo.tasks.rows.samples import Samples

if TYPE_CHECKING:
    from evodevo.networks.towers.pooled import PooledImages, PooledTexts, Progress

BESIDE = ("config.json", "tokenizer.json", "preprocessor_config.json")
"""Files that decide with the weights about what a tower makes of a sample."""
MOST_LOADED = 8
"""Towers in memory at once; texts, and images of each size, have one of their own."""
MOST_KEPT_BYTES = 512 << 20
"""Bytes of features of one tower that are kept in memory, so that no sample is read twice."""


class TowerReading(Settings):
    """A tower, and the files that it was.

    Attributes:
        path: Absolute folder, or name in the local Hugging Face cache.
        digest: SHA-256 of the weights.
        beside: SHA-256 of each file of ``BESIDE`` that there is.
        reads: What it reads; of a sample's texts or images all columns.
    """

    path: str = Field(max_length=4096)
    digest: str
    beside: dict[str, str]
    reads: tuple[Literal["tokens", "image"], ...] = Field(min_length=1)

    @classmethod
    def of(cls, path: str | Path, samples: Samples) -> Self:
        """The tower in a folder, for samples with texts or images.

        Raises:
            NotFoundError: No such folder or name, or no weights in it.
            UsageError: An unknown family, or the samples have nothing that it reads.
            UnsafeFileError: The weights are a pickle only.
            DataError: Files that cannot be read, or a text model without tokenizer.json.
            MissingExtraError: transformers is not installed.
        """
        if find_spec("transformers") is None:
            raise missing_extra("transformers", "hf", "pretrained models")
        name = str(path)
        there = {"tokens": bool(samples.texts), "image": bool(samples.images)}
        able = modalities(name)
        reads = tuple(modality for modality in able if there[modality])
        if not reads:
            words = " and ".join({"tokens": "texts", "image": "images"}[modality] for modality in able)
            raise UsageError(f"the tower {name} reads {words}, and the data have no column of them.")
        folder = Path(name).expanduser()
        where = str(folder.absolute()) if folder.is_dir() else name
        beside = _digests(where)
        if "tokens" in reads and "tokenizer.json" not in beside:
            raise DataError(f"{name} has no tokenizer.json, without which it reads no text; save its tokenizer there.")
        return cls(path=where, digest=weights_digest(where), beside=beside, reads=reads)

    @property
    def name(self) -> str:
        """Name of the folder, or name in the cache."""
        return Path(self.path).name if Path(self.path).is_absolute() else self.path

    def read(self, samples: Samples, progress: Progress | None = None) -> Samples:
        """The samples with the tower's features among their numbers, in the place of the texts or images.

        A text without tokens and an image that is not there have no features: their numbers are missing.

        Args:
            samples: Samples (n, F).
            progress: Called with the progress; what it raises ends the reading.

        Raises:
            StoreDamagedError: The tower's files are others than they were.
            NotFoundError, UnsafeFileError, DataError, MissingExtraError: It cannot be loaded.
        """
        vectors: list[NDArray[np.float64]] = []
        given: dict[str, Any] = {}
        if "tokens" in self.reads:
            for texts in samples.texts:
                vectors.append(self._memory(None).read(texts, texts, progress))
            given["texts"] = ()
        if "image" in self.reads:
            for images, present in zip(samples.images, samples.present, strict=True):
                names = [hashlib.blake2b(image.tobytes(), digest_size=16).hexdigest() for image in images]
                shape = (images.shape[1], images.shape[2], images.shape[3])
                found = self._memory(shape).read(names, images, progress)
                vectors.append(np.where(present[:, None], found, np.nan))
            given |= {"images": (), "present": ()}
        numbers = np.concatenate([samples.numbers, *vectors], axis=1)
        rest = {"texts": samples.texts, "images": samples.images, "present": samples.present, **given}
        return Samples(samples.count, numbers, samples.codes, **rest)

    def _memory(self, shape: tuple[int, int, int] | None) -> _Memory:
        return _memory(self.path, self.digest, tuple(sorted(self.beside.items())), shape)


class _Pooled(Protocol):
    width: int

    def read(self, some: Any, progress: Progress | None = None) -> NDArray[np.float32]: ...


class _Memory:
    """A loaded tower with the features of what it has read in this process."""

    def __init__(self, tower: _Pooled) -> None:
        self._tower = tower
        self._known: dict[str, NDArray[np.float32]] = {}

    def read(
        self, names: Sequence[str], things: Sequence[str] | NDArray[Any], progress: Progress | None
    ) -> NDArray[np.float64]:
        """Features (n, D) of things, each known by its name."""
        new = {name: place for place, name in enumerate(names) if name not in self._known}
        wanted = list(new.values())
        some = things[wanted] if isinstance(things, np.ndarray) else [things[place] for place in wanted]
        if wanted:
            if (len(self._known) + len(wanted)) * self._tower.width * 4 > MOST_KEPT_BYTES:
                known = {name: self._known[name] for name in names if name in self._known}
                self._known = known
            self._known |= dict(zip(new, self._tower.read(some, progress), strict=True))
        rows = [self._known[name] for name in names]
        return np.stack(rows).astype(np.float64) if rows else np.zeros((0, self._tower.width))


@lru_cache(maxsize=MOST_LOADED)
def _memory(path: str, digest: str, beside: tuple[tuple[str, str], ...], shape: tuple[int, int, int] | None) -> _Memory:
    from evodevo.networks.towers.pooled import PooledImages, PooledTexts  # they load torch and transformers

    check_digest(path, digest)
    if _digests(path) != dict(beside):
        raise StoreDamagedError(f"the files beside the weights in {path} are others than when the model was fitted.")
    tower: PooledTexts | PooledImages
    tower = PooledTexts(path, digest) if shape is None else PooledImages(path, digest, shape)
    return _Memory(tower)


def _digests(path: str) -> dict[str, str]:
    folder = model_folder(path)
    root = root_of(folder)
    return {name: files.sha256(folder / name, inside=root) for name in BESIDE if files.regular(folder / name, root)}
