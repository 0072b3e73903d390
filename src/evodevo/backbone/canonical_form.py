"""The canonical form of a backbone: equal for genomes of one network (STAR 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

from evodevo.backbone.genome import (
    CLASS,
    FEATURE,
    FEATURE_STRATEGY,
    FEATURIZER,
    FEATURIZER_STRATEGY,
    RESIDUAL,
    BackboneGenome,
    LIVPlan,
    components,
    feature_mask,
    feature_strategy,
    featurizer_mask,
    featurizer_strategy,
)
from evodevo.operators.classes import LIVClass

NOTHING: frozenset[str] = frozenset()


def canonical_form(
    genome: BackboneGenome,
    classes: Mapping[int, LIVClass],
    *,
    partial_featurizers: bool,
    plan: Callable[[BackboneGenome], tuple[LIVPlan, ...]],
) -> BackboneGenome:
    """Strategies keep only the bits that have a partner, and indices count the groups that remain.

    Args:
        genome: Valid genome.
        classes: Number -> every LIV class.
        partial_featurizers: Whether featurizers may be shared for some groups only (STAR 3.1, item 3).
        plan: Function that resolves the connections of a genome.
    """
    rows = [list(segment) for segment in genome]
    plans: tuple[LIVPlan, ...] = ()  # made where something needs it
    members: dict[int, list[int]] = {}
    for n, segment in enumerate(genome):
        members.setdefault(segment[CLASS], []).append(n)
    for number, places in members.items():
        if len(places) == 1:
            rows[places[0]][FEATURIZER : FEATURE_STRATEGY + 1] = (1, 1, 1, 1)
            continue
        spec = classes[number].spec
        features = {n: feature_mask(spec, genome[n][FEATURE_STRATEGY]) for n in places}
        weights = {n: featurizer_mask(spec, genome[n][FEATURIZER_STRATEGY]) for n in places}
        if any(features.values()):  # weights of borrowed features are unused
            plans = plans or plan(genome)
            weights = {n: mask & plans[n].owned for n, mask in weights.items()}
        for n, partners in _renumber(rows, FEATURE, places, features).items():
            rows[n][FEATURE_STRATEGY] = feature_strategy(spec, partners)
        for n, tied in _renumber(rows, FEATURIZER, places, weights).items():
            rows[n][FEATURIZER_STRATEGY] = featurizer_strategy(spec, tied) if partial_featurizers else 1 + bool(tied)
    if len(genome[0]) > RESIDUAL:
        _renumber_residuals(rows, plans or plan(genome))
    return tuple(map(tuple, rows))


def _renumber(
    rows: list[list[int]], place: int, members: list[int], masks: dict[int, frozenset[str]]
) -> dict[int, frozenset[str]]:
    """Count the groups of LIVs that are connected; the roles that each LIV has in common with others of its group.

    Only LIVs of one index can be connected, and none whose mask is empty.
    """
    sharing: dict[int, list[int]] = {}
    for n in members:
        if masks[n]:
            sharing.setdefault(rows[n][place], []).append(n)
    links = [(a, b) for alike in sharing.values() for a, b in combinations(alike, 2) if masks[a] & masks[b]]
    common = dict.fromkeys(members, NOTHING)
    groups = components(members, iter(links)) if links else [[n] for n in members]
    for index, group in enumerate(groups, 1):
        for n in group:
            rows[n][place] = index
            if len(group) > 1:
                common[n] = masks[n] & NOTHING.union(*(masks[m] for m in group if m != n))
    return common


def _renumber_residuals(rows: list[list[int]], plans: tuple[LIVPlan, ...]) -> None:
    chain: dict[int, int] = {}
    for plan in plans:
        chain[plan.position] = len(set(chain.values())) + 1 if plan.residual is None else chain[plan.residual]
        rows[plan.position][RESIDUAL] = chain[plan.position]
