"""Features that a frozen pretrained tower makes of texts and images, which plain models read as numbers.

Legend: n samples, F numbers, D channels of a tower.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo import files
from evodevo.errors import DataError, StoreDamagedError, UsageError, missing_extra
from evodevo.estimators.automatic.features.memory import FeatureMemory, Progress, of_images, with_numbers
from evodevo.networks.towers.spec import modalities
from evodevo.operators.pretrained.files import check_digest, weights_digest
from evodevo.operators.pretrained.spec import model_folder, root_of
from evodevo.settings import Settings
from evodevo.tasks.rows.samples import Samples

if TYPE_CHECKING:
    from evodevo.networks.towers.pooled import PooledImages, PooledTexts

BESIDE = ("config.json", "tokenizer.json", "preprocessor_config.json")
"""Files that decide with the weights about what a tower makes of a sample."""
MOST_LOADED = 8
"""Towers in memory at once; texts, and images of each size, have one of their own."""


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
        without: dict[str, Any] = {}
        if "tokens" in self.reads:
            for texts in samples.texts:
                vectors.append(self._memory(None).read(texts, texts, progress))
            without["texts"] = ()
        if "image" in self.reads:
            vectors += of_images(samples, self._memory, progress)
            without |= {"images": (), "present": ()}
        return with_numbers(samples, vectors, without)

    @property
    def identity(self) -> dict[str, str]:
        """What decides about its features."""
        return {**self.beside, "weights": self.digest}

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Its facts; its weights stay in its folder."""
        return self.model_dump(mode="json"), {}

    def _memory(self, shape: tuple[int, int, int] | None) -> FeatureMemory:
        return _memory(self.path, self.digest, tuple(sorted(self.beside.items())), shape)


@lru_cache(maxsize=MOST_LOADED)
def _memory(
    path: str, digest: str, beside: tuple[tuple[str, str], ...], shape: tuple[int, int, int] | None
) -> FeatureMemory:
    from evodevo.networks.towers.pooled import PooledImages, PooledTexts  # they load torch and transformers

    check_digest(path, digest)
    if _digests(path) != dict(beside):
        raise StoreDamagedError(f"the files beside the weights in {path} are others than when the model was fitted.")
    tower: PooledTexts | PooledImages
    tower = PooledTexts(path, digest) if shape is None else PooledImages(path, digest, shape)
    return FeatureMemory(tower)


def _digests(path: str) -> dict[str, str]:
    folder = model_folder(path)
    root = root_of(folder)
    return {name: files.sha256(folder / name, inside=root) for name in BESIDE if files.regular(folder / name, root)}
