"""Splits in which every class is held out evenly, a function of what the samples are and of a seed.

As docs/spec/munet.md#tasks has it: a test split stays, and a tenth of the rest is validation; what has no test split
is divided 70/15/15. (The published code takes the first samples instead, which on sets that are sorted by class leaves
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
    """Places of each split: of each class its share, and one sample at least where training keeps one too.

    Samples of equal content stay together. Held-out places come in an order that knows no class, so that the first of
    them stand for all; training places ascend.

    Args:
        contents: what a sample is, (N).
        labels: its class, (N,).
        shares: of what is held out.
        seed: another one holds out others.
    """
    order: dict[bytes, bytes] = {
        content: hashlib.sha256(b"%d\0" % seed + content).digest() for content in set(contents)
    }
    members: dict[bytes, list[int]] = {}
    for place, content in enumerate(contents):
        members.setdefault(content, []).append(place)
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
    found = {
        split: [place for content in sorted(own, key=order.__getitem__) for place in members[content]]
        for split, own in held.items()
    }
    everyone = {**found, "train": sorted(place for content in rest for place in members[content])}
    return {split: np.asarray(everyone[split], np.int64) for split in SPLITS if split in everyone}


def check_splits(labels: Mapping[Split, NDArray[np.int64]], names: Sequence[str], source: str) -> None:
    """Every split has samples, and training knows every class that the others ask for.

    Raises:
        DataError: otherwise.
    """
    for split in SPLITS:
        if not len(labels[split]):
            raise DataError(f"{source}: the {split} split is empty. Give more samples of each class.")
    for split in SPLITS[1:]:
        unseen = np.setdiff1d(labels[split], labels["train"])
        if len(unseen):
            raise DataError(
                f"{source}: {quoted_list(repr(names[place]) for place in unseen[:8])} is in the {split} split and not"
                " in training. Give training samples of each class, or leave the class out."
            )


def contradictions(contents: Sequence[bytes], labels: NDArray[np.int64]) -> int:
    """Samples whose content stands there with another class too."""
    classes: dict[bytes, set[int]] = {}
    for content, label in zip(contents, labels.tolist(), strict=True):
        classes.setdefault(content, set()).add(label)
    return sum(len(classes[content]) > 1 for content in contents)
