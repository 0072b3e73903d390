"""Features of trees: numbers as they are, categories, and texts and images in a few numbers.

Legend: n samples, D features, V terms, K components.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from evodevo.estimators.automatic.features import pixels, words
from evodevo.estimators.automatic.features.words import TextTerms
from evodevo.settings import Settings
from evodevo.tasks.rows.samples import Samples

SIDE = 12
FEW_LEVELS = 12
"""Number of codes up to which a category is one feature per code; above it is the code, most frequent first."""
COMPONENTS = 48
TERMS = 8_000
DIGITS = 9
"""Digits after the point of components: a tree must not split by what rounding adds, which differs between processors.
"""


class DenseFeatures(Settings):
    """What the training samples had; the components of texts are an array beside it.

    Attributes:
        levels: Number of codes of each category.
        terms: TextTerms of each column of texts.
    """

    levels: tuple[int, ...]
    terms: tuple[TextTerms, ...] = ()

    @classmethod
    def of(cls, samples: Samples, levels: tuple[int, ...], seed: int) -> tuple[Self, list[NDArray[np.float64]]]:
        """Learn from training samples; returns the components of each column of texts, (V, K), too.

        Args:
            samples: Training samples.
            levels: Number of codes of each category.
            seed: Seed of the decomposition.
        """
        terms, components = [], []
        for text in samples.texts:
            own = TextTerms.of(text, "words", 1, TERMS)
            terms.append(own)
            components.append(_components(own.read(text), seed))
        return cls(levels=levels, terms=tuple(terms)), components

    def read(self, samples: Samples, components: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Features (n, D), NaN where a number is missing."""
        parts = [samples.numbers]
        for place, size in enumerate(self.levels):
            codes = samples.codes[:, place]
            parts.append(np.eye(size)[codes] if size <= FEW_LEVELS else codes[:, None].astype(np.float64))
        for terms, text, component in zip(self.terms, samples.texts, components, strict=True):
            parts += [np.round(np.asarray(terms.read(text) @ component), DIGITS), words.lengths(text)]
        parts += [pixels.flat(images, SIDE) for images in samples.images]
        return np.concatenate([part.reshape(samples.count, -1) for part in parts], axis=1)


def _components(table: Any, seed: int) -> NDArray[np.float64]:
    """Right singular vectors (V, K) of the largest singular values of a table (n, V)."""
    count = min(COMPONENTS, min(table.shape) - 1)
    if count < 1:
        return np.zeros((table.shape[1], 0))
    from sklearn.utils.extmath import randomized_svd

    _, _, right = randomized_svd(table, count, random_state=seed % 2**32)
    turned: NDArray[np.float64] = np.ascontiguousarray(right.T)
    return turned
