"""What a draft says of itself is what its integers build; and what a space remembers decides nothing."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from evodevo.backbone.genome import BackboneGenome, LIVPlan, connections
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.backbone.variation import draft as module
from evodevo.backbone.variation.draft import FEATURES, FEATURIZERS, RESIDUALS, Draft
from evodevo.backbone.variation.operations import OPERATIONS
from evodevo.backbone.variation.sources import DraftSources
from evodevo.operators.spec import Dimensions
from evodevo.randomness import generator

SPACES: dict[str, dict[str, Any]] = {
    "few": {"depth": 10, "classes": ("SA-1", "Rec-1-Diff", "GMemless")},
    "everything": {
        "depth": 9,
        "depth_range": (5, 12),
        "residuals": True,
        "share_queries": True,
        "partial_featurizers": True,
        "classes": ("SA-1", "SA-3-Diff", "Rec-2", "GConv-1", "GMemless"),
    },
}


def space_of(name: str) -> BackboneSpace:
    return BackboneSpace(BackboneSettings(operators="plan", dimensions=Dimensions(width=64), **SPACES[name]))


def drafts(space: BackboneSpace) -> list[Draft]:
    """Random genomes, which are not canonical, children of many generations, and changes that may not be kept."""
    rng, scope = generator(11, "drafts"), space._scope
    found: list[Draft] = []
    genomes = [space.sample(rng) for _ in range(12)]
    for _ in range(4):
        genomes += [space.mutate(genome, rng) for genome in genomes[-12:]]
        for one, other in combinations(genomes[-4:], 2):
            genomes += space.crossover(one, other, rng)
    for number, genome in enumerate(genomes):
        found.append(Draft.of(genome, scope))
        before = Draft.of(space.canonical(genome), scope)
        for name, operation in OPERATIONS.items():
            if operation.apply and (change := operation.apply(before, scope, generator(2, number, name))):
                found.append(change[0])
        scattered = before.copy()
        scattered.residuals = [None, None, *([0] * (len(before) - 2))] if scope.residuals else before.residuals
        found.append(scattered)
    return found


def links(plans: tuple[LIVPlan, ...]) -> set[tuple[str, str, int, int]]:
    """Pairs of LIVs that use one tensor or one set of weights, found by comparing every two."""
    found = {(RESIDUALS, "", liv.residual, liv.position) for liv in plans if liv.residual is not None}
    for one, other in combinations(plans, 2):
        for role in one.origin.keys() & other.origin.keys():
            sources = [liv.origin[role] for liv in (one, other)]
            named = [plans[source].weights[role] for source in sources]
            if one.row is other.row and sources[0] == sources[1]:
                found.add((FEATURES, role, one.position, other.position))
            if one.row is other.row and named[0] == named[1]:
                found.add((FEATURIZERS, role, one.position, other.position))
    return found


@pytest.mark.parametrize("name", list(SPACES))
def test_sources_and_canonical_form_of_a_draft_are_those_of_its_integers(name: str) -> None:
    space = space_of(name)
    scope, shared = space._scope, 0
    for draft in drafts(space):
        genome = draft.genome(scope)
        plans = space.plan(genome)
        sources = DraftSources.of(draft)
        for kind in (FEATURES, FEATURIZERS):
            assert sources.arcs(kind) == [arc[1:3] for arc in connections(plans) if arc[0] == kind]
        assert sources.arcs(RESIDUALS) == [(p.residual, p.position) for p in plans if p.residual is not None]
        assert sources.links() == links(plans)
        assert draft.canonical(scope) == space_of(name).canonical(genome)
        shared += bool(sources.links())
    assert shared > 50


def children(space: BackboneSpace, warm: int) -> list[BackboneGenome]:
    """Mutants and children of a few parents, after so many others were made in this space."""
    rng = generator(5, "warm")
    for _ in range(warm):
        space.crossover(space.mutate(space.sample(rng), rng), space.sample(rng), rng)
    rng = generator(5, "children")
    parents = [space.sample(rng) for _ in range(4)]
    for one, other in combinations(parents, 2):
        parents += [space.mutate(child, rng) for child in space.crossover(one, other, rng)]
    return parents


@pytest.mark.parametrize("name", list(SPACES))
def test_children_do_not_depend_on_what_a_space_remembers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = children(space_of(name), 0)
    assert children(space_of(name), 40) == fresh
    monkeypatch.setattr(module, "MOST_REMEMBERED", 2)
    monkeypatch.setattr(module, "MOST_DRAFTS", 1)
    assert children(space_of(name), 5) == fresh
