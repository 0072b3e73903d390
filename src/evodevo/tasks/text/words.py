"""A vocabulary of words that is fixed by the training texts, and the division of text into words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError

PADDING, UNKNOWN = 0, 1
_RESERVED = ("<padding>", "<unknown>")
_WORD = re.compile(r"\w+|[^\w\s]")


def cut(text: str) -> list[str]:
    """Words and punctuation in lower case."""
    return _WORD.findall(text.lower())


class Vocabulary:
    """Words and their ids; 0 is padding, 1 any unknown word.

    Args:
        words: Distinct words in order of their ids, without the two reserved ones.

    Raises:
        UsageError: A word is given twice.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._ids = {word: number for number, word in enumerate(self.words, start=len(_RESERVED))}
        if len(self._ids) != len(self.words):
            raise UsageError("a vocabulary names a word twice.")

    def __len__(self) -> int:
        return len(self.words) + len(_RESERVED)

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], most: int) -> Vocabulary:
        """The commonest words, at most ``most`` ids with the reserved ones; ties are broken alphabetically."""
        counts = Counter(word for text in texts for word in text)
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(ordered[: max(0, most - len(_RESERVED))])

    def encode(self, texts: Sequence[Sequence[str]], length: int) -> NDArray[np.int64]:
        """Token ids, cut or padded at the end. Shape ``(texts, length)``."""
        tokens = np.full((len(texts), length), PADDING, np.int64)
        for row, text in enumerate(texts):
            ids = [self._ids.get(word, UNKNOWN) for word in text[:length]]
            tokens[row, : len(ids)] = ids
        return tokens

    def decode(self, tokens: NDArray[np.integer]) -> str:
        """The words of one text (tokens,), separated by spaces, without padding."""
        table = _RESERVED + self.words
        return " ".join(table[token] for token in tokens.tolist() if token != PADDING)
