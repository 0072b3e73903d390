"""Tokenizers for the texts of a user's table: words, bytes, byte pairs, or a tokenizer file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical
from evodevo.errors import DataError
from evodevo.tasks.text import tokenizers
from evodevo.tasks.text.words import UNKNOWN, Vocabulary, cut

_FORMAT = "evodevo.words/1"
_FEWEST_PAIRS = 257


class Coder(Protocol):
    """Conversion of text to ids in [0, vocabulary) and back; every ``Tokenizer`` satisfies it."""

    @property
    def vocabulary(self) -> int: ...
    def encode(self, text: str) -> NDArray[np.int64]: ...
    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str: ...
    def to_bytes(self) -> bytes: ...
    def describe(self) -> dict[str, Any]: ...


class TableVocabulary:
    """A coder whose ids are the words of the training texts.

    Args:
        vocabulary: Words of the training texts.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._words = vocabulary
        self.vocabulary = len(vocabulary)

    def encode(self, text: str) -> NDArray[np.int64]:
        pieces = cut(text)
        ids: NDArray[np.int64] = self._words.encode([pieces], len(pieces))[0]
        return ids

    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        return self._words.decode(np.asarray(ids, np.int64))

    def to_bytes(self) -> bytes:
        return canonical.dumps({"format": _FORMAT, "words": list(self._words.words)}).encode()

    def describe(self) -> dict[str, Any]:
        return {"kind": "words", "vocabulary": self.vocabulary, "unknown": UNKNOWN}


def identify(name: str, vocabulary: int) -> dict[str, Any]:
    """The identity of the coder that a setting names, as part of a key. JSON-able.

    Raises:
        DataError: The file is no tokenizer.
    """
    if name == "words":
        return {"kind": "words", "vocabulary": vocabulary}
    return tokenizers.choose(name, vocabulary)[1]


def choose(name: str, vocabulary: int, texts: Sequence[str]) -> Coder:
    """The coder that a setting names, trained on the texts where needed.

    Raises:
        DataError: The file is no tokenizer, or the vocabulary is too small for byte pairs.
    """
    if name == "words":
        return TableVocabulary(Vocabulary.of((cut(text) for text in texts), vocabulary))
    given, _ = tokenizers.choose(name, vocabulary)
    if given is None and vocabulary < _FEWEST_PAIRS:
        raise DataError(f"byte pairs need a vocabulary of {_FEWEST_PAIRS} at least, got {vocabulary}; or use 'bytes'.")
    return given or tokenizers.train_bpe([text.encode() for text in texts], vocabulary)


def from_bytes(data: bytes) -> Coder:
    """The coder that ``to_bytes`` wrote.

    Raises:
        DataError: The bytes are no coder.
    """
    match canonical.loads(data, what="the words of a table", max_bytes=2 * tokenizers.MAX_FILE_BYTES):
        case {"format": "evodevo.words/1", "words": list(words), **rest} if not rest:
            return TableVocabulary(Vocabulary([str(word) for word in words]))
    return tokenizers.from_bytes(data)


def comparable(name: str, text: str) -> bytes:
    """A normal form of a text, equal for texts that are equal or almost equal to a model."""
    return " ".join(cut(text) if name == "words" else text.split()).encode()
