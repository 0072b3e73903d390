"""Division of samples into folds: classes evenly, groups and equal samples together.

Legend: n samples.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evodevo.randomness import generator
from evodevo.tasks.rows.samples import Samples
from evodevo.tasks.rows.targets import Answers

EVERY_FOLD_BELOW = 3_000
"""Number of samples below which each fold is held out in turn: fewer held out samples alone decide by luck."""
EVERY_FOLD_OF_IMAGES_BELOW = 500
"""The same where there are images: on these networks win, and five of them need five times the time."""
RECURRING = 0.05
"""Share of the groups of equal samples with different answers from which on equal samples are no copies."""
MANY = 20_000
"""Number of samples from which on a tenth of them is held out, in the place of a fifth."""


@dataclass(frozen=True)
class Fold:
    """A division of the samples, as indices.

    Attributes:
        train: Samples that are learned.
        held: Samples that are held out.
    """

    train: NDArray[np.int64]
    held: NDArray[np.int64]


def folds(
    answers: NDArray[np.int64] | NDArray[np.float32],
    groups: Sequence[bytes],
    seed: int,
    every_below: int = EVERY_FOLD_BELOW,
) -> tuple[Fold, ...]:
    """The folds that are held out in turn: five of small data, one of larger.

    Args:
        answers: Classes (n,) or labels (n, labels).
        groups: Group of each sample, which no fold divides.
        seed: Seed of the division.
        every_below: Number of samples below which each fold is held out in turn.
    """
    count = len(answers)
    number = 10 if count >= MANY else 5
    members: dict[bytes, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    number = min(number, len(members))
    if number < 2:
        everything = np.arange(count)
        return (Fold(everything, everything),)
    names = list(members)
    order = [names[place] for place in generator(seed, "folds").permutation(len(names))]
    classes = {group: _commonest([answers[row].tobytes() for row in members[group]]) for group in order}
    frequent = Counter(classes.values())
    filled: list[list[int]] = [[] for _ in range(number)]
    by_class: dict[bytes, NDArray[np.int64]] = {name: np.zeros(number, np.int64) for name in frequent}
    total = np.zeros(number, np.int64)
    # Large groups and rare classes first: what comes later evens the rest out.
    for group in sorted(order, key=lambda name: (-len(members[name]), frequent[classes[name]])):
        own = by_class[classes[group]]
        chosen = min(range(number), key=lambda fold: (own[fold], total[fold], fold))
        filled[chosen] += members[group]
        own[chosen] += len(members[group])
        total[chosen] += len(members[group])
    wanted = number if count < every_below else 1
    return tuple(_fold(filled, place) for place in range(wanted))


def strata(answers: Answers) -> NDArray[np.int64] | NDArray[np.float32]:
    """What a division spreads evenly: classes and labels as they are, of a quantity its tenth, (n,)."""
    if answers.dtype != np.float64:
        return answers  # type: ignore[return-value]
    return np.searchsorted(np.quantile(answers, np.linspace(0.1, 0.9, 9)), answers).astype(np.int64)


def fingerprints(samples: Samples, answers: Answers, groups: Sequence[str] | None) -> list[bytes]:
    """The group of each sample: the given one, else a digest of its contents, so that copies are together.

    Where equal samples often have different answers they are no copies but recur, as rows of few categories do, and
    will recur in what the model is used for: each is a group of its own.
    """
    if groups is not None:
        return [name.encode() if name.strip() else f"row {row}".encode() for row, name in enumerate(groups)]
    found = []
    for row in range(samples.count):
        digest = hashlib.blake2b(samples.numbers[row].tobytes() + samples.codes[row].tobytes(), digest_size=16)
        for text in samples.texts:
            digest.update(b"\0" + text[row].encode("utf-8", "replace"))
        for pixels in samples.images:
            digest.update(pixels[row].tobytes())
        found.append(digest.digest())
    return [f"row {row}".encode() for row in range(samples.count)] if _recur(found, answers) else found


def _recur(contents: Sequence[bytes], answers: Answers) -> bool:
    """Whether equal samples have different answers in ``RECURRING`` of the cases."""
    given: dict[bytes, list[bytes]] = {}
    for content, answer in zip(contents, answers, strict=True):
        given.setdefault(content, []).append(answer.tobytes())
    repeated = [own for own in given.values() if len(own) > 1]
    different = sum(len(set(own)) > 1 for own in repeated)
    return bool(repeated) and different >= RECURRING * len(repeated)


def _fold(filled: Sequence[Sequence[int]], place: int) -> Fold:
    train = [row for number, rows in enumerate(filled) if number != place for row in rows]
    return Fold(np.asarray(sorted(train), np.int64), np.asarray(sorted(filled[place]), np.int64))


def _commonest(names: Sequence[bytes]) -> bytes:
    counts = Counter(names)
    return min(counts, key=lambda name: (-counts[name], name))
