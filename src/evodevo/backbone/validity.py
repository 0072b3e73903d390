"""Validity of a backbone's integers, and their repair (STAR 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from operator import le

import numpy as np

from evodevo.backbone.genome import (
    CLASS,
    FEATURE,
    FEATURE_STRATEGY,
    FEATURIZER,
    FEATURIZER_STRATEGY,
    MAX_LIVS,
    PLACES,
    RESIDUAL,
    BackboneGenome,
    SharingOptions,
)
from evodevo.backbone.written_classes import SMALLEST, LIVClasses, written_class
from evodevo.errors import GenomeError
from evodevo.operators.classes import LIVClass
from evodevo.operators.spec import Dimensions
from evodevo.randomness import draw_one

MOST_REMEMBERED = 16_384
"""Valid segments that are remembered: a search draws few again and again."""


@dataclass(frozen=True)
class Validity:
    """The rules that every genome of a space keeps.

    Attributes:
        classes: Number -> every LIV class, those written as operator genomes included.
        drawn: Number -> LIV class of those that are drawn.
        sharing: Sharing strategies that exist.
        genes: Number of integers of a segment, 5 or 6.
        depths: (fewest, most) LIVs of a repaired genome.
        dimensions: Sizes that a class must allow.
    """

    classes: LIVClasses
    drawn: Mapping[int, LIVClass]
    sharing: SharingOptions
    genes: int
    depths: tuple[int, int]
    dimensions: Dimensions
    # Of what was met: largest strategies of classes, those that exist at these sizes, and valid segments.
    _strategies: dict[int, tuple[int, int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _existing: set[int] = field(default_factory=set, init=False, repr=False, compare=False)
    _valid: set[tuple[tuple[int, ...], int, int]] = field(default_factory=set, init=False, repr=False, compare=False)

    def check(self, genome: BackboneGenome) -> None:
        """Raise ``GenomeError`` for the first integer that is not allowed at its place.

        Any class of the table is accepted, so that a named backbone of a class that is never drawn is a genome too.
        """
        if self.holds(genome):
            return
        if not 1 <= len(genome) <= MAX_LIVS:
            raise GenomeError(f"a backbone has 1 to {MAX_LIVS} LIVs; this one has {len(genome)}.")
        counts = Counter(segment[CLASS] for segment in genome if segment)
        last: dict[int, int] = {}
        for position, segment in enumerate(genome):
            if len(segment) != self.genes:
                raise GenomeError(f"segment {position + 1} has {len(segment)} integers; {self.genes} are wanted.")
            self._check_integers(segment, position, counts, len(genome))
            if self.genes > RESIDUAL:
                value = segment[RESIDUAL]
                if last.get(value) == position - 1:
                    raise GenomeError(
                        f"segment {position + 1}, integer 6 (residual value) is {value}, as in the segment before it; "
                        "the output of the LIV just before is in the stream already. Choose another value."
                    )
                last[value] = position
            self.classes[segment[CLASS]].spec.check(self.dimensions)

    def holds(self, genome: BackboneGenome) -> bool:
        """Whether ``check`` accepts a genome, without the words on what is wrong."""
        depth = len(genome)
        if not 1 <= depth <= MAX_LIVS or any(len(segment) != self.genes for segment in genome):
            return False
        numbers = [segment[CLASS] for segment in genome]
        # (segment, LIVs of its class, depth) decide, but for residuals of neighbours.
        facts = list(zip(genome, map(numbers.count, numbers), repeat(depth)))
        if not self._valid.issuperset(facts):
            for fact in facts:
                if fact not in self._valid:
                    if not self._allows(*fact):
                        return False
                    if len(self._valid) > MOST_REMEMBERED:
                        self._valid.clear()
                    self._valid.add(fact)
        return self.genes <= RESIDUAL or all(one[RESIDUAL] != other[RESIDUAL] for one, other in pairwise(genome))

    def _allows(self, segment: tuple[int, ...], count: int, depth: int) -> bool:
        number, *others = segment
        if number not in self.classes or not self._fits(number):
            return False
        return min(others) >= 1 and all(map(le, others, self._largest(number, count, depth)))

    def _check_integers(self, segment: tuple[int, ...], position: int, counts: Counter[int], depth: int) -> None:
        number, *others = segment
        known = number in self.classes
        if known and min(others) >= 1 and all(map(le, others, self._largest(number, counts[number], depth))):
            return
        for place, value in enumerate(segment):
            if place == CLASS and value >= SMALLEST and value not in self.classes:
                written_class(value)  # says what is wrong with the digits
            allowed = self.classes if place == CLASS else self.values(number, place, counts, depth)
            if value not in allowed:
                more = ", or an operator genome such as 12141" if place == CLASS else ""
                raise GenomeError(
                    f"segment {position + 1}, integer {place + 1} ({PLACES[place]}) is {value}; "
                    f"allowed: {_ranges(allowed)}{more}."
                )

    def values(self, number: int, place: int, counts: Counter[int], depth: int) -> Sequence[int]:
        """Values of one integer after the first.

        Args:
            number: Valid class of the LIV.
            place: Place of the integer in the segment, from 1.
            counts: Number of LIVs of each class.
            depth: Number of LIVs.
        """
        return range(1, self._largest(number, counts[number], depth)[place - 1] + 1)

    def _largest(self, number: int, count: int, depth: int) -> tuple[int, ...]:
        """Largest integer at each place after the first; the smallest is 1."""
        if number not in self._strategies:
            spec, sharing = self.classes[number].spec, self.sharing
            self._strategies[number] = (sharing.featurizer_strategies(spec), sharing.feature_strategies(spec))
        weights, features = self._strategies[number]
        return count, weights, count, features, depth

    def repair(self, genome: BackboneGenome, rng: np.random.Generator) -> BackboneGenome:
        """Remove invalid connections and draw invalid values anew (STAR 4.2); valid genomes come back unchanged."""
        if self.holds(genome):
            return genome
        low, high = self.depths
        rows = [list(segment) for segment in genome[:high]]
        rows = [(row + [0] * self.genes)[: self.genes] for row in rows]
        while len(rows) < low:
            rows.append([0] * self.genes)
        drawn = list(self.drawn)
        for row in rows:
            if row[CLASS] not in self.classes or not self._fits(row[CLASS]):
                row[CLASS] = draw_one(drawn, rng)
        counts = Counter(row[CLASS] for row in rows)
        for place in (FEATURIZER, FEATURE):
            self._repair_indices(rows, place, counts)
        for row in rows:
            largest = self._largest(row[CLASS], counts[row[CLASS]], len(rows))
            for place in (FEATURIZER_STRATEGY, FEATURE_STRATEGY):
                if not 1 <= row[place] <= largest[place - 1]:
                    row[place] = draw_one(range(1, largest[place - 1] + 1), rng)
        if self.genes > RESIDUAL:
            self._repair_residuals(rows)
        return tuple(tuple(row) for row in rows)

    def _fits(self, number: int) -> bool:
        """Whether a class exists at these sizes."""
        if number not in self._existing:
            try:
                self.classes[number].spec.check(self.dimensions)
            except GenomeError:
                return False
            self._existing.add(number)
        return True

    @staticmethod
    def _repair_indices(rows: list[list[int]], place: int, counts: Counter[int]) -> None:
        used: dict[int, set[int]] = {}
        for row in rows:
            if 1 <= row[place] <= counts[row[CLASS]]:
                used.setdefault(row[CLASS], set()).add(row[place])
        for row in rows:
            if not 1 <= row[place] <= counts[row[CLASS]]:
                taken = used.setdefault(row[CLASS], set())
                row[place] = _lowest_unused(taken)
                taken.add(row[place])

    @staticmethod
    def _repair_residuals(rows: list[list[int]]) -> None:
        used = {row[RESIDUAL] for row in rows if 1 <= row[RESIDUAL] <= len(rows)}
        before = None
        for row in rows:
            if not 1 <= row[RESIDUAL] <= len(rows) or row[RESIDUAL] == before:
                row[RESIDUAL] = _lowest_unused(used)
                used.add(row[RESIDUAL])
            before = row[RESIDUAL]


def _lowest_unused(used: set[int]) -> int:
    value = 1
    while value in used:
        value += 1
    return value


def _ranges(values: Collection[int]) -> str:
    """1, 2, 3, 7 as "1 to 3, 7"."""
    parts: list[list[int]] = []
    for value in values:
        if parts and value == parts[-1][-1] + 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in parts)
