"""Laws of the split: a partition, by content, never empty."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import DataError
from evodevo.tasks.base import SPLITS
from evodevo.tasks.splits import BY_DOCUMENT, BY_POSITION, BY_POSITION_IN_EACH, SEPARATOR, split

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


def test_few_documents_are_each_cut_and_many_are_held_out_whole() -> None:
    few, many = ([f"document {i} ".encode() * 30 for i in range(count)] for count in (12, 600))
    parts = split(few, "auto")
    assert parts == split(few, "position")
    assert parts.rule == BY_POSITION_IN_EACH
    pieces = zip(*(parts.documents[name] for name in SPLITS), strict=True)
    assert [b"".join(of_one) for of_one in pieces] == few, "each document is in order, whole, with a part in each split"
    sizes = {name: sum(map(len, parts.documents[name])) / sum(map(len, few)) for name in SPLITS}
    assert sizes == pytest.approx({"train": 0.9, "validation": 0.05, "test": 0.05}, abs=0.005)
    assert split(many, "auto") == split(many, "document") == split(many)
    assert split(many, "position").rule == BY_POSITION_IN_EACH


def test_many_documents_of_which_the_held_out_ones_are_tiny_are_cut() -> None:
    documents = [f"document {i}".encode() for i in range(600)]
    train = split(documents).documents["train"][0]
    long = [document * 5000 if document == train else document for document in documents]
    assert split(long).rule == BY_DOCUMENT
    assert split(long, "auto").rule == BY_POSITION_IN_EACH, "a few short documents are not a twentieth of the text"


def test_whole_documents_need_three() -> None:
    with pytest.raises(DataError, match="auto or position"):
        split([b"a" * 100, b"b" * 100], "document")
    assert split([b"a" * 100, b"b" * 100], "auto").rule == BY_POSITION_IN_EACH


@given(TEXTS)
def test_cut_documents_lose_no_character(texts: list[str]) -> None:
    documents = [text.encode() for text in texts]
    try:
        parts = split(documents, "position")
    except DataError:
        assert all(len(text) < 20 for text in texts), "20 characters have three parts"
        return
    assert all(parts.documents.values())
    assert sum(len(piece) for name in SPLITS for piece in parts.documents[name]) == sum(map(len, documents))
