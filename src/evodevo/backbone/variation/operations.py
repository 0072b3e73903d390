"""The operations of a mutation, one function each: a draft with one change, or None where the backbone has no room.

An operation tries its choices in random order and takes the first that keeps its law; the laws are stated in the
docstrings, and tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TypeVar

import numpy as np

from evodevo.backbone.variation.draft import (
    GROUP_KINDS,
    NO_ROLES,
    RESIDUALS,
    Draft,
    VariationScope,
)
from evodevo.backbone.variation.genes import FEATURIZER, OPERATOR, mutant_class, open_genes
from evodevo.backbone.variation.sources import DraftSources
from evodevo.randomness import draw_one

T = TypeVar("T")
Change = tuple[Draft, str]
"""A changed draft and the kind of connection that was changed; "" where it is none."""
Apply = Callable[[Draft, VariationScope, np.random.Generator], Change | None]

TRIES = 16
"""Choices that are tried before an operation gives up."""


@dataclass(frozen=True)
class PlanOperation:
    """One operation.

    Attributes:
        weight: Share of the draws that it gets by default, relative to the others.
        apply: Function that makes the change; None for the paper's mutation of integers, which acts on no draft.
        level: Level of the genome that it changes; those below the backbone are drawn where the space opens genes of
            theirs.
    """

    weight: float
    apply: Apply | None
    level: str = "backbone"


def connect(draft: Draft, scope: VariationScope, rng: np.random.Generator) -> Change | None:
    """Connect two LIVs of a class that share nothing of the kind; with residuals, any two LIVs of a distance over 1.

    The plan has exactly one connection of the kind more, and nothing that was connected is separated.
    """
    for kind in _shuffled(scope.kinds, rng):
        changes: Iterable[Draft]
        if kind == RESIDUALS:
            changes = _joined_chains(draft, rng)
        else:
            alone = [place for place, roles in enumerate(draft.roles[kind]) if not roles]
            pairs = [(i, j) for i, j in combinations(alone, 2) if draft.numbers[i] == draft.numbers[j]]
            changes = (_tied(draft, scope, kind, i, j, rng) for i, j in _shuffled(pairs, rng)[:TRIES])
        if changed := _first(changes, draft, kind, more=1):
            return changed, kind
    return None


def extend(draft: Draft, scope: VariationScope, rng: np.random.Generator) -> Change | None:
    """A group gets one LIV more, or a connection one role more.

    The plan has at most one connection of the kind more, and nothing that was connected is separated.
    """
    for kind in _shuffled(GROUP_KINDS, rng):
        numbers, roles = draft.numbers, draft.roles[kind]
        alone = [place for place, shared in enumerate(roles) if not shared]
        inside = [place for place, shared in enumerate(roles) if shared]
        joins = [(x, y, 1) for x in alone for y in inside if numbers[x] == numbers[y]]
        widened = []
        if scope.chosen_freely(kind):
            widened = [(owner, user, 0) for owner, user in DraftSources.of(draft).arcs(kind)]
        for one, other, more in _shuffled([*joins, *widened], rng)[:TRIES]:
            if more:
                changed = _joined(draft, scope, kind, one, other, rng)
            else:
                left = sorted(scope.legal_roles(kind, numbers[one]) - roles[one] - roles[other])
                if not left:
                    continue
                changed = draft.copy()
                role = frozenset([draw_one(left, rng)])
                for place in (one, other):
                    changed.roles[kind][place] |= role
            if _first([changed], draft, kind, more=more):
                return changed, kind
    return None


def disconnect(draft: Draft, scope: VariationScope, rng: np.random.Generator) -> Change | None:
    """Remove exactly one connection of the plan; all others stay."""
    sources = DraftSources.of(draft)
    before = sources.connections()
    for kind, owner, user in _shuffled(sorted(before), rng)[:TRIES]:
        changed = draft.copy()
        if kind == RESIDUALS:
            changed.residuals[user] = None
        else:
            borrowed = {role for role, source in sources.borrowed[kind][user].items() if source == owner}
            kept = draft.roles[kind][user] - borrowed if scope.chosen_freely(kind) else NO_ROLES
            changed.roles[kind][user] = kept
            if not kept:
                changed.leave(kind, user)
        if DraftSources.of(changed).connections() == before - {(kind, owner, user)}:
            return changed, kind
    return None


def split(draft: Draft, scope: VariationScope, rng: np.random.Generator) -> Change | None:
    """Divide a group of three LIVs or more in two; LIVs of one part stay connected as they were."""
    for kind in _shuffled(GROUP_KINDS, rng):
        groups = [draft.members(kind, label) for label in sorted(set(draft.labels[kind]))]
        for group in _shuffled([members for members in groups if len(members) > 2], rng):
            cut = int(rng.integers(1, len(group)))
            part = _shuffled(group, rng)[:cut]
            changed, label = draft.copy(), draft.new_label(kind)
            for place in part:
                changed.labels[kind][place] = label
            return changed, kind
    return None


def change_class(draft: Draft, scope: VariationScope, rng: np.random.Generator) -> Change | None:
    """One LIV gets another class. What it shared with LIVs of its old class ends; all other connections stay."""
    place = int(rng.integers(len(draft)))
    others = [number for number in scope.drawn if number != draft.numbers[place]]
    if not others:
        return None
    changed = draft.copy()
    changed.numbers[place] = draw_one(others, rng)
    for kind in GROUP_KINDS:
        changed.leave(kind, place)
    return changed, ""


def change_group_class(draft: Draft, scope: VariationScope, rng: np.random.Generator) -> Change | None:
    """All LIVs that are connected with one get another class; they share on in the roles that it has too."""
    linked = [place for place in range(len(draft)) if any(draft.roles[kind][place] for kind in GROUP_KINDS)]
    if not linked:
        return None
    group = _connected(draft, draw_one(linked, rng))
    others = [number for number in scope.drawn if number != draft.numbers[group[0]]]
    if not others:
        return None
    return _reclassed(draft, scope, group, draw_one(others, rng)), ""


def change_operator(draft: Draft, scope: VariationScope, rng: np.random.Generator) -> Change | None:
    """One integer of an operator genome changes (STAR 3.2); see ``_evolve``."""
    return _evolve(draft, scope, OPERATOR, rng)


def change_featurizer(draft: Draft, scope: VariationScope, rng: np.random.Generator) -> Change | None:
    """One integer of a featurizer genome changes (STAR A.6.3); see ``_evolve``."""
    return _evolve(draft, scope, FEATURIZER, rng)


def _evolve(draft: Draft, scope: VariationScope, level: str, rng: np.random.Generator) -> Change | None:
    """All LIVs of a class, or those connected with one of them, get another operator near theirs.

    They share on in the roles that it has too.
    """
    for place in _shuffled(range(len(draft)), rng)[:TRIES]:
        spec = scope.classes[draft.numbers[place]].spec
        number = mutant_class(spec, level, scope.open_genes, scope.dimensions, rng)
        if number is not None:
            alike = [at for at, other in enumerate(draft.numbers) if other == draft.numbers[place]]
            group = alike if rng.random() < 0.5 else _connected(draft, place)
            return _reclassed(draft, scope, group, number), ""
    return None


def _reclassed(draft: Draft, scope: VariationScope, group: list[int], number: int) -> Draft:
    """A draft in which a group of LIVs of one class, with all that they are connected with, has another class."""
    changed = draft.copy()
    for kind in GROUP_KINDS:
        legal = scope.legal_roles(kind, number)
        # Labels of the group may not meet those of other LIVs of the new class.
        fresh = {label: draft.new_label(kind) + at for at, label in enumerate(sorted(set(draft.labels[kind])))}
        for place in group:
            changed.labels[kind][place] = fresh[draft.labels[kind][place]]
            roles = draft.roles[kind][place]
            changed.roles[kind][place] = roles & legal if scope.chosen_freely(kind) or not roles else legal
    for place in group:
        changed.numbers[place] = number
    return changed


def swap(draft: Draft, scope: VariationScope, rng: np.random.Generator) -> Change | None:
    """Two LIVs exchange their positions, each with what it shares."""
    pairs = [
        (i, j)
        for i, j in combinations(range(len(draft)), 2)
        if draft.numbers[i] != draft.numbers[j]
        or any(draft.roles[kind][place] for kind in GROUP_KINDS for place in (i, j))
    ]
    if not pairs:
        return None
    changed = draft.copy()
    changed.swap(*pairs[int(rng.integers(len(pairs)))])
    return changed, ""


def insert(draft: Draft, scope: VariationScope, rng: np.random.Generator) -> Change | None:
    """One LIV more, without connections; the others stay as they were."""
    if len(draft) >= scope.depths[1]:
        return None
    changed = draft.copy()
    changed.insert(int(rng.integers(len(draft) + 1)), draw_one(scope.drawn, rng))
    return changed, ""


def delete(draft: Draft, scope: VariationScope, rng: np.random.Generator) -> Change | None:
    """One LIV less; those that shared with it go on sharing with each other."""
    if len(draft) <= scope.depths[0]:
        return None
    changed = draft.copy()
    changed.delete(int(rng.integers(len(draft))))
    return changed, ""


INTEGERS = "integers"
# Class changes and crossover end connections as well; with these weights and without selection, somewhat under half of
# the children of a small search share features (benchmarks/variation.py).
OPERATIONS: dict[str, PlanOperation] = {
    "connect": PlanOperation(5.0, connect),
    "extend": PlanOperation(1.5, extend),
    "disconnect": PlanOperation(1.5, disconnect),
    "split": PlanOperation(0.5, split),
    "class": PlanOperation(2.0, change_class),
    "group class": PlanOperation(1.0, change_group_class),
    "swap": PlanOperation(2.0, swap),
    "insert": PlanOperation(1.0, insert),
    "delete": PlanOperation(1.0, delete),
    INTEGERS: PlanOperation(1.0, None),
    OPERATOR: PlanOperation(3.0, change_operator, OPERATOR),
    FEATURIZER: PlanOperation(3.0, change_featurizer, FEATURIZER),
}


def drawn_operations(scope: VariationScope) -> dict[str, PlanOperation]:
    """The operations of a space."""
    return dict(_drawn_operations(scope.open_genes))


@lru_cache(maxsize=64)
def _drawn_operations(places: tuple[str, ...]) -> dict[str, PlanOperation]:
    return {
        name: row
        for name, row in OPERATIONS.items()
        if row.level not in (OPERATOR, FEATURIZER) or open_genes(places, row.level)
    }


def _first(changes: Iterable[Draft], draft: Draft, kind: str, *, more: int) -> Draft | None:
    """The first change that separates nothing and has ``more`` connections of the kind more, of other kinds none."""
    base: DraftSources | None = None
    for changed in changes:
        if base is None:  # where nothing can be changed, nobody asks
            base = DraftSources.of(draft)
            before, linked = base.connections(), base.links()
            count = sum(one[0] == kind for one in before)
            others = {one for one in before if one[0] != kind}
        sources = DraftSources.of(changed)
        after = sources.connections()
        if sum(one[0] == kind for one in after) != count + more:
            continue
        if {one for one in after if one[0] != kind} <= others and linked < sources.links():
            return changed
    return None


def _tied(draft: Draft, scope: VariationScope, kind: str, one: int, other: int, rng: np.random.Generator) -> Draft:
    roles = _some(scope.legal_roles(kind, draft.numbers[one]), scope.chosen_freely(kind), rng)
    changed, label = draft.copy(), draft.new_label(kind)
    for place in (one, other):
        changed.labels[kind][place] = label
        changed.roles[kind][place] = roles
    return changed


def _joined(draft: Draft, scope: VariationScope, kind: str, place: int, member: int, rng: np.random.Generator) -> Draft:
    changed = draft.copy()
    changed.labels[kind][place] = draft.labels[kind][member]
    changed.roles[kind][place] = _some(draft.roles[kind][member], scope.chosen_freely(kind), rng)
    return changed


def _joined_chains(draft: Draft, rng: np.random.Generator) -> Iterable[Draft]:
    """The last LIV of one chain of residuals is joined to the first of another that lies after it."""
    read = set(draft.residuals)
    heads = [place for place, source in enumerate(draft.residuals) if source is None]
    tails = [place for place in range(len(draft)) if place not in read]
    pairs = [(tail, head) for tail in tails for head in heads if tail < head - 1]
    for tail, head in _shuffled(pairs, rng)[:TRIES]:
        changed = draft.copy()
        changed.residuals[head] = tail
        yield changed


def _connected(draft: Draft, place: int) -> list[int]:
    """All LIVs that are connected with one, over any number of others, itself included; ascending."""
    found, waiting = {place}, [place]
    while waiting:
        one = waiting.pop()
        for kind in GROUP_KINDS:
            for other in draft.members(kind, draft.labels[kind][one]):
                if other not in found:
                    found.add(other)
                    waiting.append(other)
    return sorted(found)


def _some(roles: frozenset[str], freely: bool, rng: np.random.Generator) -> frozenset[str]:
    """A random subset that is not empty, all equally probable; all roles where they are not chosen freely."""
    names = sorted(roles)
    if not freely or not names:
        return roles
    bits = int(rng.integers(1, 2 ** len(names)))
    return frozenset(name for bit, name in enumerate(names) if bits >> bit & 1)


def _shuffled(values: Iterable[T], rng: np.random.Generator) -> list[T]:
    listed = list(values)
    return [listed[place] for place in rng.permutation(len(listed)).tolist()]
