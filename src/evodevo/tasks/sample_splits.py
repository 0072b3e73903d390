"""Assignment of samples to splits by their content, which also finds copies across splits that a user's files define.

Shapes: N samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError
from evodevo.tasks.base import SPLITS, Split

Pool = Literal["all", "train_validation", "train", "validation", "test"]
"""Splits that a sample may belong to: any, training or validation where a test split is given, or one split only."""

_TRAIN, _VALIDATION, _TEST = range(len(SPLITS))
_FIXED: dict[Pool, int] = {"train": _TRAIN, "validation": _VALIDATION, "test": _TEST}


@dataclass(frozen=True)
class Assignment:
    """The samples of each split.

    Args:
        places: Indices of the samples of each split, ascending.
        dropped: Number of samples in no split, because a held-out split has the same content.
        repeated: Number of samples that repeat the content of another one in their split.
        rule: Rule of the split as text.
    """

    places: dict[Split, NDArray[np.int64]]
    dropped: int
    repeated: int
    rule: str


def assign(
    contents: Sequence[bytes],
    pools: Sequence[Pool],
    *,
    units: Sequence[bytes] | None = None,
    unit_name: str = "content",
    classes: Sequence[int] | None = None,
    held_out: float = 0.1,
) -> Assignment:
    """Divide samples into train, validation and test so that no content is in two of them.

    The split of a free sample is a function of a hash of its unit, so that order, name or number of copies change
    nothing; one unit is moved only where a class would have no training sample, or a split would be empty. Where given
    files have the same content twice, the held-out copy stays and the other is dropped.

    Args:
        contents: Content of each sample, which may not be in two splits, N of them.
        pools: Splits that each sample may belong to, N of them.
        units: Key of the samples that stay together (all questions about one image), N of them; None = the content.
        unit_name: Name of a unit, for the rule as text.
        classes: Class of each sample, each of which should have a training sample, N of them; None = no such rule.
        held_out: Share of validation, and of test where none is given, 0 to 0.5.

    Raises:
        DataError: A split is empty.
    """
    content = _numbers(contents)
    unit = content if units is None else _numbers(units)
    position = _places(contents if units is None else units, unit)
    label = np.zeros(len(content), np.int64) if classes is None else np.asarray(classes, np.int64)
    split = np.asarray(
        [_by_place(pool, float(at), held_out) for pool, at in zip(pools, position, strict=True)], dtype=np.int8
    )
    free = np.asarray([pool in ("all", "train_validation") for pool in pools], dtype=bool)
    to_test = np.asarray([pool == "all" for pool in pools], dtype=bool)
    _teach_every_class(split, free, unit, position, label)
    for wanted, allowed in ((_VALIDATION, free), (_TEST, to_test)):
        if not (split == wanted).any():
            _fill(split, wanted, allowed, unit, position, label)
    # Copies in several splits stay in the last of train, validation, test only, so that none leaks into training.
    highest = np.zeros(int(content.max(initial=-1)) + 1, np.int8)
    np.maximum.at(highest, content, split)
    kept = split == highest[content]
    indices = {name: np.flatnonzero(kept & (split == code)) for code, name in enumerate(SPLITS)}
    for name in SPLITS:
        if not len(indices[name]):
            raise DataError(
                f"{len(np.unique(content)):,} distinct samples leave the {name} split empty. Give more samples, or"
                " separate files for each split that do not repeat each other."
            )
    distinct = sum(len(np.unique(content[rows])) for rows in indices.values())
    return Assignment(indices, int((~kept).sum()), int(kept.sum()) - distinct, _rule(pools, unit_name, held_out))


def fingerprint(*parts: bytes) -> bytes:
    """32 bytes over the parts and their lengths, so that different divisions of the same bytes differ."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.digest()


def columns_digest(columns: Mapping[str, Sequence[str]]) -> str:
    """SHA-256 over the names and the values of columns of text."""
    whole = hashlib.sha256()
    for name, values in columns.items():
        whole.update(fingerprint(name.encode(), *(value.encode() for value in values)))
    return whole.hexdigest()


def _numbers(values: Sequence[bytes]) -> NDArray[np.int64]:
    """Numbers from 0 that are equal for equal values. Shape (N,)."""
    known: dict[bytes, int] = {}
    return np.asarray([known.setdefault(value, len(known)) for value in values], dtype=np.int64)


def _places(values: Sequence[bytes], numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number in [0, 1) per sample that is a function of its value only. Shape (N,)."""
    first = np.unique(numbers, return_index=True)[1]
    each = [int.from_bytes(hashlib.sha256(values[row]).digest()[:6], "big") / 2**48 for row in first]
    return np.asarray(each, dtype=np.float64)[numbers]


def _by_place(pool: Pool, position: float, held_out: float) -> int:
    if pool in _FIXED:
        return _FIXED[pool]
    if position < held_out:
        return _VALIDATION
    return _TEST if pool == "all" and position < 2 * held_out else _TRAIN


def _teach_every_class(
    split: NDArray[np.int8],
    free: NDArray[np.bool_],
    unit: NDArray[np.int64],
    position: NDArray[np.float64],
    label: NDArray[np.int64],
) -> None:
    """For each class without a training sample, move its free unit with the highest number to training, in place."""
    for missing in np.setdiff1d(label, label[split == _TRAIN]):
        candidates = np.flatnonzero((label == missing) & free)
        if len(candidates):
            chosen = unit[candidates[position[candidates].argmax()]]
            split[(unit == chosen) & free] = _TRAIN


def _fill(
    split: NDArray[np.int8],
    wanted: int,
    allowed: NDArray[np.bool_],
    unit: NDArray[np.int64],
    position: NDArray[np.float64],
    label: NDArray[np.int64],
) -> None:
    """Fill an empty split with the training unit of the lowest number that no class needs for training, in place.

    Where there is none (hardly more units than splits), the other held-out split gives up one of its units.
    """
    candidates = np.flatnonzero(allowed & (split == _TRAIN))
    for row in candidates[position[candidates].argsort(kind="stable")]:
        moved = (unit == unit[row]) & allowed
        rest = label[(split == _TRAIN) & ~moved]
        if np.isin(label[moved], rest).all():
            split[moved] = wanted
            return
    for donor in {_VALIDATION, _TEST} - {wanted}:
        candidates = np.flatnonzero(allowed & (split == donor))
        if len(np.unique(unit[candidates])) > 1:
            lowest = unit[candidates[position[candidates].argmin()]]
            split[(unit == lowest) & allowed] = wanted


def _rule(pools: Sequence[Pool], what: str, held_out: float) -> str:
    share = f"{held_out:.0%}"
    given = set(pools) & {"train", "validation", "test"}
    if not given:
        return f"by content: SHA-256 of the {what}, about {share} validation, {share} test, the rest train"
    own = f"; the rest by SHA-256 of the {what}, {share} validation" if set(pools) - given else ""
    return f"given: {', '.join(sorted(given))}{own}; what a held-out split repeats is left out of the others"
