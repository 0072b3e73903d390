"""Laws of the split: a partition, by content, never empty."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import DataError
from evodevo.tasks.base import SPLITS
from evodevo.tasks.splits import BY_DOCUMENT, BY_POSITION, SEPARATOR, split

TEXTS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), unique=True)


@given(TEXTS.filter(lambda texts: len(texts) >= 3), st.randoms())
def test_a_partition_without_empty_splits_that_ignores_order(texts: list[str], shuffler: object) -> None:
    documents = [text.encode() for text in texts]
    parts = split(documents)
    assert parts.rule == BY_DOCUMENT
    assert sorted(document for name in SPLITS for document in parts.documents[name]) == sorted(documents)
    for name in SPLITS:
        assert parts.documents[name]
        assert list(parts.documents[name]) == [text for text in documents if text in parts.documents[name]]
    shuffled = documents[:]
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    assert {name: set(members) for name, members in split(shuffled).documents.items()} == {
        name: set(members) for name, members in parts.documents.items()
    }


def test_with_many_documents_a_document_stays_where_it_is_when_others_come() -> None:
    documents = [f"document {i}".encode() for i in range(2000)]
    before, after = split(documents[:1000]), split(documents)
    for name in SPLITS:
        assert set(before.documents[name]) == set(after.documents[name]) & set(documents[:1000])
    assert 1700 < len(after.documents["train"]) < 1880
    assert 60 < len(after.documents["validation"]) < 150


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=20))
def test_one_document_is_cut_into_contiguous_text(text: str) -> None:
    parts = split([text.encode()])
    assert parts.rule == BY_POSITION
    pieces = [b"".join(parts.documents[name]) for name in SPLITS]
    assert b"".join(pieces) == text.encode()
    assert all(pieces)
    assert "".join(piece.decode() for piece in pieces) == text
    assert len(pieces[0].decode()) == int(0.9 * len(text))


def test_two_documents_keep_their_border() -> None:
    parts = split([b"a" * 100, b"b" * 100])
    assert parts.documents["train"] == (b"a" * 100, b"b" * 79)
    assert SEPARATOR not in b"".join(b"".join(parts.documents[name]) for name in SPLITS)


def test_too_little_to_cut() -> None:
    for text in ("", "a", "\u20ac\u20ac"):
        with pytest.raises(DataError, match="cannot be cut"):
            split([text.encode()])
    parts = split([("\u20ac" * 3).encode()])
    assert [len(b"".join(parts.documents[name])) for name in SPLITS] == [3, 3, 3], "three characters are enough"
