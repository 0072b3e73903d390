"""Texts as a network reads them: word ids in order, and weighted counts of words and of pairs of words.

Legend: n samples, L words of a text that are read in order, V terms (words and pairs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from evodevo.estimators.automatic.features.words import TextTerms
from evodevo.settings import Settings
from evodevo.tasks.text.words import PADDING, Vocabulary, cut

TEXT, TERMS, TERM_WEIGHTS = "text", "terms", "terms/weight"
MOST_WORDS, MOST_TERMS = 20_000, 40_000
MOST_LENGTH = 128
_RARE = 100
"""Number of training texts from which a term has to be in two of them."""


class TextReading(Settings):
    """Vocabularies of the training texts; a word that is in none of them is unknown.

    Attributes:
        words: Words in the order of their ids.
        length: L.
        terms: V words and pairs of words, with their weights.
    """

    words: tuple[str, ...]
    length: int
    terms: TextTerms

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self | None:
        """Measure the training texts; None where none has a word."""
        there = [(text, words) for text in texts if (words := cut(text))]
        if not there:
            return None
        cuts = [words for _, words in there]
        return cls(
            words=Vocabulary.of(cuts, MOST_WORDS).words,
            length=min(MOST_LENGTH, max(map(len, cuts))),
            terms=TextTerms.of([text for text, _ in there], "tokens", 2, MOST_TERMS, _RARE),
        )

    def read(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], csr_array]:
        """Word ids (n, L), padded with ``PADDING``; weights of the terms (n, V), each row of length 1 or empty."""
        tokens = Vocabulary(self.words).encode([cut(text) for text in texts], self.length)
        return tokens, csr_array(self.terms.read(texts) if texts else (0, len(self.terms.terms)))


def padded_terms(weights: csr_array) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Term ids, from 1, and their weights, both (B, most terms of a sample and at least 1), filled up with zeros."""
    lengths = np.diff(weights.indptr)
    ids = np.zeros((len(lengths), max(1, int(lengths.max(initial=0)))), np.int64)
    filled = np.zeros(ids.shape, np.float32)
    there = np.arange(ids.shape[1]) < lengths[:, None]
    ids[there] = weights.indices + 1
    filled[there] = weights.data
    return ids, filled


def text_mask(tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(n, L), true at words."""
    return np.asarray(tokens != PADDING)
