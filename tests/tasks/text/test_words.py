"""Text as words with numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import UsageError
from evodevo.tasks.text.words import PADDING, UNKNOWN, Vocabulary, cut

WORDS = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=8)


@given(st.lists(WORDS, min_size=1, max_size=8))
def test_known_words_come_back(texts: list[list[str]]) -> None:
    vocabulary = Vocabulary.of(texts, 100)
    tokens = vocabulary.encode(texts, 8)
    assert tokens.max() < len(vocabulary)
    assert [vocabulary.decode(row) for row in tokens] == [" ".join(text) for text in texts]
    np.testing.assert_array_equal((tokens != PADDING).sum(axis=1), [len(text) for text in texts])


def test_the_commonest_words_are_kept_in_lower_case_and_others_are_unknown() -> None:
    vocabulary = Vocabulary.of([["b", "a", "c"], ["b", "c"], ["b"]], most=4)
    assert vocabulary.words == ("b", "c")
    assert vocabulary.encode([["a", "b", "zebra"]], 2).tolist() == [[UNKNOWN, 2]]
    assert cut("Is it Red? Ja, größer!") == ["is", "it", "red", "?", "ja", ",", "größer", "!"]
    with pytest.raises(UsageError, match="twice"):
        Vocabulary(["a", "a"])
