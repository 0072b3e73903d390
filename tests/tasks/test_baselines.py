"""The count models against a naive double loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evodevo.tasks.baselines import ALPHAS, fit_bigram, fit_unigram, pair_counts

TEXT = st.binary(min_size=2, max_size=60)


def _array(text: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(text, dtype=np.uint8)


def _naive_bigram(train: bytes, alpha: float, text: bytes) -> float:
    bits = 0.0
    for position in range(1, len(text)):
        before, here = text[position - 1], text[position]
        both = alone = 0
        for i in range(len(train) - 1):
            alone += train[i] == before
            both += train[i] == before and train[i + 1] == here
        bits -= math.log2((both + alpha) / (alone + 256 * alpha))
    return bits / (len(text) - 1)


def _naive_unigram(train: bytes, alpha: float, text: bytes) -> float:
    return -sum(math.log2((train.count(b) + alpha) / (len(train) + 256 * alpha)) for b in text[1:]) / (len(text) - 1)


@settings(max_examples=12, deadline=None)
@given(train=TEXT, validation=TEXT, test=TEXT)
def test_both_models_equal_the_naive_ones_at_the_alpha_that_is_best_on_validation(
    train: bytes, validation: bytes, test: bytes
) -> None:
    for fit, naive in ((fit_bigram, _naive_bigram), (fit_unigram, _naive_unigram)):
        model = fit(_array(train), _array(validation))
        assert model.bits_per_byte([_array(test)]) == pytest.approx(naive(train, model.alpha, test))
        lowest = min(naive(train, alpha, validation) for alpha in ALPHAS)
        assert naive(train, model.alpha, validation) == pytest.approx(lowest)


def test_no_pair_crosses_the_border_of_two_streams_and_probabilities_sum_to_one() -> None:
    counts = pair_counts([_array(b"ab"), _array(b"cd"), _array(b"e"), _array(b"")])
    assert counts.sum() == 2
    assert counts[ord("a"), ord("b")] == counts[ord("c"), ord("d")] == 1
    model = fit_bigram(_array(b"abracadabra"), _array(b"abra"))
    assert np.exp2(-model.bits).sum(axis=1) == pytest.approx(np.ones(256))
    with pytest.raises(ValueError, match="two bytes"):
        model.bits_per_byte([_array(b"a")])


def test_a_bigram_knows_what_a_unigram_does_not() -> None:
    text = b"ababababab" * 20
    bigram, unigram = (
        fit(_array(text), _array(text)).bits_per_byte([_array(text)]) for fit in (fit_bigram, fit_unigram)
    )
    assert bigram < 0.1
    assert unigram == pytest.approx(1.0, abs=0.05)
