"""Division of samples into up to four splits so that no group is in two, each class as evenly as groups allow.

A group is a set of samples that must stay together: all questions about one image, all posts of one author.

Shapes: N samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from evodevo.errors import DataError
from evodevo.settings import Settings
from evodevo.tasks.base import ALL_SPLITS, Split


class Shares(Settings):
    """Shares of the splits, in proportion to their sum; only that of ``architecture`` may be 0."""

    train: float = Field(default=0.7, gt=0, le=1, description="share of training samples")
    architecture: float = Field(default=0.1, ge=0, le=1, description="share of samples for a strategist's decisions")
    validation: float = Field(default=0.1, gt=0, le=1, description="share of validation samples")
    test: float = Field(default=0.1, gt=0, le=1, description="share of test samples")

    def of(self, splits: Sequence[Split]) -> NDArray[np.float64]:
        """The shares of these splits, scaled so that they add up to 1. Shape (splits,)."""
        each = np.asarray([getattr(self, split) for split in splits], np.float64)
        shares: NDArray[np.float64] = each / each.sum()
        return shares


def divide(
    groups: Sequence[bytes], classes: Sequence[object], shares: Shares, splits: Sequence[Split] = ALL_SPLITS
) -> dict[Split, NDArray[np.int64]]:
    """The samples of each split, a function of the groups and classes, not of their order.

    The groups, in the order of a hash, go one by one to the split that lacks most samples of their commonest class,
    then most samples in all.

    Args:
        groups: Group of each sample, N of them.
        classes: Class of each sample, or another key to spread evenly, N of them.
        shares: Shares of the splits.
        splits: Splits to fill; those with a share of 0 stay empty.

    Returns:
        Per split the indices of its samples, ascending.

    Raises:
        DataError: There are fewer groups than splits.
    """
    wanted = [split for split in splits if getattr(shares, split) > 0]
    members = _members(groups)
    if len(members) < len(wanted):
        raise DataError(
            f"{len(groups):,} samples in {len(members):,} groups cannot be divided into {len(wanted)} splits"
            f" ({', '.join(wanted)}). Give more samples, a finer group column, or files for these splits."
        )
    share = shares.of(wanted)
    strata: dict[str, list[bytes]] = {}
    for group in sorted(members, key=lambda name: hashlib.sha256(name).digest()):
        strata.setdefault(_commonest([str(classes[row]) for row in members[group]]), []).append(group)
    filled: list[list[bytes]] = [[] for _ in wanted]
    total = np.zeros(len(wanted))
    # Rare classes first, since the more common ones can compensate for their rounding.
    for stratum in sorted(strata, key=lambda name: (len(strata[name]), name)):
        own = np.zeros(len(wanted))
        for group in strata[stratum]:
            size = len(members[group])
            lacks = share * (own.sum() + size) - own
            lacks_in_all = share * (total.sum() + size) - total
            chosen = max(range(len(wanted)), key=lambda at: (round(lacks[at] / size, 6), lacks_in_all[at]))
            filled[chosen].append(group)
            own[chosen] += size
            total[chosen] += size
    _fill_empty(filled, members)
    places = {
        split: [row for group in own for row in members[group]] for split, own in zip(wanted, filled, strict=True)
    }
    return {split: np.asarray(sorted(places.get(split, [])), np.int64) for split in splits}


def _members(groups: Sequence[bytes]) -> dict[bytes, list[int]]:
    members: dict[bytes, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    return members


def _commonest(classes: list[str]) -> str:
    counts: dict[str, int] = {}
    for name in classes:
        counts[name] = counts.get(name, 0) + 1
    return min(counts, key=lambda name: (-counts[name], name))


def _fill_empty(filled: list[list[bytes]], members: dict[bytes, list[int]]) -> None:
    """Give each empty split (there may be few groups) the smallest group of the split with most groups, in place."""
    for own in filled:
        if not own:
            donor = max(filled, key=len)
            smallest = min(donor, key=lambda group: (len(members[group]), group))
            donor.remove(smallest)
            own.append(smallest)
