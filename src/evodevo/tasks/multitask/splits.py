"""Stratified splits: every class is held out evenly, as a function of the samples' contents and a seed.

Source: docs/spec/munet.md#tasks. A given test split is kept, and a tenth of the rest is validation; data without a test
split are divided 70/15/15. (The published code takes the first samples instead, which on sets sorted by class leaves
whole classes out.)

Shapes: N samples.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError, quoted_list
from evodevo.tasks.base import SPLITS, Split

OF_TRAIN: Mapping[Split, float] = {"validation": 0.1}
OF_ALL: Mapping[Split, float] = {"validation": 0.15, "test": 0.15}


def stratified(
    contents: Sequence[bytes], labels: NDArray[np.int64], shares: Mapping[Split, float], seed: int
) -> dict[Split, NDArray[np.int64]]:
    """Indices of each split: of each class its share, and at least one sample where training keeps one too.

    Samples of equal content stay together. Held-out indices are in random order, so that the first of them represent
    all classes; training indices ascend.

    Args:
        contents: Content of each sample, N of them.
        labels: Class of each sample, (N,).
        shares: Share of each held-out split, 0 to 1.
        seed: Seed of the choice of held-out samples.
    """
    order: dict[bytes, bytes] = {
        content: hashlib.sha256(b"%d\0" % seed + content).digest() for content in set(contents)
    }
    members: dict[bytes, list[int]] = {}
    for index, content in enumerate(contents):
        members.setdefault(content, []).append(index)
    strata: dict[int, list[bytes]] = {}
    for content in sorted(members, key=order.__getitem__):
        commonest = Counter(labels[members[content]].tolist())
        strata.setdefault(min(commonest, key=lambda name: (-commonest[name], name)), []).append(content)
    held: dict[Split, list[bytes]] = {split: [] for split in shares}
    rest: list[bytes] = []
    for stratum in strata.values():
        start = 0
        for split, share in shares.items():
            count = min(max(1, round(share * len(stratum))), len(stratum) - 1 - start)
            held[split] += stratum[start : start + count]
            start += max(count, 0)
        rest += stratum[start:]
    held_rows = {
        split: [index for content in sorted(own, key=order.__getitem__) for index in members[content]]
        for split, own in held.items()
    }
    rows = {**held_rows, "train": sorted(index for content in rest for index in members[content])}
    return {split: np.asarray(rows[split], np.int64) for split in SPLITS if split in rows}


def check_splits(labels: Mapping[Split, NDArray[np.int64]], names: Sequence[str], source: str) -> None:
    """Check that every split has samples, and that training has every class of the other splits.

    Raises:
        DataError: A split is empty, or a class has no training sample.
    """
    for split in SPLITS:
        if not len(labels[split]):
            raise DataError(f"{source}: the {split} split is empty. Give more samples of each class.")
    for split in SPLITS[1:]:
        unseen = np.setdiff1d(labels[split], labels["train"])
        if len(unseen):
            raise DataError(
                f"{source}: {quoted_list(repr(names[number]) for number in unseen[:8])} is in the {split} split and not"
                " in training. Give training samples of each class, or leave the class out."
            )


def contradictions(contents: Sequence[bytes], labels: NDArray[np.int64]) -> int:
    """Number of samples whose content occurs with another class too."""
    classes: dict[bytes, set[int]] = {}
    for content, label in zip(contents, labels.tolist(), strict=True):
        classes.setdefault(content, set()).add(label)
    return sum(len(classes[content]) > 1 for content in contents)
