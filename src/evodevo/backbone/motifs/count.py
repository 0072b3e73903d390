"""Counts of motifs over a population, beside what chance would give.

Two kinds are counted. A *class motif* is a sequence of 2 to 4 classes of LIVs that follow each other; chance is the
same LIVs of each genome in random order. A *sharing motif* is a connection with the classes from its owner to its user,
its groups and its distance; chance is as many connections of the kind, class and groups in each genome, between random
LIVs of the class. Both expectations are exact, nothing is drawn. The genomes of a population are relatives, so that a
ratio is a description and no test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Generic, TypeVar

from evodevo.backbone.draw import label
from evodevo.backbone.genome import LIVPlan, connections

Plans = tuple[LIVPlan, ...]
Classes = tuple[str, ...]
K = TypeVar("K", bound=Hashable)

LENGTHS = (2, 3, 4)
"""LIVs of a class motif."""
LONGEST_PATH = 4
"""A connection over more LIVs, owner and user included, is written with the ends alone."""
LISTED = 40
_COUNTED = 400
_GAP = "…"


@dataclass(frozen=True)
class ClassMotif:
    """Classes that follow each other.

    Attributes:
        classes: Names of the classes.
        count: Number of occurrences; they may overlap.
        expected: Mean number of occurrences with the LIVs of each genome in random order.
        genomes: Number of genomes that have it.
        per_genome: Mean number of occurrences per genome of the population.
        first: Mean number of occurrences per genome in the first generation; None where there is none to compare with.
        position: Mean position of its middle, from 0 (first LIV) to 1 (last).
    """

    classes: Classes
    count: int
    expected: float
    genomes: int
    per_genome: float
    first: float | None
    position: float


@dataclass(frozen=True)
class SharingMotif:
    """A connection with the classes that it spans.

    Attributes:
        kind: Kind of the connection: feature or featurizer.
        classes: Names of the classes from owner to user; of far ends only these, around "…".
        groups: Shared groups in the paper's letters.
        distance: Number of LIVs from owner to user, at least 1.
        count, expected, genomes, per_genome, first: The numbers of ``ClassMotif``; ``expected`` with random partners.
        position: Mean position of the owner, from 0 (first LIV) to 1 (last).
    """

    kind: str
    classes: Classes
    groups: str
    distance: int
    count: int
    expected: float
    genomes: int
    per_genome: float
    first: float | None
    position: float


@dataclass(frozen=True)
class DistanceCount:
    """Connections of one kind and distance.

    Attributes:
        kind: Kind of the connections: feature or featurizer.
        distance: Number of LIVs from owner to user, at least 1.
        count: Number of connections.
        expected: Mean number with random partners of the class.
    """

    kind: str
    distance: int
    count: int
    expected: float


@dataclass(frozen=True)
class MotifRecord:
    """Motifs of a population.

    Attributes:
        genomes: Number of genomes.
        classes: Class motifs of at least two genomes, those first that exceed chance most.
        sharing: Sharing motifs, in the same order.
        distances: Connections by kind and distance.
    """

    genomes: int
    classes: tuple[ClassMotif, ...]
    sharing: tuple[SharingMotif, ...]
    distances: tuple[DistanceCount, ...]

    def to_json(self) -> dict[str, Any]:
        """The fields by name, JSON-able."""
        return asdict(self)


def motif_record(population: Sequence[Plans], first: Sequence[Plans] = ()) -> MotifRecord:
    """Count the motifs of a population.

    Args:
        population: Plans of the genomes to describe.
        first: Plans of the genomes that the search began with, for comparison.
    """
    return MotifRecord(
        len(population), _class_motifs(population, first), _sharing_motifs(population, first), _distances(population)
    )


def connection_counts(population: Sequence[Plans]) -> dict[str, float]:
    """Mean number of connections per genome by kind: "feature" and "featurizer"."""
    counts = Counter(kind for plans in population for kind, *_ in connections(plans))
    return {kind: counts[kind] / len(population) for kind in ("feature", "featurizer")} if population else {}


class _MotifTally(Generic[K]):
    """Occurrences of motifs in a population, genome after genome.

    Attributes:
        counts: Motif -> number of occurrences.
        genomes: Motif -> number of genomes that have it.
        positions: Motif -> sum of its positions, each from 0 to 1.
    """

    def __init__(self) -> None:
        self.counts = Counter[K]()
        self.genomes = Counter[K]()
        self.positions: dict[K, float] = {}

    def add(self, found: Sequence[tuple[K, float]]) -> None:
        """Count the occurrences in one genome, (motif, position) each."""
        self.genomes.update({motif for motif, _ in found})
        for motif, position in found:
            self.counts[motif] += 1
            self.positions[motif] = self.positions.get(motif, 0.0) + position


# Classes


def class_windows(plans: Plans) -> Iterable[tuple[int, Classes]]:
    """(start, classes) of every sequence of ``LENGTHS`` LIVs."""
    names = [liv.row.name for liv in plans]
    for length in LENGTHS:
        for start in range(len(names) - length + 1):
            yield start, tuple(names[start : start + length])


def expected_in_random_order(plans: Plans, classes: Classes) -> float:
    """Mean number of occurrences over all orders of the genome's LIVs: (windows) x (chance of one window)."""
    left, depth = Counter(liv.row.name for liv in plans), len(plans)
    expected = float(max(depth - len(classes) + 1, 0))
    for place, name in enumerate(classes):
        if not expected:
            break
        expected *= left[name] / (depth - place)
        left[name] -= 1
    return expected


def _class_motifs(population: Sequence[Plans], first: Sequence[Plans]) -> tuple[ClassMotif, ...]:
    tally = _MotifTally[Classes]()
    for plans in population:
        last = len(plans) - 1
        tally.add([(classes, (start + (len(classes) - 1) / 2) / last) for start, classes in class_windows(plans)])
    before = Counter(classes for plans in first for _, classes in class_windows(plans))
    rows = []
    for classes, count in tally.counts.most_common(_COUNTED):
        if tally.genomes[classes] < min(2, len(population)):
            continue
        rows.append(
            ClassMotif(
                classes,
                count,
                sum(expected_in_random_order(plans, classes) for plans in population),
                tally.genomes[classes],
                count / len(population),
                before[classes] / len(first) if first else None,
                tally.positions[classes] / count,
            )
        )
    return tuple(sorted(rows, key=lambda row: (row.expected - row.count, row.classes))[:LISTED])


# Sharing

Edge = tuple[str, str, str]
"""(kind, class, groups)."""
Key = tuple[str, str, Classes, int]
"""(kind, groups, classes from owner to user, distance)."""


def edges(plans: Plans) -> Iterable[tuple[Edge, int, int]]:
    """((kind, class, groups), owner, user) of every connection."""
    for kind, owner, user, roles in connections(plans):
        spec = plans[user].spec
        yield (kind, plans[user].row.name, label(spec, roles)), owner, user


def path(plans: Plans, owner: int, user: int) -> Classes:
    """The classes from owner to user."""
    names = tuple(liv.row.name for liv in plans[owner : user + 1])
    return names if len(names) <= LONGEST_PATH else (names[0], _GAP, names[-1])


def random_partners(plans: Plans) -> dict[str, Counter[tuple[Classes, int]]]:
    """Class -> (path, distance) of every pair of its LIVs: where a connection could be."""
    places: dict[str, list[int]] = {}
    for liv in plans:
        places.setdefault(liv.row.name, []).append(liv.position)
    return {name: Counter((path(plans, i, j), j - i) for i, j in combinations(own, 2)) for name, own in places.items()}


def _keys(plans: Plans) -> Iterable[tuple[Key, int]]:
    """(motif, position of the owner) of every connection."""
    for (kind, _, groups), owner, user in edges(plans):
        yield (kind, groups, path(plans, owner, user), user - owner), owner


def _sharing_motifs(population: Sequence[Plans], first: Sequence[Plans]) -> tuple[SharingMotif, ...]:
    tally = _MotifTally[Key]()
    expected: dict[Key, float] = {}
    for plans in population:
        tally.add([(key, owner / (len(plans) - 1)) for key, owner in _keys(plans)])
        partners = random_partners(plans)
        for (kind, name, groups), number in Counter(edge for edge, _, _ in edges(plans)).items():
            pairs = partners[name]
            for (classes, distance), among in pairs.items():
                key = (kind, groups, classes, distance)
                expected[key] = expected.get(key, 0.0) + number * among / pairs.total()
    before = Counter(key for plans in first for key, _ in _keys(plans))
    rows = []
    for key, count in tally.counts.items():
        kind, groups, classes, distance = key
        rows.append(
            SharingMotif(
                kind,
                classes,
                groups,
                distance,
                count,
                expected[key],
                tally.genomes[key],
                count / len(population),
                before[key] / len(first) if first else None,
                tally.positions[key] / count,
            )
        )
    order = sorted(rows, key=lambda row: (row.expected - row.count, row.kind, row.classes, row.groups, row.distance))
    return tuple(order[:LISTED])


def _distances(population: Sequence[Plans]) -> tuple[DistanceCount, ...]:
    counts = Counter[tuple[str, int]]()
    expected: dict[tuple[str, int], float] = {}
    for plans in population:
        partners = random_partners(plans)
        for (kind, name, _), owner, user in edges(plans):
            counts[kind, user - owner] += 1
            for (_, distance), among in partners[name].items():
                key = (kind, distance)
                expected[key] = expected.get(key, 0.0) + among / partners[name].total()
    return tuple(DistanceCount(*key, counts[key], expected[key]) for key in sorted(expected))
