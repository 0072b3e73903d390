"""Crossover of resolved plans: children inherit spans of whole LIVs, and what the LIVs of one parent share there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.variation.draft import GROUP_KINDS, Draft, VariationScope


def cross_plans(
    a: BackboneGenome, b: BackboneGenome, scope: VariationScope, points: int, rng: np.random.Generator
) -> tuple[BackboneGenome, BackboneGenome]:
    """Two children; their spans come from the parents in turn.

    A connection is inherited where both its LIVs are inherited from the parent that has it, also from two spans. LIVs
    of unequal parents are never connected.

    Args:
        a, b: Valid genomes.
        scope: Facts of their space.
        points: Number of cuts; fewer where the shorter parent has less room.
        rng: Generator of the draws.
    """
    drafts = (Draft.of(scope.canonical(a), scope), Draft.of(scope.canonical(b), scope))
    room = min(len(drafts[0]), len(drafts[1])) - 1
    count = min(points, room)
    cuts = sorted(int(cut) + 1 for cut in rng.choice(room, size=count, replace=False)) if count else []
    ends = [0, *cuts, max(len(drafts[0]), len(drafts[1]))]
    # The parent of each position; where the last span's parent is shorter, the child ends with it.
    origins = [number % 2 for number, (start, stop) in enumerate(pairwise(ends)) for _ in range(start, stop)]
    one, other = (_inherited(drafts, [origin ^ first for origin in origins]) for first in (0, 1))
    return scope.canonical(one.genome(scope)), scope.canonical(other.genome(scope))


def _inherited(drafts: tuple[Draft, Draft], origins: list[int]) -> Draft:
    """The child that has each LIV from the parent of that number, at its own position."""
    taken = [(place, origin) for place, origin in enumerate(origins) if place < len(drafts[origin])]
    residuals: list[int | None] = []
    for place, origin in taken:
        source = drafts[origin].residuals[place]
        residuals.append(source if source is not None and origins[source] == origin else None)
    return Draft(
        [drafts[origin].numbers[place] for place, origin in taken],
        # Even labels are of one parent, odd ones of the other.
        {kind: [2 * drafts[origin].labels[kind][place] + origin for place, origin in taken] for kind in GROUP_KINDS},
        {kind: [drafts[origin].roles[kind][place] for place, origin in taken] for kind in GROUP_KINDS},
        residuals,
    )
