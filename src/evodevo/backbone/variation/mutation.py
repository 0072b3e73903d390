"""A mutation of the resolved plan: operations drawn by weight until the network is another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.variation.draft import VariationScope
from evodevo.backbone.variation.operations import OPERATIONS, drawn_operations
from evodevo.randomness import draw_weighted

MOST_DRAWS = 20
"""Draws after which a mutation gives up: in a space of one network every draw is without a change."""

IntegerMutation = Callable[[BackboneGenome, np.random.Generator], BackboneGenome]


@dataclass(frozen=True)
class Mutation:
    """The result of a mutation.

    Attributes:
        genome: The mutant, canonical; the given genome where no draw changed the network.
        operations: Names of the operations that made it, in their order, of connections with their kind.
        draws: Number of draws; each before the last gave the same network.
    """

    genome: BackboneGenome
    operations: tuple[str, ...]
    draws: int


def mutate_plan(
    genome: BackboneGenome,
    scope: VariationScope,
    *,
    probability: float,
    weights: Mapping[str, float],
    integers: IntegerMutation,
    rng: np.random.Generator,
) -> Mutation:
    """Change the network of a genome.

    Args:
        genome: Valid genome.
        scope: Facts of its space.
        probability: Probability of an operation per LIV, 0 to 1; at least one operation is carried out, none at 0.
        weights: Operation -> weight of the draw; operations that are left out have their default.
        integers: Mutation of the paper, with repair.
        rng: Generator of the draws.
    """
    if probability == 0:
        return Mutation(genome, (), 0)
    start = scope.canonical(genome)
    shares = {name: weights.get(name, row.weight) for name, row in drawn_operations(scope).items()}
    for draw in range(1, MOST_DRAWS + 1):
        mutant, names = start, []
        for _ in range(max(1, int(rng.binomial(len(start), probability)))):
            mutant, name = _operate(mutant, scope, shares, integers, rng)
            names += [name] if name else []
        if mutant != start:
            return Mutation(mutant, tuple(names), draw)
    return Mutation(genome, (), MOST_DRAWS)


def _operate(
    genome: BackboneGenome,
    scope: VariationScope,
    shares: Mapping[str, float],
    integers: IntegerMutation,
    rng: np.random.Generator,
) -> tuple[BackboneGenome, str]:
    """The genome after one operation, and its name; "" where none is possible."""
    left = {name: share for name, share in shares.items() if share > 0}
    while left:
        name = list(left)[draw_weighted(tuple(left.values()), rng)]
        apply = OPERATIONS[name].apply
        if apply is None:
            return scope.canonical(integers(genome, rng)), name
        change = apply(scope.draft(genome), scope, rng)
        if change is not None:
            draft, kind = change
            return draft.canonical(scope), f"{name} {kind}".rstrip()
        del left[name]  # this backbone has no room for it
    return genome, ""
