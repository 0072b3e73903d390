"""Assignment of documents to splits by their content, independent of order, names and copies."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.errors import DataError
from evodevo.tasks.base import SPLITS, Split

HELD_OUT_SHARE = 0.05  # for validation, and as much again for test

BY_DOCUMENT = "by document: SHA-256 of its text, about 90 % train, 5 % validation, 5 % test"
BY_POSITION = "by position: fewer than three documents, so the text is cut at 90 % and 95 % of its characters"

SEPARATOR = b"\0"
"""Byte after each document in a stream of text; no document contains it."""


@dataclass(frozen=True)
class SplitDocuments:
    """The documents of each split in corpus order, and the rule of the split as text."""

    documents: dict[Split, tuple[bytes, ...]]
    rule: str


def split(documents: Sequence[bytes]) -> SplitDocuments:
    """Divide distinct documents into train, validation and test.

    With three documents or more each split has at least one, and a document's split is a function of its own content
    alone, except where a split would be empty. With fewer the text itself is cut into three contiguous parts.

    Raises:
        DataError: There are fewer than three documents and too little text to cut.
    """
    if len(documents) < 3:
        return SplitDocuments(_by_position(documents), BY_POSITION)
    # In [0, 1), and a function of the content alone.
    positions = {
        document: int.from_bytes(hashlib.sha256(document).digest()[:6], "big") / 2**48 for document in documents
    }
    members: dict[Split, list[bytes]] = {name: [] for name in SPLITS}
    for document, position in positions.items():
        members[_split_at(position)].append(document)
    for name in SPLITS:
        if not members[name]:
            # With three documents or more and an empty split, another split has at least two.
            largest = max(members.values(), key=len)
            moved = min(largest, key=positions.__getitem__)
            largest.remove(moved)
            members[name].append(moved)
    order = {document: index for index, document in enumerate(documents)}
    return SplitDocuments({name: tuple(sorted(members[name], key=order.__getitem__)) for name in SPLITS}, BY_DOCUMENT)


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
