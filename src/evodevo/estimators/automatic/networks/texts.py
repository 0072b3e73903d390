"""Texts as a network reads them: word ids in order, and weighted counts of words and of pairs of words.

Legend: n samples, L words of a text that are read in order, V terms (words and pairs).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

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
        terms: V words and pairs of words, in the order of their ids.
        rarity: ln((1 + n) / (1 + number of texts with the term)) + 1, of each term.
    """

    words: tuple[str, ...]
    length: int
    terms: tuple[str, ...]
    rarity: tuple[float, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self | None:
        """Measure the training texts; None where none has a word."""
        cuts = [words for words in map(cut, texts) if words]
        if not cuts:
            return None
        counts, terms = _counted(cuts)
        rarity = np.log((1 + len(cuts)) / (1 + (counts > 0).sum(0))) + 1
        return cls(
            words=Vocabulary.of(cuts, MOST_WORDS).words,
            length=min(MOST_LENGTH, max(map(len, cuts))),
            terms=terms,
            rarity=tuple(np.asarray(rarity).ravel().tolist()),
        )

    def read(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], csr_array]:
        """Word ids (n, L), padded with ``PADDING``; weights of the terms (n, V), each row of length 1 or empty."""
        cuts = [cut(text) for text in texts]
        tokens = Vocabulary(self.words).encode(cuts, self.length)
        counts = _counter(vocabulary=self.terms).transform(cuts) if cuts else csr_array((0, len(self.terms)))
        counts = csr_array(counts, dtype=np.float32)
        counts.data = 1 + np.log(counts.data)
        return tokens, csr_array(normalize(counts @ diags_array(np.array(self.rarity, np.float32))))


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


def _counted(cuts: Sequence[list[str]]) -> tuple[Any, tuple[str, ...]]:
    """Counts (n, V), and the terms."""
    for fewest in (2, 1) if len(cuts) >= _RARE else (1,):
        counter = _counter(min_df=fewest, max_features=MOST_TERMS)
        try:
            counts = counter.fit_transform(cuts)
        except ValueError:  # every term is in one text alone
            continue
        return counts, tuple(counter.get_feature_names_out().tolist())
    raise AssertionError("there are words")


def _counter(**settings: Any) -> CountVectorizer:
    return CountVectorizer(analyzer=_words_and_pairs, **settings)


def _words_and_pairs(words: Sequence[str]) -> Iterable[str]:
    return [*words, *(f"{first} {second}" for first, second in pairwise(words))]
