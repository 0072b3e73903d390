"""Which sample belongs to which split: decided by its content, also where files say what is the test split.

Shapes: N samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import DataError
from evodevo.tasks.base import SPLITS, Split

Pool = Literal["all", "train_validation", "train", "validation", "test"]
"""Where a sample may go: into any split, into training or validation where a test split is given, or one place only."""

_TRAIN, _VALIDATION, _TEST = range(len(SPLITS))
_FIXED: dict[Pool, int] = {"train": _TRAIN, "validation": _VALIDATION, "test": _TEST}


@dataclass(frozen=True)
class Assignment:
    """Who is where.

    Args:
        places: indices of the samples of each split, ascending.
        dropped: how many samples are in no split because a held-out split holds the same content.
        repeated: how many samples repeat the content of another one of their split.
        rule: the rule in words.
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
    """Divide samples into train, validation and test so that no content stands in two of them.

    A hash of its unit decides where a free sample goes, so that order, name or number of copies change nothing; only
    where a class would have no training sample, or a split would stay empty, one unit is moved. Where given files hold
    the same content twice, the held-out copy stays and the other is dropped.

    Args:
        contents: what may not stand in two splits, one per sample.
        pools: where each sample may go.
        units: what goes together (all questions about one image); None is each content by itself.
        unit_name: what a unit is, for the rule in words.
        classes: a class per sample, each of which should be seen in training; None is no such wish.
        held_out: the share of validation, and of test where none is given.

    Raises:
        DataError: a split stays empty.
    """
    content = _numbers(contents)
    unit = content if units is None else _numbers(units)
    place = _places(contents if units is None else units, unit)
    label = np.zeros(len(content), np.int64) if classes is None else np.asarray(classes, np.int64)
    split = np.asarray(
        [_by_place(pool, float(at), held_out) for pool, at in zip(pools, place, strict=True)], dtype=np.int8
    )
    free = np.asarray([pool in ("all", "train_validation") for pool in pools], dtype=bool)
    to_test = np.asarray([pool == "all" for pool in pools], dtype=bool)
    _teach_every_class(split, free, unit, place, label)
    for wanted, allowed in ((_VALIDATION, free), (_TEST, to_test)):
        if not (split == wanted).any():
            _fill(split, wanted, allowed, unit, place, label)
    highest = np.zeros(int(content.max(initial=-1)) + 1, np.int8)
    np.maximum.at(highest, content, split)
    kept = split == highest[content]
    places = {name: np.flatnonzero(kept & (split == code)) for code, name in enumerate(SPLITS)}
    for name in SPLITS:
        if not len(places[name]):
            raise DataError(
                f"{len(np.unique(content)):,} distinct samples leave the {name} split empty. Give more samples, or"
                " separate files for each split that do not repeat each other."
            )
    distinct = sum(len(np.unique(content[rows])) for rows in places.values())
    return Assignment(places, int((~kept).sum()), int(kept.sum()) - distinct, _rule(pools, unit_name, held_out))


def fingerprint(*parts: bytes) -> bytes:
    """32 bytes of the content; the lengths of the parts count, so that no two ways to cut it are equal."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.digest()


def _numbers(values: Sequence[bytes]) -> NDArray[np.int64]:
    """Equal values get equal numbers. Shape (N,)."""
    known: dict[bytes, int] = {}
    return np.asarray([known.setdefault(value, len(known)) for value in values], dtype=np.int64)


def _places(values: Sequence[bytes], numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number in [0, 1) per sample that depends on its value only. Shape (N,)."""
    first = np.unique(numbers, return_index=True)[1]
    each = [int.from_bytes(hashlib.sha256(values[row]).digest()[:6], "big") / 2**48 for row in first]
    return np.asarray(each, dtype=np.float64)[numbers]


def _by_place(pool: Pool, place: float, held_out: float) -> int:
    if pool in _FIXED:
        return _FIXED[pool]
    if place < held_out:
        return _VALIDATION
    return _TEST if pool == "all" and place < 2 * held_out else _TRAIN


def _teach_every_class(
    split: NDArray[np.int8],
    free: NDArray[np.bool_],
    unit: NDArray[np.int64],
    place: NDArray[np.float64],
    label: NDArray[np.int64],
) -> None:
    """Give training the unit with the highest place of each class that it lacks, where one is free."""
    for missing in np.setdiff1d(label, label[split == _TRAIN]):
        candidates = np.flatnonzero((label == missing) & free)
        if len(candidates):
            chosen = unit[candidates[place[candidates].argmax()]]
            split[(unit == chosen) & free] = _TRAIN


def _fill(
    split: NDArray[np.int8],
    wanted: int,
    allowed: NDArray[np.bool_],
    unit: NDArray[np.int64],
    place: NDArray[np.float64],
    label: NDArray[np.int64],
) -> None:
    """Move the unit with the lowest place out of training that no class needs there.

    Where there is none (hardly more units than splits), the other held-out split gives one of several.
    """
    candidates = np.flatnonzero(allowed & (split == _TRAIN))
    for row in candidates[place[candidates].argsort(kind="stable")]:
        moved = (unit == unit[row]) & allowed
        rest = label[(split == _TRAIN) & ~moved]
        if np.isin(label[moved], rest).all():
            split[moved] = wanted
            return
    for donor in {_VALIDATION, _TEST} - {wanted}:
        candidates = np.flatnonzero(allowed & (split == donor))
        if len(np.unique(unit[candidates])) > 1:
            lowest = unit[candidates[place[candidates].argmin()]]
            split[(unit == lowest) & allowed] = wanted


def _rule(pools: Sequence[Pool], what: str, held_out: float) -> str:
    share = f"{held_out:.0%}"
    given = set(pools) & {"train", "validation", "test"}
    if not given:
        return f"by content: SHA-256 of the {what}, about {share} validation, {share} test, the rest train"
    own = f"; the rest by SHA-256 of the {what}, {share} validation" if set(pools) - given else ""
    return f"given: {', '.join(sorted(given))}{own}; what a held-out split repeats is left out of the others"
