"""Baselines of language models: unigram and bigram counts over bytes.

They use the bytes of the text, whatever the tokenizer, and predict each byte without context (unigram) or from the
previous byte (bigram), with add-α smoothing: p(b | a) = (c(a, b) + α) / (c(a) + 256 α). α is chosen on validation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ALPHAS = (1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0)
_BYTES = 256
_STRETCH = 1 << 24


@dataclass(frozen=True)
class CountModel:
    """A smoothed unigram or bigram model over bytes.

    Args:
        name: Name of the baseline: "byte_unigram" or "byte_bigram".
        alpha: Smoothing α that was best on validation, above 0.
        bits: -log2 p(b | a), shape ``(256, 256)``, indexed ``[a, b]``; the rows of a unigram model are equal.
    """

    name: str
    alpha: float
    bits: NDArray[np.float64]

    def bits_per_byte(self, streams: Iterable[NDArray[np.uint8]]) -> float:
        """Mean bits per byte over all bytes except the first of each stream.

        Args:
            streams: Texts as bytes, each of shape ``(bytes,)``; the first byte of each is context only.

        Raises:
            ValueError: No stream has two bytes.
        """
        counts = pair_counts(streams)
        if not counts.any():
            raise ValueError("a text of at least two bytes is needed")
        return float((counts * self.bits).sum() / counts.sum())


def pair_counts(streams: Iterable[NDArray[np.uint8]]) -> NDArray[np.int64]:
    """Number of times that byte b follows byte a. Shape ``(256, 256)``, indexed ``[a, b]``."""
    total = np.zeros(_BYTES * _BYTES, dtype=np.int64)
    for stream in streams:
        # In stretches: the pairs take eight times the memory of the text.
        for begin in range(0, len(stream) - 1, _STRETCH):
            part = stream[begin : begin + _STRETCH + 1]
            pairs = part[:-1].astype(np.int64) * _BYTES + part[1:]
            total += np.bincount(pairs, minlength=_BYTES * _BYTES)
    return total.reshape(_BYTES, _BYTES)


def fit_bigram(train: NDArray[np.uint8], validation: NDArray[np.uint8]) -> CountModel:
    """The byte-bigram model of the training text, α chosen on the validation text."""
    return _fit("byte_bigram", pair_counts([train]), pair_counts([validation]))


def fit_unigram(train: NDArray[np.uint8], validation: NDArray[np.uint8]) -> CountModel:
    """The byte-unigram model of the training text, α chosen on the validation text."""
    single = np.zeros(_BYTES, dtype=np.int64)
    for begin in range(0, len(train), _STRETCH):
        single += np.bincount(train[begin : begin + _STRETCH], minlength=_BYTES)
    return _fit("byte_unigram", np.broadcast_to(single, (_BYTES, _BYTES)), pair_counts([validation]))


def _fit(name: str, counts: NDArray[np.int64], held_out: NDArray[np.int64]) -> CountModel:
    best: CountModel | None = None
    lowest = math.inf
    for alpha in ALPHAS:
        probabilities = (counts + alpha) / (counts.sum(axis=1, keepdims=True) + _BYTES * alpha)
        bits = -np.log2(probabilities)
        cost = float((held_out * bits).sum())
        if cost < lowest:
            best, lowest = CountModel(name, alpha, bits), cost
    assert best is not None, "the cost of a smoothed model is finite"
    return best
