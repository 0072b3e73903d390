"""Motifs against counting by hand and against chance that is really drawn."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import pytest

from evodevo.backbone.genome import connections
from evodevo.backbone.motifs.count import (
    class_windows,
    connection_counts,
    expected_in_random_order,
    motif_record,
    random_partners,
)
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator

SPACE = BackboneSpace(BackboneSettings(depth=6, classes=("SA-1", "Rec-1", "GMemless"), dimensions=Dimensions(width=64)))


def plans(*texts: str) -> list[Any]:
    return [SPACE.plan(SPACE.parse(text)) for text in texts]


STRIPED = "11212 91111 11212 92121 51111 93131"  # both SA-1 share keys, and the weights of queries and values
OTHER = "91111 11111 92121 12111 93131 51111"


def test_counts_positions_and_shares_are_those_counted_by_hand() -> None:
    record = motif_record(plans(STRIPED, OTHER), plans(OTHER))
    pair = next(one for one in record.classes if one.classes == ("SA-1", "GMemless"))
    assert (pair.count, pair.genomes, pair.per_genome, pair.first) == (4, 2, 2.0, 2.0)
    # Middles at 0.5, 2.5 of 5, and at 1.5, 3.5 of 5.
    assert pair.position == pytest.approx((0.1 + 0.5 + 0.3 + 0.7) / 4)
    # Five windows, two SA-1 among six LIVs, then three GMemless among five; in both genomes.
    assert pair.expected == pytest.approx(2 * 5 * (2 / 6) * (3 / 5))
    (shared, tied) = sorted(record.sharing, key=lambda one: one.kind)
    assert (shared.kind, shared.classes, shared.groups) == ("feature", ("SA-1", "GMemless", "SA-1"), "K")
    assert (shared.distance, shared.count, shared.genomes, shared.position) == (2, 1, 1, 0.0)
    assert (shared.first, shared.per_genome, shared.expected) == (0.0, 0.5, 1.0)
    assert (tied.kind, tied.groups) == ("featurizer", "QV")
    assert [(row.kind, row.distance, row.count) for row in record.distances] == [
        ("feature", 2, 1),
        ("featurizer", 2, 1),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_the_expectation_is_the_mean_over_all_orders(seed: int) -> None:
    genome = SPACE.plan(SPACE.sample(generator(seed)))
    orders = Counter[Any]()
    for order in permutations(genome):
        orders.update(classes for _, classes in class_windows(order))
    total = 720
    for classes, count in orders.items():
        assert expected_in_random_order(genome, classes) == pytest.approx(count / total)
    assert expected_in_random_order(genome, ("SA-2", "SA-1")) == 0.0


def test_expected_connections_are_as_many_as_there_are() -> None:
    """Chance moves connections; it makes none and loses none."""
    space = BackboneSpace(BackboneSettings(depth=16, classes=("SA-1", "Rec-1"), dimensions=Dimensions(width=64)))
    rng = generator(1)
    population = [space.plan(space.sample(rng)) for _ in range(20)]
    record = motif_record(population)
    for kind in ("feature", "featurizer"):
        rows = [row for row in record.distances if row.kind == kind]
        count = sum(1 for plan in population for which, *_ in connections(plan) if which == kind)
        assert sum(row.count for row in rows) == count > 30
        assert sum(row.expected for row in rows) == pytest.approx(count)
        assert connection_counts(population)[kind] == count / 20
    for plan in population:
        for name, pairs in random_partners(plan).items():
            own = sum(liv.row.name == name for liv in plan)
            assert pairs.total() == own * (own - 1) / 2


def test_random_genomes_show_no_motif() -> None:
    """The control: with 400 random genomes, counts of frequent sequences are near chance."""
    rng = generator(2)
    record = motif_record([SPACE.plan(SPACE.sample(rng)) for _ in range(400)])
    frequent = [one for one in record.classes if one.expected > 100]
    assert len(frequent) >= 4
    assert all(abs(one.count / one.expected - 1) < 0.25 for one in frequent)
    assert {one.first for one in record.classes} == {None}


def test_designed_founders_alternate() -> None:
    """The opposite: in the designed hybrids each mixer is followed by a memoryless LIV."""
    rng = generator(3)
    genomes = [genome for _ in range(40) if (genome := SPACE.initial(rng)) is not None]
    record = motif_record([SPACE.plan(genome) for genome in genomes])
    best = record.classes[0]
    assert best.count > 1.5 * best.expected
    assert not record.sharing
    assert not record.distances
    assert connection_counts([]) == {}


def test_one_liv_and_no_genome_have_no_motifs() -> None:
    assert motif_record(plans("91111")).classes == ()
    assert motif_record([]).to_json() == {"genomes": 0, "classes": (), "sharing": (), "distances": ()}
