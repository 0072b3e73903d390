"""Assignment of documents to splits by their content, independent of order, names and copies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evodevo.errors import DataError
from evodevo.tasks.base import SPLITS, Split
from evodevo.tasks.spooled import Pieces

HELD_OUT_SHARE = 0.05  # for validation, and as much again for test
FEWEST, SMALLEST_SHARE = 3, 0.02
"""Documents of each held-out split, and its share of the bytes, below which there are too few documents to hold whole
ones out."""

Rule = Literal["auto", "document", "position", "legacy"]

BY_DOCUMENT = "by document: SHA-256 of its text, about 90 % train, 5 % validation, 5 % test"
BY_POSITION = "by position: fewer than three documents, so the text is cut at 90 % and 95 % of its characters"
BY_POSITION_IN_EACH = "by position: each document is cut at 90 % and 95 % of its characters"

SEPARATOR = b"\0"
"""Byte after each document in a stream of text; no document contains it."""


@dataclass(frozen=True)
class SplitDocuments:
    """The documents of each split in corpus order, and the rule of the split as text."""

    documents: Mapping[Split, Sequence[bytes]]
    rule: str


def split(documents: Sequence[bytes], rule: Rule = "legacy") -> SplitDocuments:
    """Divide distinct documents into train, validation and test.

    Args:
        documents: Distinct documents in UTF-8.
        rule: ``document``: whole documents; a document's split is a function of its own content alone, except where a
            split would be empty. ``position``: the last tenth of each document is held out, half of it for test.
            ``auto``: by document, but by position where there are few documents: where validation or test would have
            fewer than ``FEWEST`` or less than ``SMALLEST_SHARE`` of the bytes. ``legacy``: by document, however few,
            and by position in all of them together with fewer than three.

    Raises:
        DataError: There is too little text to cut, or too few documents for the rule.
    """
    if rule == "legacy":
        return _by_document(documents) if len(documents) >= 3 else SplitDocuments(_by_position(documents), BY_POSITION)
    if rule == "position":
        return _by_position_in_each(documents)
    if len(documents) >= 3:
        parts = _by_document(documents)
        if rule == "document" or _is_enough(parts):
            return parts
    elif rule == "document":
        raise DataError(
            f"{len(documents)} document(s) cannot be split by document into train, validation and test. Set the rule "
            "of the split to auto or position, or give at least three documents."
        )
    return _by_position_in_each(documents)


def _is_enough(parts: SplitDocuments) -> bool:
    """Whether each held-out split is made of several documents and of about the share that is wanted."""
    sizes = {name: sum(map(len, documents)) for name, documents in parts.documents.items()}
    return all(
        len(parts.documents[name]) >= FEWEST and sizes[name] >= SMALLEST_SHARE * sum(sizes.values())
        for name in ("validation", "test")
    )


def _by_position_in_each(documents: Sequence[bytes]) -> SplitDocuments:
    members: dict[Split, list[tuple[int, int, int | None]]] = {name: [] for name in SPLITS}
    for index, document in enumerate(documents):
        text = document.decode("utf-8")
        first, second = (round(len(text) * (1 - parts * HELD_OUT_SHARE)) for parts in (2, 1))
        begin = 0
        for name, piece in zip(SPLITS, (text[:first], text[first:second], text[second:]), strict=True):
            end = begin + len(piece.encode())
            if piece:
                members[name].append((index, begin, end))
            begin = end
    if not all(members.values()):
        raise DataError(
            f"{sum(map(len, documents)):,} bytes of text cannot be cut into train, validation and test. Give more text."
        )
    return SplitDocuments(
        {name: Pieces(documents, pieces).settled() for name, pieces in members.items()}, BY_POSITION_IN_EACH
    )


def _by_document(documents: Sequence[bytes]) -> SplitDocuments:
    # In [0, 1), and a function of the content alone.
    positions = [int.from_bytes(hashlib.sha256(document).digest()[:6], "big") / 2**48 for document in documents]
    members: dict[Split, list[int]] = {name: [] for name in SPLITS}
    for index, position in enumerate(positions):
        members[_split_at(position)].append(index)
    for name in SPLITS:
        if not members[name]:
            # With three documents or more and an empty split, another split has at least two.
            largest = max(members.values(), key=len)
            moved = min(largest, key=positions.__getitem__)
            largest.remove(moved)
            members[name].append(moved)
    return SplitDocuments(
        {name: Pieces(documents, [(index, 0, None) for index in sorted(members[name])]).settled() for name in SPLITS},
        BY_DOCUMENT,
    )


def _split_at(position: float) -> Split:
    if position < HELD_OUT_SHARE:
        return "validation"
    return "test" if position < 2 * HELD_OUT_SHARE else "train"


def _by_position(documents: Sequence[bytes]) -> dict[Split, tuple[bytes, ...]]:
    text = SEPARATOR.join(documents).decode("utf-8")
    first = min(int(len(text) * (1 - 2 * HELD_OUT_SHARE)), len(text) - 2)
    second = min(max(int(len(text) * (1 - HELD_OUT_SHARE)), first + 1), len(text) - 1)
    parts = {"train": text[: max(first, 0)], "validation": text[max(first, 0) : second], "test": text[second:]}
    cut = {name: tuple(piece.encode() for piece in parts[name].split("\0") if piece) for name in SPLITS}
    if not all(cut.values()):
        raise DataError(
            f"{len(text)} characters of text cannot be cut into train, validation and test. Give more text."
        )
    return cut
