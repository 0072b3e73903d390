"""Right answers come back as they were, and nothing else does."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import UnsafeFileError
from evodevo.experiments import correct_bits as right_answers
from evodevo.experiments.correct_bits import pack, unpack


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, float("nan")])))
def test_what_was_packed_comes_back(values: list[float]) -> None:
    assert np.array_equal(unpack(pack(np.asarray(values))), np.asarray(values), equal_nan=True)


@given(st.lists(st.floats(0, 1), min_size=1))
def test_shares_keep_a_two_hundredth(values: list[float]) -> None:
    assert np.abs(unpack(pack(np.asarray(values))) - values).max() <= 1 / 508 + 1e-12


def test_a_thousand_samples_are_a_short_text() -> None:
    rng = np.random.default_rng(0)
    assert len(pack((rng.uniform(size=1000) < 0.9).astype(float))) < 400


@pytest.mark.parametrize("text", ["", "!", "AAAA", base64.b64encode(zlib.compress(b"abc")[:-2]).decode(), "ü"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UnsafeFileError, match="right answers"):
        unpack(text)


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right_answers, "MOST", 100)
    with pytest.raises(UnsafeFileError, match="more than 100"):
        unpack(pack(np.zeros(1000)))
