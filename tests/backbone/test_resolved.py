"""Comparing backbones as networks: integers without effect are no difference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator

DIMS = Dimensions(width=64)
FEW = ("SA-1", "Rec-2", "GMemless")
OPTIONS = st.sampled_from([{}, {"residuals": True}, {"share_queries": True, "partial_featurizers": True}])


def space_of(**options: Any) -> BackboneSpace:
    options = {"depth": 4, "classes": FEW, "mutation_probability": 0.2, "distance": "network"} | options
    return BackboneSpace(BackboneSettings(dimensions=DIMS, **options))


@settings(max_examples=100, deadline=None, database=None)
@given(seed=st.integers(0, 2**32), options=OPTIONS)
def test_two_genomes_are_at_no_distance_exactly_where_their_hashes_are_equal(seed: int, options: Any) -> None:
    space, rng = space_of(**options), generator(seed)
    one = space.sample(rng)
    other = space.mutate(one, rng)
    assert (space.distance(one, other) == 0) == (space.hash(one) == space.hash(other))
    assert space.distance(one, space.canonical(one)) == 0
    assert space.distance(one, other) == space.distance(other, one)
    named = [a.differences(b) for a, b in zip(space.resolved(one), space.resolved(other), strict=True)]
    assert space.distance(one, other) == pytest.approx(sum(map(bool, named)) / len(named))


def test_an_unequal_depth_counts_what_only_one_has() -> None:
    space = space_of(depth_range=(1, 8))
    assert space.distance(space.parse("11111 91111"), space.parse("11111 91111 51111 92121")) == 0.5


def test_a_settings_field_keeps_the_distance_of_old_searches() -> None:
    left, right = "11111 91111 12121 51111", "11121 91111 12111 51111"
    old, new = space_of(distance="integers"), space_of()
    assert BackboneSettings().distance == "integers"
    assert old.distance(old.parse(left), old.parse(right)) == 0.5
    assert new.distance(new.parse(left), new.parse(right)) == 0.0


def test_words_and_places_of_a_difference() -> None:
    space = space_of(depth=6, residuals=True)
    one = space.resolved(space.parse("111121 911112 111123 511114 921211 511215"))
    other = space.resolved(space.parse("111141 911112 111143 512114 921213 512215"))
    assert [liv.words for liv in one] == [
        "SA-1",
        "GMemless",
        "SA-1, features K of LIV 1",
        "Rec-1",
        "GMemless, plus the output of LIV 1",
        "Rec-1",
    ]
    assert one[2].differences(other[2]) == ["feature-group strategy"]
    assert one[4].differences(other[4]) == ["residual value"]
    assert one[5].differences(other[5]) == ["featurizer strategy"]
    assert [place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b] == [2, 4, 5]
