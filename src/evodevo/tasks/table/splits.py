"""Assignment of a user's rows to splits: by the user's files and columns, then by groups that must stay together.

Source: docs/spec/architect_thyself.md#splits.

Shapes: N rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, quoted_list
from evodevo.tasks import split_files
from evodevo.tasks.base import ALL_SPLITS, Split
from evodevo.tasks.table.group_splits import Shares, divide

SPLIT_NAMES: Mapping[str, Split] = {
    **split_files.SPLIT_NAMES,
    "architecture": "architecture",
    "arch_val": "architecture",
}
"""Value of a column of splits -> the split."""
_MOST_TOGETHER = 0.25
"""Equal texts in a larger share of the rows than this are taken for questions, not for copies of one document."""


@dataclass(frozen=True)
class SplitRow:
    """The facts that determine the split of a row.

    Attributes:
        content: Fingerprint of all its inputs.
        image: Fingerprint of its image; empty where it has none.
        text: Comparable form of its text; empty where it has none.
        group: Group of the user's column; empty where there is none.
        given: Split that the user defined; None where there is none.
        stratum: Key to spread evenly over the splits.
    """

    content: bytes
    image: bytes
    text: bytes
    group: str
    given: Split | None
    stratum: str


@dataclass(frozen=True)
class Division:
    """The rows of each split.

    Attributes:
        places: Indices of the rows of each existing split, ascending.
        dropped: Number of rows in no split, because a split that the user defined has the same sample.
        shared: Number of rows of other splits whose group or image is in a split that the user defined.
        rule: Rule of the split as text.
    """

    places: dict[Split, NDArray[np.int64]]
    dropped: int
    shared: int
    rule: str


def split_of(value: str, column: str) -> Split | None:
    """The split that a cell names; None where it is empty.

    Raises:
        DataError: The cell names no split.
    """
    name = value.strip().lower()
    if not name:
        return None
    if name not in SPLIT_NAMES:
        raise DataError(f"the column {column!r} names the split {value[:40]!r}; known are {quoted_list(SPLIT_NAMES)}.")
    return SPLIT_NAMES[name]


def divide_rows(rows: Sequence[SplitRow], shares: Shares, group_column: str | None) -> Division:
    """Divide rows into splits.

    Splits other than train that the user defines are kept; all other rows are divided among train and the remaining
    splits. Of equal samples in several given splits, the one in the last split (test after validation) is kept.

    Raises:
        DataError: There are too few groups, or no row is left for training.
    """
    given = [split for split in ALL_SPLITS[1:] if any(row.given == split for row in rows)]
    rank = {split: index for index, split in enumerate(("train", *given))}
    best: dict[bytes, int] = {}
    for row in rows:
        place = rank.get(row.given or "train", 0)
        best[row.content] = max(best.get(row.content, 0), place)
    kept = [index for index, row in enumerate(rows) if rank.get(row.given or "train", 0) == best[row.content]]
    places: dict[Split, NDArray[np.int64]] = {
        split: np.asarray([index for index in kept if rows[index].given == split], np.int64) for split in given
    }
    free = [index for index in kept if rows[index].given in (None, "train")]
    if not free:
        raise DataError("no row is left for training. Give rows that are in no other split.")
    groups, rule = _groups([rows[index] for index in free], group_column)
    wanted: list[Split] = [
        split for split in ALL_SPLITS if split == "train" or (split not in given and getattr(shares, split) > 0)
    ]
    chosen_rows = divide(groups, [rows[index].stratum for index in free], shares, wanted)
    places |= {split: np.asarray(free, np.int64)[chosen] for split, chosen in chosen_rows.items()}
    for split, chosen in places.items():
        if not len(chosen):
            raise DataError(f"every row of the {split} split is in a later one too. Give rows of its own.")
    if given:
        rule = f"given: {quoted_list(given)}; what they repeat is left out of the others; the rest {rule}"
    return Division(
        {split: places[split] for split in ALL_SPLITS if split in places},
        len(rows) - len(kept),
        _shared([rows[index] for index in free], [row for row in rows if row.given in given]),
        rule,
    )


def _groups(rows: Sequence[SplitRow], group_column: str | None) -> tuple[list[bytes], str]:
    """The group of each row, and the rule as text."""
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


def _joined(rows: Sequence[SplitRow], facts: Sequence[str]) -> list[bytes]:
    """A group key per row: the least content of all rows connected to it by equal facts, directly or indirectly.

    Connected rows are found with a union-find structure.
    """
    parent = list(range(len(rows)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first: dict[tuple[str, Hashable], int] = {}
    for index, row in enumerate(rows):
        for fact in facts:
            value = getattr(row, fact)
            if value:
                first_root, second_root = root(first.setdefault((fact, value), index)), root(index)
                parent[max(first_root, second_root)] = min(first_root, second_root)
    least: dict[int, bytes] = {}
    for index, row in enumerate(rows):
        top = root(index)
        least[top] = min(least.get(top, row.content), row.content)
    return [least[root(index)] for index in range(len(rows))]


def _shared(rows: Sequence[SplitRow], given: Sequence[SplitRow]) -> int:
    groups, images = {row.group for row in given} - {""}, {row.image for row in given} - {b""}
    return sum(row.group in groups or row.image in images for row in rows)
