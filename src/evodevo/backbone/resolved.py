"""Class and connections of each LIV of a backbone: the part of its integers that has an effect.

Two backbones whose LIVs are all equal here are one network; integers without effect (an index that nobody else has, a
strategy whose bits have no partner) do not occur.
"""

from __future__ import annotations

from dataclasses import dataclass

from evodevo.backbone.draw import label
from evodevo.backbone.genome import (
    CLASS,
    FEATURE,
    FEATURE_STRATEGY,
    FEATURIZER,
    FEATURIZER_STRATEGY,
    PLACES,
    RESIDUAL,
    LIVPlan,
)


@dataclass(frozen=True)
class ResolvedLIV:
    """One LIV of a backbone.

    Attributes:
        number: number of the LIV class.
        name: name of the LIV class.
        features: (group, position of the LIV whose features it uses) of each group that it borrows.
        weights: (group, position of the LIV whose featurizer weights it uses) of each group that it shares.
        residual: position of the earlier LIV whose output is added to its input, or None.
        words: class and connections as text; LIVs are counted from 1.
    """

    number: int
    name: str
    features: tuple[tuple[str, int], ...]
    weights: tuple[tuple[str, int], ...]
    residual: int | None
    words: str

    def differences(self, other: ResolvedLIV) -> list[str]:
        """Places of a segment (``PLACES``) whose meaning is not the same; both LIVs have the same position."""
        places = []
        if self.number != other.number:
            places.append(CLASS)
        for mine, theirs, strategy, index in (
            (dict(self.weights), dict(other.weights), FEATURIZER_STRATEGY, FEATURIZER),
            (dict(self.features), dict(other.features), FEATURE_STRATEGY, FEATURE),
        ):
            if any(mine[role] != theirs[role] for role in mine.keys() & theirs.keys()):
                places.append(index)
            if mine.keys() != theirs.keys():
                places.append(strategy)
        if self.residual != other.residual:
            places.append(RESIDUAL)
        return [PLACES[place] for place in sorted(places)]


def resolved(plans: tuple[LIVPlan, ...]) -> tuple[ResolvedLIV, ...]:
    """All LIVs of a backbone."""
    return tuple(_resolve(plan) for plan in plans)


def _resolve(plan: LIVPlan) -> ResolvedLIV:
    features, weights = (_borrowed(plan, sources) for sources in (plan.origin, plan.weights))
    parts = [plan.row.name]
    for things, borrowed in (("features", features), ("weights", weights)):
        for owner in sorted({owner for _, owner in borrowed}):
            groups = frozenset(role for role, source in borrowed if source == owner)
            parts.append(f"{things} {label(plan.spec, groups)} of LIV {owner + 1}")
    if plan.residual is not None:
        parts.append(f"plus the output of LIV {plan.residual + 1}")
    return ResolvedLIV(plan.row.number, plan.row.name, features, weights, plan.residual, ", ".join(parts))


def _borrowed(plan: LIVPlan, sources: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((role, owner) for role, owner in sources.items() if owner != plan.position))
