"""Which row of a user's table stands in which split: what the user says, then groups that must stay together.

Source: docs/spec/architect_thyself.md#splits.

Shapes: N rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, quoted_list
from evodevo.tasks.base import ALL_SPLITS, Split
from evodevo.tasks.table.group_splits import Shares, divide

SPLIT_NAMES: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "architecture": "architecture",
    "arch_val": "architecture",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
_MOST_TOGETHER = 0.25
"""Texts that join more of the rows than this are questions, not copies."""


@dataclass(frozen=True)
class Row:
    """What decides where a row stands.

    Attributes:
        content: over all that its sample shows.
        image: over its image; empty where it has none.
        text: over its text; empty where it has none.
        group: the user's; empty where there is none.
        given: the split that the user says, if any.
        stratum: what is to be spread evenly.
    """

    content: bytes
    image: bytes
    text: bytes
    group: str
    given: Split | None
    stratum: str


@dataclass(frozen=True)
class Division:
    """Who is where.

    Attributes:
        places: rows of each split, ascending; only splits that there are.
        dropped: rows that are in no split, because one that the user gave holds the same sample.
        shared: rows of other splits whose group or image stands in a split that the user gave.
        rule: in words.
    """

    places: dict[Split, NDArray[np.int64]]
    dropped: int
    shared: int
    rule: str


def split_of(value: str, column: str) -> Split | None:
    """The split that a cell names; None where it is empty.

    Raises:
        DataError: it names none.
    """
    name = value.strip().lower()
    if not name:
        return None
    if name not in SPLIT_NAMES:
        raise DataError(f"the column {column!r} names the split {value[:40]!r}; known are {quoted_list(SPLIT_NAMES)}.")
    return SPLIT_NAMES[name]


def divide_rows(rows: Sequence[Row], shares: Shares, group_column: str | None) -> Division:
    """Every row its split.

    Splits other than train that the user gives stay as they are; all other rows are divided among train and the splits
    that nobody gave. Of equal samples in several given splits the one stays that judges last.

    Raises:
        DataError: too few groups, or no row is left for training.
    """
    given = [split for split in ALL_SPLITS[1:] if any(row.given == split for row in rows)]
    rank = {split: at for at, split in enumerate(("train", *given))}
    best: dict[bytes, int] = {}
    for row in rows:
        place = rank.get(row.given or "train", 0)
        best[row.content] = max(best.get(row.content, 0), place)
    kept = [at for at, row in enumerate(rows) if rank.get(row.given or "train", 0) == best[row.content]]
    places: dict[Split, NDArray[np.int64]] = {
        split: np.asarray([at for at in kept if rows[at].given == split], np.int64) for split in given
    }
    free = [at for at in kept if rows[at].given in (None, "train")]
    if not free:
        raise DataError("no row is left for training. Give rows that stand in no other split.")
    groups, rule = _groups([rows[at] for at in free], group_column)
    wanted: list[Split] = [
        split for split in ALL_SPLITS if split == "train" or (split not in given and getattr(shares, split) > 0)
    ]
    found = divide(groups, [rows[at].stratum for at in free], shares, wanted)
    places |= {split: np.asarray(free, np.int64)[chosen] for split, chosen in found.items()}
    for split, chosen in places.items():
        if not len(chosen):
            raise DataError(f"every row of the {split} split stands in a later one too. Give rows of its own.")
    if given:
        rule = f"given: {quoted_list(given)}; what they repeat is left out of the others; the rest {rule}"
    return Division(
        {split: places[split] for split in ALL_SPLITS if split in places},
        len(rows) - len(kept),
        _shared([rows[at] for at in free], [row for row in rows if row.given in given]),
        rule,
    )


def _groups(rows: Sequence[Row], group_column: str | None) -> tuple[list[bytes], str]:
    """What each row belongs to, and the rule in words."""
    if group_column is not None:
        return _joined(rows, ["group", "content"]), f"by the column {group_column!r}, each class evenly"
    has_images, has_texts = any(row.image for row in rows), any(row.text for row in rows)
    if not (has_images and has_texts):
        what = "image" if has_images else "text" if has_texts else "sample"
        joined = _joined(rows, [what, "content"] if what != "sample" else ["content"])
        return joined, f"by equal {what}, each class evenly"
    both = _joined(rows, ["image", "text", "content"])
    together = max(Counter(both).values()) / len(rows)
    if together <= _MOST_TOGETHER:
        return both, "by equal image and equal text, each class evenly"
    reason = f"equal texts would keep {together:.0%} of the rows together"
    return _joined(rows, ["image", "content"]), f"by equal image, each class evenly ({reason})"


def _joined(rows: Sequence[Row], facts: Sequence[str]) -> list[bytes]:
    """The least content of all rows that are joined by equal facts, directly or through others."""
    parent = list(range(len(rows)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    first: dict[tuple[str, Hashable], int] = {}
    for at, row in enumerate(rows):
        for fact in facts:
            value = getattr(row, fact)
            if value:
                one, other = root(first.setdefault((fact, value), at)), root(at)
                parent[max(one, other)] = min(one, other)
    least: dict[int, bytes] = {}
    for at, row in enumerate(rows):
        top = root(at)
        least[top] = min(least.get(top, row.content), row.content)
    return [least[root(at)] for at in range(len(rows))]


def _shared(rows: Sequence[Row], given: Sequence[Row]) -> int:
    groups, images = {row.group for row in given} - {""}, {row.image for row in given} - {b""}
    return sum(row.group in groups or row.image in images for row in rows)
