"""The canonical form of a backbone: equal for genomes of one network (STAR 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from evodevo.backbone.genome import components

Roles = frozenset[str]
NOTHING: Roles = frozenset()

Strategies = Callable[[int, Roles, Roles], tuple[int, int]]
"""Class, roles whose features and roles whose weights are shared -> feature-group strategy and featurizer strategy."""


def canonical_segments(
    numbers: Sequence[int],
    feature_labels: Sequence[int],
    feature_roles: Sequence[Roles],
    weight_labels: Sequence[int],
    weight_roles: Sequence[Roles],
    strategies: Strategies,
) -> list[tuple[int, ...]]:
    """The first five integers of each segment: only roles that have a partner are shared, and indices count the groups.

    Args:
        numbers: Class of each LIV.
        feature_labels: Label of each LIV's feature group; LIVs of one class and label are a group.
        feature_roles: Roles that each LIV would share there.
        weight_labels: Label of the group in which featurizer weights are shared.
        weight_roles: Roles that each LIV would share there.
        strategies: Function that writes roles as integers.
    """
    members: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        members.setdefault(number, []).append(place)
    rows: list[tuple[int, ...]] = [()] * len(numbers)
    for number, places in members.items():
        if len(places) == 1 or not any(feature_roles[place] or weight_roles[place] for place in places):
            for index, place in enumerate(places, 1):
                rows[place] = (number, index, 1, index, 1)
            continue
        labels, roles = [feature_labels[place] for place in places], [feature_roles[place] for place in places]
        features = _grouped(labels, roles)
        taken = _taken(labels, roles)
        own = [weight_roles[place] - gone for place, gone in zip(places, taken, strict=True)]
        weights = _grouped([weight_labels[place] for place in places], own)
        for place, (group, shared), (tied_group, tied) in zip(places, features, weights, strict=True):
            strategy, featurizer_strategy = strategies(number, shared, tied)
            rows[place] = (number, tied_group, featurizer_strategy, group, strategy)
    return rows


def _taken(labels: list[int], roles: list[Roles]) -> list[Roles]:
    """Roles that each LIV has from an earlier one of its group; the weights of borrowed features are unused."""
    owned: dict[int, Roles] = {}
    taken = []
    for label, mask in zip(labels, roles, strict=True):
        before = owned.get(label, NOTHING)
        taken.append(before & mask)
        owned[label] = before | mask
    return taken


def _grouped(labels: list[int], roles: list[Roles]) -> list[tuple[int, Roles]]:
    """Number of each LIV's group of connected LIVs, and the roles that it has in common with others of it.

    Only LIVs of one label can be connected, and none that shares no role.
    """
    alike: dict[int, list[int]] = {}
    for place, mask in enumerate(roles):
        if mask:
            alike.setdefault(labels[place], []).append(place)
    links = [(a, b) for places in alike.values() for a, b in combinations(places, 2) if roles[a] & roles[b]]
    found = [(place + 1, NOTHING) for place in range(len(labels))]
    if links:
        for number, group in enumerate(components(list(range(len(labels))), iter(links)), 1):
            for place in group:
                others = NOTHING.union(*(roles[other] for other in group if other != place))
                found[place] = (number, roles[place] & others)
    return found
