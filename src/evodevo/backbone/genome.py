"""The backbone genome: the meaning of each integer of a segment, and what LIVs share.

One segment per LIV: class, featurizer index, featurizer strategy, feature-group index, feature-group strategy, and with
the residual extension (STAR A.7) a sixth. Readings of what the paper leaves open: docs/spec/star.md#backbone-genome.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from evodevo.operators.classes import LIVClass
from evodevo.operators.featurizer_spec import PROJECTED
from evodevo.operators.spec import RECURRENT, SHARED_ROLES, OperatorSpec, Structure

BackboneGenome = tuple[tuple[int, ...], ...]

MAX_LIVS = 512
CLASS, FEATURIZER, FEATURIZER_STRATEGY, FEATURE, FEATURE_STRATEGY, RESIDUAL = range(6)
PLACES = (
    "LIV class",
    "featurizer index",
    "featurizer strategy",
    "feature-group index",
    "feature-group strategy",
    "residual value",
)


@dataclass(frozen=True)
class SharingOptions:
    """The sharing strategies of a space beyond the paper's.

    Attributes:
        queries: attention may share queries too (strategies 1 to 8 instead of 1 to 4).
        partial_featurizers: featurizers may be shared for some groups only.
    """

    queries: bool = False
    partial_featurizers: bool = False

    def feature_roles(self, spec: OperatorSpec) -> tuple[str, ...]:
        """The groups that may be shared, in the order of the bits."""
        roles = SHARED_ROLES[spec.structure]
        return roles if self.queries else tuple(role for role in roles if role != "query")

    def feature_strategies(self, spec: OperatorSpec) -> int:
        """Largest feature-group strategy; 1 is none."""
        return int(2 ** len(self.feature_roles(spec)))

    def featurizer_strategies(self, spec: OperatorSpec) -> int:
        """Largest featurizer strategy; 1 is none, 2 is all, 2 + mask is the groups of that mask."""
        return int(2 ** len(spec.groups)) if self.partial_featurizers else 2


def feature_mask(spec: OperatorSpec, strategy: int) -> frozenset[str]:
    """Groups that a feature-group strategy shares: 1 + the sum of 2^bit (docs/spec/star.md#backbone-genome)."""
    return _roles_of(spec.structure, strategy - 1)


def featurizer_mask(spec: OperatorSpec, strategy: int) -> frozenset[str]:
    """Groups whose weights a featurizer strategy shares."""
    if strategy == 2:
        return frozenset(spec.groups)
    return _roles_of(spec.structure, 0 if strategy == 1 else strategy - 2)


def feature_strategy(spec: OperatorSpec, roles: frozenset[str]) -> int:
    """The inverse of ``feature_mask``."""
    return 1 + _bits_of(spec.structure, roles)


def featurizer_strategy(spec: OperatorSpec, roles: frozenset[str]) -> int:
    """The inverse of ``featurizer_mask``."""
    if not roles:
        return 1
    if roles == frozenset(spec.groups):
        return 2
    return 2 + _bits_of(spec.structure, roles)


# A search translates some hundred masks per proposal, of which few differ.


@cache
def _masks(structure: Structure) -> tuple[frozenset[str], ...]:
    roles = SHARED_ROLES[structure]
    return tuple(
        frozenset(role for bit, role in enumerate(roles) if bits >> bit & 1) for bits in range(1 << len(roles))
    )


def _roles_of(structure: Structure, bits: int) -> frozenset[str]:
    masks = _masks(structure)
    return masks[bits & len(masks) - 1]


def _bits_of(structure: Structure, roles: frozenset[str]) -> int:
    return sum(1 << bit for bit, role in enumerate(SHARED_ROLES[structure]) if role in roles) if roles else 0


_MOST_UNSHARED = 4096


@dataclass(frozen=True)
class LIVPlan:
    """One LIV of a backbone, with every connection resolved; plans are shared, their tables are not to be changed.

    Attributes:
        position: place in the backbone, from 0.
        row: LIV class of the segment.
        origin: role -> position of the LIV that computes the group's features (its own position if it does).
        weights: role -> position that names the weights, for the groups that it computes itself.
        state_owner: name of a state tensor -> position of the LIV that keeps it.
        residual: position of the earlier LIV whose output is added to its input, or None.
        alone: whether it is known to use nothing of an earlier LIV; such plans are made once (``_unshared``).
    """

    position: int
    row: LIVClass
    origin: dict[str, int]
    weights: dict[str, int]
    state_owner: dict[str, int]
    residual: int | None
    alone: bool = field(default=False, compare=False, repr=False)

    @property
    def spec(self) -> OperatorSpec:
        """The compiled operator."""
        return self.row.spec

    @property
    def owned(self) -> frozenset[str]:
        """Groups that it computes itself."""
        return frozenset(self.weights)

    @property
    def reads_input(self) -> bool:
        """Whether it uses its input at all; one that borrows every projected group does not, and needs no norm."""
        projected = any(self.spec.groups[role].parametrisation == PROJECTED for role in self.weights)
        return projected or self.spec.differential == "v2"


def plan_backbone(genome: BackboneGenome, classes: Mapping[int, LIVClass]) -> tuple[LIVPlan, ...]:
    """Resolve every connection of a valid genome.

    Two LIVs are connected in a group if class and index agree and both masks contain the group; the owner is the
    earliest. Where features are shared their weights are unused, so they are not named (docs/spec/star.md#sharing).
    """
    first_feature: dict[tuple[int, int, str], int] = {}
    first_weights: dict[tuple[int, int, str], int] = {}
    keepers: dict[tuple[object, ...], int] = {}
    nearest: dict[int, int] = {}
    plans = []
    for position, segment in enumerate(genome):
        row = classes[segment[CLASS]]
        if len(segment) == RESIDUAL and segment[FEATURE_STRATEGY] == segment[FEATURIZER_STRATEGY] == 1:
            plans.append(_unshared(row, position))
            continue
        spec = row.spec
        shared = feature_mask(spec, segment[FEATURE_STRATEGY])
        origin = dict.fromkeys(spec.groups, position)
        weights = origin.copy()
        for role in shared:
            owner = first_feature.setdefault((row.number, segment[FEATURE], role), position)
            if owner != position:
                origin[role] = owner
                del weights[role]
        if segment[FEATURIZER_STRATEGY] != 1:
            for role in featurizer_mask(spec, segment[FEATURIZER_STRATEGY]) & weights.keys():
                weights[role] = first_weights.setdefault((row.number, segment[FEATURIZER], role), position)
        residual = None
        if len(segment) > RESIDUAL:
            residual = nearest.get(segment[RESIDUAL])
            nearest[segment[RESIDUAL]] = position
        names = _state_roles(spec.structure, spec.keeps_scores)
        # A LIV that may share no features has all groups for itself, and so all its state.
        state = _keepers(spec, origin, position, keepers) if shared and names else dict.fromkeys(names, position)
        plans.append(LIVPlan(position, row, origin, weights, state, residual))
    return tuple(plans)


_UNSHARED: dict[tuple[int, int], LIVPlan] = {}


def _unshared(row: LIVClass, position: int) -> LIVPlan:
    """The plan of a LIV that shares nothing; made once, since most LIVs of a search are such."""
    key = (row.number, position)
    found = _UNSHARED.get(key)
    if found is None or found.row is not row:
        own = dict.fromkeys(row.spec.groups, position)
        state = dict.fromkeys(_state_roles(row.spec.structure, row.spec.keeps_scores), position)
        if len(_UNSHARED) > _MOST_UNSHARED:
            _UNSHARED.clear()
        found = _UNSHARED[key] = LIVPlan(position, row, own, own, state, None, alone=True)
    return found


def _keepers(
    spec: OperatorSpec, origin: dict[str, int], position: int, keepers: dict[tuple[object, ...], int]
) -> dict[str, int]:
    """State tensors of LIVs whose determining groups come from the same places are one tensor."""
    owners: dict[str, int] = {}
    for name, roles in _state_roles(spec.structure, spec.keeps_scores).items():
        # A LIV with an own group among them has a key that no LIV before it can have.
        key = (name, spec.operator, spec.differential, *[origin[role] for role in roles])
        owners[name] = keepers.setdefault(key, position)
    return owners


@cache
def _state_roles(structure: Structure, keeps_scores: bool) -> dict[str, tuple[str, ...]]:
    """The state tensors that more than one group determines, and these groups."""
    if structure == "low_rank" and not keeps_scores:
        return {"matrix": ("key", "value")}
    if structure in RECURRENT:
        return {"matrix": ("value", "decay", "write")}
    if structure == "toeplitz":
        return {"inputs": ("value", "write"), "modes": ("value", "write", "filter")}
    return {}


def connections(plans: tuple[LIVPlan, ...]) -> Iterator[tuple[str, int, int, frozenset[str]]]:
    """Every arc of a drawing: ("feature" or "featurizer", owner, user, groups)."""
    for plan in plans:
        for kind, sources in (("feature", plan.origin), ("featurizer", plan.weights)):
            for owner in sorted({source for source in sources.values() if source != plan.position}):
                yield kind, owner, plan.position, frozenset(r for r, source in sources.items() if source == owner)


def components(members: list[int], links: Iterator[tuple[int, int]]) -> list[list[int]]:
    """Connected components of a small graph, each sorted, in the order of their first members."""
    group = {member: member for member in members}

    def root(member: int) -> int:
        while group[member] != member:
            member = group[member]
        return member

    for a, b in links:
        low, high = sorted((root(a), root(b)))
        group[high] = low
    groups: dict[int, list[int]] = {}
    for member in members:
        groups.setdefault(root(member), []).append(member)
    return list(groups.values())
