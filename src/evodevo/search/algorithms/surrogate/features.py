"""Genomes as rows of zeros and ones whose weighted distance a kernel can use, whatever the space.

What is compared are the segments of canonical genomes (``Space.segments``), of any number. A segment that is a tuple
has places (the integers of a LIV), any other has one. Two kinds of distance, both L1 distances of zeros and ones, so
that exp(-distance) is a valid kernel:

* by position: at how many positions two genomes differ (Hamming); a missing segment is a value of its own;
* by content: how many segments would have to be exchanged if order did not matter; an insertion does not upset it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evodevo.search.dominance import Floats, Integers

DistanceTo = Callable[[Integers], Floats]
"""Indices of genomes, shape (right,) -> distances to them, shape (left, right)."""
OWN_SCALES = 16
"""Most positions (times places) that have a length scale each; beyond, all positions of a place share one."""


@dataclass(frozen=True)
class Features:
    """Genomes as zeros and ones.

    Attributes:
        rows: Zeros and ones, shape (genomes, columns).
        names: Names of the groups of columns; columns of a group share a length scale.
        groups: Number of each column's group, shape (columns,).
        weights: Weight of a difference in each column, shape (columns,).
    """

    rows: Floats
    names: tuple[str, ...]
    groups: Integers
    weights: Floats

    def by_group(self, left: Integers, right: Integers) -> Floats:
        """Distances between genomes at these indices, group by group, shape (groups, left, right)."""
        parts = [self._distance(left, right, self.weights * (self.groups == g)) for g in range(len(self.names))]
        return np.stack(parts) if parts else np.zeros((0, len(left), len(right)))

    def distance(self, left: Integers, right: Integers, scales: Floats) -> Floats:
        """The sum over the groups of distance times scale, shape (left, right).

        Args:
            left: Indices of genomes.
            right: Likewise.
            scales: Factor of each group, shape (groups,), >= 0.
        """
        return self._distance(left, right, self.weights * scales[self.groups])

    def from_all(self, left: Integers, scales: Floats) -> DistanceTo:
        """``distance`` from these genomes to others, for several questions: what they have in common is made once."""
        return self._distance_to(left, self.weights * scales[self.groups])

    def _distance(self, left: Integers, right: Integers, weights: Floats) -> Floats:
        return self._distance_to(left, weights)(right)

    def _distance_to(self, left: Integers, weights: Floats) -> DistanceTo:
        used = np.flatnonzero(weights)
        a, w = self.rows[left][:, used], weights[used]
        sums, doubled = (a @ w)[:, None], 2 * (a * w)

        def distance(right: Integers) -> Floats:
            b = self.rows[right][:, used]
            # Of zeros and ones, |a - b| is a + b - 2ab.
            return np.asarray(np.maximum(sums + (b @ w)[None, :] - doubled @ b.T, 0.0))

        return distance


def encode(genomes: Sequence[Sequence[Hashable]]) -> Features:
    """Features of genomes that are given as their segments; columns in which none differs are left out."""
    tables = [(name, _codes(genomes, place)) for name, place in _places(genomes)]
    longest = max((len(genome) for genome in genomes), default=0)
    own = longest * len(tables) <= OWN_SCALES
    blocks: list[tuple[str, float, Floats]] = []
    for name, codes in tables:
        for position in range(longest):
            group, weight = (f"{name} at {position}", 0.5) if own else (f"{name} by position", 0.5 / longest)
            # A mismatch is two columns, so that it counts half for each.
            blocks.append((group, weight, _one_hot(codes[:, position])))
        blocks.append((f"{name} by content", 0.5 / max(longest, 1), _counts(codes)))
    blocks = [block for block in blocks if block[2].shape[1]]
    names = tuple(dict.fromkeys(name for name, _, _ in blocks))
    widths = [columns.shape[1] for _, _, columns in blocks]
    return Features(
        rows=np.concatenate([np.zeros((len(genomes), 0)), *(columns for _, _, columns in blocks)], axis=1),
        names=names,
        groups=np.repeat(np.array([names.index(name) for name, _, _ in blocks], dtype=np.int64), widths),
        weights=np.repeat(np.array([weight for _, weight, _ in blocks], dtype=float), widths),
    )


def _places(genomes: Sequence[Sequence[Hashable]]) -> list[tuple[str, int | None]]:
    """Places of the segments where all are tuples of one length; else a single one, the segment as a whole."""
    lengths = {len(segment) if isinstance(segment, tuple) else 0 for genome in genomes for segment in genome}
    if len(lengths) == 1 and (length := lengths.pop()):
        return [(f"place {place}", place) for place in range(length)]
    return [("segment", None)]


def _codes(genomes: Sequence[Sequence[Any]], place: int | None) -> Integers:
    """Number of the value at each position, in order of appearance, -1 for none; shape (genomes, longest)."""
    lengths = np.array([len(genome) for genome in genomes], dtype=np.int64)
    seen: dict[Hashable, int] = {}
    values = (segment if place is None else segment[place] for genome in genomes for segment in genome)
    codes = np.full((len(genomes), int(lengths.max(initial=0))), -1, dtype=np.int64)
    codes[np.arange(codes.shape[1]) < lengths[:, None]] = [seen.setdefault(value, len(seen)) for value in values]
    return codes


def _one_hot(codes: Integers) -> Floats:
    """One column per value; none where all are equal."""
    values = np.flatnonzero(np.bincount(codes + 1)) - 1
    return (codes[:, None] == values[None, :]).astype(float) if len(values) > 1 else np.zeros((len(codes), 0))


def _counts(codes: Integers) -> Floats:
    """Columns "value v occurs at least t times", whose L1 distance is that of the counts."""
    columns = []
    for value in range(int(codes.max(initial=-1)) + 1):
        counts = (codes == value).sum(axis=1)
        columns += [counts >= t for t in range(int(counts.min()) + 1, int(counts.max()) + 1)]
    return np.stack(columns, axis=1).astype(float) if columns else np.zeros((len(codes), 0))
