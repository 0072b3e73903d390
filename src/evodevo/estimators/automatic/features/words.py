"""Texts as tf-idf: counts of n-grams of words, tokens or characters, by scikit-learn, kept as terms and weights.

Legend: n texts, V terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.settings import Settings

Unit = Literal["words", "tokens", "characters"]
MOST_TERMS = 60_000
FEW = 1_000
"""Number of texts below which terms of a single text count, too."""


class TextTerms(Settings):
    """The terms of the training texts.

    Attributes:
        unit: Words; words and marks of punctuation; or characters within words.
        longest: Largest number of units in a term.
        terms: The V terms, in the order of the columns.
        weights: Inverse document frequency of each term, (V,).
    """

    unit: Unit
    longest: int = Field(ge=1, le=8)
    terms: tuple[str, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, texts: Sequence[str], unit: Unit, longest: int, most: int, few: int = FEW) -> Self:
        """Learn terms and weights; no terms where no text has one.

        Args:
            texts: Training texts.
            unit, longest: See the class.
            most: Largest number of terms; the most frequent ones are kept.
            few: Number of texts from which on a term has to be in two of them, where any is.
        """
        for fewest in (1,) if len(texts) < few else (2, 1):
            vectorizer = _vectorizer(unit, longest, min_df=fewest, max_features=most)
            try:
                vectorizer.fit(texts)
            except ValueError:  # no term is in so many texts
                continue
            names = tuple(vectorizer.get_feature_names_out().tolist())
            return cls(unit=unit, longest=longest, terms=names, weights=tuple(vectorizer.idf_.tolist()))
        return cls(unit=unit, longest=longest, terms=(), weights=())

    def read(self, texts: Sequence[str]) -> Any:
        """tf-idf of texts, (n, V), sparse, each row of length 1 or 0."""
        from scipy.sparse import csr_matrix

        if not self.terms:
            return csr_matrix((len(texts), 0))
        return self._fitted.transform(texts)

    @cached_property
    def _fitted(self) -> Any:
        vectorizer = _vectorizer(self.unit, self.longest, vocabulary=list(self.terms))
        vectorizer.idf_ = np.asarray(self.weights)
        return vectorizer


def lengths(texts: Sequence[str]) -> NDArray[np.float64]:
    """Number of words and of characters of each text, (n, 2), on a logarithmic scale."""
    return np.asarray([[np.log1p(len(text.split())), np.log1p(len(text))] for text in texts]).reshape(-1, 2)


def _vectorizer(unit: str, longest: int, **settings: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    if unit == "characters":
        return TfidfVectorizer(analyzer="char_wb", ngram_range=(2, longest), sublinear_tf=True, **settings)
    pattern = r"(?u)\b\w+\b" if unit == "words" else r"(?u)\w+|[^\w\s]"
    return TfidfVectorizer(token_pattern=pattern, ngram_range=(1, longest), sublinear_tf=True, **settings)
