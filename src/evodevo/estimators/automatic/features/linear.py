"""Features of linear models and nearest neighbours: standardised numbers, one-hot categories, tf-idf, pixels.

Legend: n samples, F numbers, D features.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.estimators.automatic.features import pixels
from evodevo.estimators.automatic.features.words import MOST_TERMS, TextTerms
from evodevo.settings import Settings
from evodevo.tasks.rows.samples import Samples

SIDE = 28
"""Largest height and width of an image whose pixels are features."""
FARTHEST = 10.0
"""Largest distance of a number from the mean, in standard deviations; farther ones are set to it."""


class LinearFeatures(Settings):
    """What the training samples had.

    Attributes:
        means, deviations: Mean and standard deviation of each of the F numbers, 1 where it is constant.
        gaps: Places of the numbers that are missing in some training samples; each gets a feature that states it.
        levels: Number of codes of each category.
        terms: TextTerms of each column of texts, words before characters.
    """

    means: tuple[float, ...]
    deviations: tuple[float, ...]
    gaps: tuple[int, ...]
    levels: tuple[int, ...]
    terms: tuple[tuple[TextTerms, ...], ...] = Field(default=())

    @classmethod
    def of(cls, samples: Samples, levels: tuple[int, ...], *, characters: bool = False) -> Self:
        """Learn from training samples.

        Args:
            samples: Training samples.
            levels: Number of codes of each category.
            characters: Whether texts are characters beside words.
        """
        numbers = samples.numbers
        there = ~np.isnan(numbers)
        held = np.maximum(there.sum(0), 1)
        means = np.where(there, numbers, 0).sum(0) / held
        deviations = np.sqrt((np.where(there, numbers - means, 0) ** 2).sum(0) / held)
        return cls(
            means=tuple(means.tolist()),
            deviations=tuple(np.where(deviations > 1e-12, deviations, 1.0).tolist()),
            gaps=tuple(np.flatnonzero(~there.all(0)).tolist()),
            levels=levels,
            terms=tuple(_terms(text, characters) for text in samples.texts),
        )

    def read(self, samples: Samples) -> Any:
        """Features (n, D): dense where there are no texts, else sparse."""
        gone = np.isnan(samples.numbers)
        scaled = np.where(gone, 0, (samples.numbers - np.asarray(self.means)) / np.asarray(self.deviations))
        parts: list[NDArray[np.float64]] = [scaled.clip(-FARTHEST, FARTHEST), gone[:, list(self.gaps)].astype(float)]
        for place, size in enumerate(self.levels):
            parts.append(np.eye(size)[samples.codes[:, place]])
        parts += [pixels.flat(images, SIDE) for images in samples.images]
        dense = np.concatenate([part.reshape(samples.count, -1) for part in parts], axis=1)
        if not self.terms:
            return dense
        from scipy.sparse import csr_matrix, hstack

        read = [terms.read(text) for every, text in zip(self.terms, samples.texts, strict=True) for terms in every]
        return hstack([csr_matrix(dense), *read], format="csr")


def _terms(texts: tuple[str, ...], characters: bool) -> tuple[TextTerms, ...]:
    words = TextTerms.of(texts, "words", 2, MOST_TERMS)
    return (words, TextTerms.of(texts, "characters", 5, MOST_TERMS)) if characters else (words,)
