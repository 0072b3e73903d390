"""Designed backbones of the first generation: what they share, and that old settings draw the old ones."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from evodevo.backbone.recipes import demo, small
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator
from evodevo.search.algorithms.nsga2 import NSGA2, NSGA2Settings
from evodevo.search.base import Proposal

DIMS = Dimensions(width=64)


def space_of(**settings: Any) -> BackboneSpace:
    return BackboneSpace(BackboneSettings(**({"dimensions": DIMS, "depth": 8} | settings)))


def founders(space: BackboneSpace, population: int) -> list[Proposal]:
    algorithm = NSGA2(NSGA2Settings(population=population))
    draw = lambda slot, purpose: generator(3, slot, purpose)  # noqa: E731
    return algorithm.ask(algorithm.start(), space, draw, population, lambda _: False)


@pytest.mark.parametrize("depth", [3, 4, 8, 24])
def test_sharing_designs_share_keys_and_values_in_pairs_and_one_featurizer_among_recurrences(depth: int) -> None:
    space = space_of(depth=depth)
    kinds = set()
    for seed in range(30):
        genome = space.initial_designs()["hybrid"](generator(seed))
        assert genome is not None
        assert all(not liv.features and not liv.weights for liv in space.resolved(genome))
        space = space_of(depth=depth, designs=("sharing",))
        genome = space.initial_designs()["sharing"](generator(seed))
        assert genome is not None
        space.check(genome)
        plans, livs = space.plan(genome), space.resolved(genome)
        assert any(liv.features or liv.weights for liv in livs)
        for number in {plan.row.number for plan in plans}:
            alike = [plan.position for plan in plans if plan.row.number == number]
            family = plans[alike[0]].spec.family
            kinds.add(family)
            if "attention" in family:
                for rank, place in enumerate(alike):
                    lent = (("key", alike[rank - 1]), ("value", alike[rank - 1])) if rank % 2 else ()
                    assert livs[place].features == lent
                    assert not livs[place].weights
            elif family == "recurrence":
                for place in alike[1:]:
                    assert {owner for _, owner in livs[place].weights} == {alike[0]}
                    assert {role for role, _ in livs[place].weights} == set(plans[place].spec.groups)
            else:
                assert not any(livs[place].features or livs[place].weights for place in alike)
        space = space_of(depth=depth)
    assert {"attention", "recurrence"} <= kinds


def test_there_is_no_sharing_design_where_nothing_can_be_shared() -> None:
    for settings in ({"classes": ("GConv-1", "GMemless")}, {"classes": ("SA-1",)}, {"depth": 2}):
        space = space_of(designs=("sharing",), **settings)
        assert space.initial_designs()["sharing"](generator(0)) is None
        assert [one.operation for one in founders(space, 4)] == ["sample"] * 4


def test_the_designed_half_takes_the_designs_in_turn() -> None:
    proposals = founders(space_of(designs=("hybrid", "sharing")), 9)
    assert [one.details.get("design") for one in proposals[:5]] == ["hybrid", "sharing"] * 2 + ["hybrid"]
    assert [one.operation for one in proposals] == ["initial"] * 5 + ["sample"] * 4
    old = founders(space_of(), 9)
    assert [one.details for one in old[:5]] == [{}] * 5
    assert [one.genome for one in proposals[::2]] == [one.genome for one in old[::2]], "each slot has its own draws"
    assert all(left.genome != right.genome for left, right in pairwise(proposals[:5]))


@pytest.mark.parametrize("recipe", [demo, small])
def test_recipes_begin_with_both_and_settings_without_the_field_with_the_old_one(recipe: Any) -> None:
    assert recipe("quick").space.designs == ("hybrid", "sharing")
    assert BackboneSettings.model_validate({}).designs == ("hybrid",)
    assert list(space_of().initial_designs()) == ["hybrid"]
