"""The canonical form of a backbone: equal for genomes of one network (STAR 3.1)."""

from __future__ import annotations

from itertools import combinations

from evodevo.backbone.genome import (
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
from evodevo.operators.spec import OperatorSpec


def canonical_form(genome: BackboneGenome, plans: tuple[LIVPlan, ...], *, partial_featurizers: bool) -> BackboneGenome:
    """Strategies keep only the bits that have a partner, and indices count the groups that remain.

    Args:
        genome: Valid genome.
        plans: Its LIVs with their connections resolved.
        partial_featurizers: Whether featurizers may be shared for some groups only (STAR 3.1, item 3).
    """
    rows = [list(segment) for segment in genome]
    for number in {plan.row.number for plan in plans}:
        members = [plan.position for plan in plans if plan.row.number == number]
        spec = plans[members[0]].spec
        features = {n: feature_mask(spec, genome[n][FEATURE_STRATEGY]) for n in members}
        weights = {n: featurizer_mask(spec, genome[n][FEATURIZER_STRATEGY]) & plans[n].owned for n in members}
        for place, masks in ((FEATURE, features), (FEATURIZER, weights)):
            _renumber(rows, place, members, masks)
        for n in members:
            _write_strategies(rows, n, plans[n].spec, members, features, weights, partial_featurizers)
    if len(genome[0]) > RESIDUAL:
        _renumber_residuals(rows, plans)
    return tuple(tuple(row) for row in rows)


def _renumber(rows: list[list[int]], place: int, members: list[int], masks: dict[int, frozenset[str]]) -> None:
    links = ((a, b) for a, b in combinations(members, 2) if rows[a][place] == rows[b][place] and masks[a] & masks[b])
    for index, group in enumerate(components(members, links), 1):
        for member in group:
            rows[member][place] = index


def _write_strategies(
    rows: list[list[int]],
    n: int,
    spec: OperatorSpec,
    members: list[int],
    features: dict[int, frozenset[str]],
    weights: dict[int, frozenset[str]],
    partial_featurizers: bool,
) -> None:
    # Indices were renumbered above; LIVs of one index are now exactly those that are connected.
    alike = [m for m in members if m != n and rows[m][FEATURE] == rows[n][FEATURE]]
    partners = frozenset().union(*(features[m] for m in alike)) & features[n] if alike else frozenset()
    rows[n][FEATURE_STRATEGY] = feature_strategy(spec, frozenset(partners))
    alike = [m for m in members if m != n and rows[m][FEATURIZER] == rows[n][FEATURIZER]]
    tied = frozenset().union(*(weights[m] for m in alike)) & weights[n] if alike else frozenset()
    if partial_featurizers:
        rows[n][FEATURIZER_STRATEGY] = featurizer_strategy(spec, frozenset(tied))
    else:
        rows[n][FEATURIZER_STRATEGY] = 2 if tied else 1


def _renumber_residuals(rows: list[list[int]], plans: tuple[LIVPlan, ...]) -> None:
    chain: dict[int, int] = {}
    for plan in plans:
        chain[plan.position] = len(set(chain.values())) + 1 if plan.residual is None else chain[plan.residual]
        rows[plan.position][RESIDUAL] = chain[plan.position]
