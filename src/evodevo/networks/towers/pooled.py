"""One vector for each text or image, by a frozen tower: the mean over the positions of its last layer.

Legend: n samples, L positions, D channels of the tower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evodevo.networks.towers.model import build_tower
from evodevo.networks.towers.spec import ExtractorStructure, tower_sizes
from evodevo.operators.pretrained.spec import model_folder
from evodevo.tasks.images.pixels import Pixels
from evodevo.tasks.inputs import InputSpec
from evodevo.tasks.text.tokenizers import read_tokenizer_file

MOST_TOKENS = 128
"""Largest number of tokens of a text that are read, without special ones."""
BATCH = 32
NAME = "input"
Progress = Callable[[int, int], None]
"""Called after each batch with the samples that are done, and all of them. It may raise, which ends the reading."""


class PooledTexts:
    """The vectors of texts, read with the tower's own tokenizer. A text without tokens has none: its vector is NaN.

    Texts of one batch have equally many tokens, so that no position is padding.

    Args:
        path: folder with config.json, model.safetensors and tokenizer.json, or a name in the local Hugging Face cache.
        digest: SHA-256 of the weights.

    Raises:
        NotFoundError, UsageError, UnsafeFileError, StoreDamagedError, DataError, MissingExtraError: see
            ``build_tower``; without a tokenizer DataError.
    """

    def __init__(self, path: str, digest: str) -> None:
        spec = text_spec(path)
        self._tokenizer = read_tokenizer_file(model_folder(path))
        self._longest = spec.length
        structure = ExtractorStructure(kind="hugging_face", path=path, digest=digest)
        self._tower = build_tower(spec, structure, missing=False).eval()
        self.width = tower_sizes(path, spec).width

    def read(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        """Vectors (n, D)."""
        found = np.full((len(texts), self.width), np.nan, np.float32)
        tokens = [self._tokenizer.encode(text)[: self._longest] for text in texts]
        order = sorted(range(len(texts)), key=lambda place: (len(tokens[place]), place))
        done = 0
        for length, group in groupby(order, key=lambda place: len(tokens[place])):
            places = list(group)
            for begin in range(0, len(places), BATCH):
                some = places[begin : begin + BATCH]
                if length:
                    ids = torch.from_numpy(np.stack([tokens[place] for place in some]))
                    found[some] = _pooled(self._tower, {NAME: ids})
                done += len(some)
                if progress is not None:
                    progress(done, len(texts))
        return found


def text_spec(path: str) -> InputSpec:
    """Input of a text tower: the ids of its own tokenizer, and as many tokens as it has room for beside special ones.

    Args:
        path: see ``PooledTexts``.

    Raises:
        DataError: there is no tokenizer.
        NotFoundError, UsageError: see ``tower_sizes``.
    """
    spec = InputSpec(NAME, "tokens", length=1, vocabulary=read_tokenizer_file(model_folder(path)).vocabulary)
    sizes = tower_sizes(path, spec)
    return replace(spec, length=min(MOST_TOKENS, sizes.longest - len(sizes.prefix) - len(sizes.suffix)))


class PooledImages:
    """The vectors of images, prepared as the tower's preprocessor_config.json states.

    Args:
        path, digest: see ``PooledTexts``; no tokenizer is needed.
        shape: height, width and channels of the images.

    Raises:
        NotFoundError, UsageError, UnsafeFileError, StoreDamagedError, DataError, MissingExtraError: see
            ``build_tower``.
    """

    def __init__(self, path: str, digest: str, shape: tuple[int, int, int]) -> None:
        spec = InputSpec(NAME, "image", height=shape[0], width=shape[1], channels=shape[2])
        structure = ExtractorStructure(kind="hugging_face", path=path, digest=digest)
        self._tower = build_tower(spec, structure, missing=False).eval()
        self.width = tower_sizes(path, spec).width

    def read(self, images: Pixels, progress: Progress | None = None) -> NDArray[np.float32]:
        """Vectors (n, D) of images (n, height, width, channels)."""
        found = np.full((len(images), self.width), np.nan, np.float32)
        for begin in range(0, len(images), BATCH):
            some = slice(begin, begin + BATCH)
            found[some] = _pooled(self._tower, {NAME: torch.from_numpy(np.ascontiguousarray(images[some]))})
            if progress is not None:
                progress(min(begin + BATCH, len(images)), len(images))
        return found


@torch.inference_mode()
def _pooled(tower: torch.nn.Module, batch: dict[str, Tensor]) -> NDArray[np.float32]:
    """Mean over the positions, (n, D); no position of the batch is padding."""
    h, _ = tower(batch, len(batch[NAME]))
    means: NDArray[np.float32] = h.float().mean(1).numpy()
    return means
