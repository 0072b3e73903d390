"""Crossover of resolved plans: children inherit spans of whole LIVs, and what the LIVs of one parent share there."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np

from evodevo.backbone.genome import BackboneGenome
from evodevo.backbone.variation.draft import GROUP_KINDS, NO_ROLES, Draft, VariationScope


def cross_plans(
    a: BackboneGenome, b: BackboneGenome, scope: VariationScope, points: int, rng: np.random.Generator
) -> tuple[BackboneGenome, BackboneGenome]:
    """Two children; their spans come from the parents in turn.

    A connection is inherited where both its LIVs come from the parent that has it, also in two spans, and where both
    parents have it. What follows from these, since sharing is transitive, is connected too; nothing else is.

    Args:
        a, b: Valid genomes.
        scope: Facts of their space.
        points: Number of cuts, at least 1; fewer where the shorter parent has fewer places.
        rng: Generator of the draws.
    """
    drafts = (scope.draft(scope.canonical(a)), scope.draft(scope.canonical(b)))
    room = min(len(drafts[0]), len(drafts[1])) - 1
    count = min(points, room)
    cuts = sorted(int(cut) + 1 for cut in rng.choice(room, size=count, replace=False)) if count else []
    ends = [0, *cuts, max(len(drafts[0]), len(drafts[1]))]
    # The parent of each position; where the last span's parent is shorter, the child ends with it.
    origins = [number % 2 for number, (start, stop) in enumerate(pairwise(ends)) for _ in range(start, stop)]
    one, other = (_inherited(drafts, [origin ^ first for origin in origins]) for first in (0, 1))
    return one.canonical(scope), other.canonical(scope)


def _inherited(drafts: tuple[Draft, Draft], origins: list[int]) -> Draft:
    """The child that has each LIV from the parent of that number, at its own position."""
    taken = [(place, origin) for place, origin in enumerate(origins) if place < len(drafts[origin])]
    residuals: list[int | None] = []
    for place, origin in taken:
        source = drafts[origin].residuals[place]
        other = drafts[1 - origin]
        both = place < len(other) and other.residuals[place] == source
        residuals.append(source if source is not None and (both or origins[source] == origin) else None)
    child = Draft(
        [drafts[origin].numbers[place] for place, origin in taken],
        # Even labels are of one parent, odd ones of the other.
        {kind: [2 * drafts[origin].labels[kind][place] + origin for place, origin in taken] for kind in GROUP_KINDS},
        {kind: [drafts[origin].roles[kind][place] for place, origin in taken] for kind in GROUP_KINDS},
        residuals,
    )
    for kind in GROUP_KINDS:
        _join_common(child, drafts, kind, [origin for _, origin in taken])
    return child


def _join_common(child: Draft, drafts: tuple[Draft, Draft], kind: str, origins: list[int]) -> None:
    """Join groups of unequal parents where both parents connect LIVs of them, unless that connected further roles."""
    common: dict[tuple[int, int], frozenset[str]] = {}
    room = min(len(drafts[0]), len(drafts[1]), len(child))
    inside = [place for place in range(room) if all(draft.roles[kind][place] for draft in drafts)]
    for one, other in combinations(inside, 2):
        if origins[one] == origins[other]:
            continue
        if roles := _shared(drafts[0], kind, one, other) & _shared(drafts[1], kind, one, other):
            first, second = sorted((child.labels[kind][one], child.labels[kind][other]))
            common[first, second] = common.get((first, second), NO_ROLES) | roles
    if not common:
        return
    groups = {label: label for pair in common for label in pair}
    for (first, second), roles in sorted(common.items()):
        left, right = (child.members(kind, groups[label]) for label in (first, second))
        if groups[first] == groups[second]:
            continue
        made = frozenset[str]().union(*(child.roles[kind][i] & child.roles[kind][j] for i in left for j in right))
        if made <= roles:
            kept, gone = groups[first], groups[second]
            for place in right:
                child.labels[kind][place] = kept
            groups = {label: kept if now == gone else now for label, now in groups.items()}


def _shared(draft: Draft, kind: str, one: int, other: int) -> frozenset[str]:
    """Roles in which two LIVs of a draft are connected."""
    if draft.labels[kind][one] != draft.labels[kind][other]:
        return NO_ROLES
    return draft.roles[kind][one] & draft.roles[kind][other]
