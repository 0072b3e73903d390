"""Generated languages: random letter chains in six alphabets (docs/spec/h_model.md#experiments).

Two of the languages share an alphabet, so that a probe for the language can be distinguished from a probe for the
alphabet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.randomness import generator
from evodevo.settings import Settings

ALPHABETS = {
    "aral": "abcdefghiklmnoprstuv",
    "bemo": "abcdefghiklmnoprstuv",
    "cyri": "абвгдежзиклмнопрстуф",
    "damo": "αβγδεζηθικλμνξοπρστυ",
    "ermi": "աբգդեզէըթժիլխծկհձղճմ",
    "fars": "ابتثجحخدذرزسشصضطظعغف",
}
"""Language -> its letters; 20 each."""

_LETTERS = 20
_END = 0.2  # probability that a word ends after a letter
_DIRICHLET = 0.12  # concentration of the next letter's distribution given two letters; a small one is predictable


class SyntheticSettings(Settings):
    """Amount of text in the six languages."""

    documents: int = Field(default=300, ge=8, le=100_000, description="number of documents per language")
    letters: int = Field(default=400, ge=16, le=100_000, description="number of letters per document, with spaces")
    seed: int = Field(default=0, ge=0, lt=2**63, description="seed of the generator")


def generate(settings: SyntheticSettings) -> dict[str, list[bytes]]:
    """Language -> documents as UTF-8; within a language the next letter depends on the two before it."""
    return {language: _documents(settings, language, letters) for language, letters in ALPHABETS.items()}


def _documents(settings: SyntheticSettings, language: str, letters: str) -> list[bytes]:
    rng = generator(settings.seed, language, "synthetic language")
    # Row (a, b) is the distribution of the letter after a, b; at the beginning of a word both are `_LETTERS`, a space.
    follow = rng.dirichlet(np.full(_LETTERS, _DIRICHLET), (_LETTERS + 1, _LETTERS + 1))
    cumulative = np.minimum(np.cumsum(follow, axis=2), 1.0)
    count = settings.documents
    written = np.empty((count, settings.letters), np.int64)
    before = last = np.full(count, _LETTERS)
    for index in range(settings.letters):
        ends = (rng.random(count) < _END) & (last != _LETTERS)
        draws = rng.random(count)[:, None]
        following: NDArray[np.int64] = (cumulative[before, last] <= draws).sum(axis=1)
        current = np.where(ends, _LETTERS, np.minimum(following, _LETTERS - 1))
        written[:, index] = current
        before, last = np.where(ends, _LETTERS, last), current
    symbols = f"{letters} "
    return ["".join(symbols[index] for index in row).strip().encode() for row in written.tolist()]
