"""A backbone as classes, sharing groups and residuals: what operations change. Integers are read from it at the end.

In integers two LIVs share only where class and index agree and both strategies allow it, so that most changes of one
integer change no connection. A draft has the connections themselves: a label per LIV and kind of sharing, equal for
the members of a group, and the roles that the LIV shares in its group.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import count

from evodevo.backbone.genome import (
    CLASS,
    FEATURE,
    FEATURE_STRATEGY,
    FEATURIZER,
    FEATURIZER_STRATEGY,
    BackboneGenome,
    LIVPlan,
    SharingOptions,
    connections,
    feature_mask,
    feature_strategy,
    featurizer_mask,
    featurizer_strategy,
)
from evodevo.operators.classes import LIVClass
from evodevo.operators.spec import Dimensions

FEATURES, FEATURIZERS, RESIDUALS = "feature", "featurizer", "residual"
GROUP_KINDS = (FEATURES, FEATURIZERS)
"""Kinds of sharing that come in groups; a residual joins two LIVs."""
NO_ROLES: frozenset[str] = frozenset()

Connection = tuple[str, int, int]
"""(kind, position of the owner, position of the user)."""
Link = tuple[str, str, int, int]
"""(kind, role, position, position): both LIVs use one tensor, or one set of weights, for the role."""


@dataclass(frozen=True)
class VariationScope:
    """The facts of a space that the operations use.

    Attributes:
        classes: All LIV classes by number.
        drawn: Numbers of the classes that a change may lead to.
        sharing: Strategies of the space.
        depths: (fewest, most) LIVs.
        residuals: Whether the space has the residual extension (STAR A.7).
        canonical: Representative of all genomes that build the same network.
        resolve: Plan of a genome.
        dimensions: Sizes at which classes must exist.
        open_genes: Places of operator and featurizer genomes that mutation may change (``GENE_PLACES``).
    """

    classes: Mapping[int, LIVClass]
    drawn: tuple[int, ...]
    sharing: SharingOptions
    depths: tuple[int, int]
    residuals: bool
    canonical: Callable[[BackboneGenome], BackboneGenome]
    resolve: Callable[[BackboneGenome], tuple[LIVPlan, ...]]
    dimensions: Dimensions
    open_genes: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of connections of the space."""
        return (*GROUP_KINDS, RESIDUALS) if self.residuals else GROUP_KINDS

    def legal_roles(self, kind: str, number: int) -> frozenset[str]:
        """Roles that LIVs of a class may share."""
        spec = self.classes[number].spec
        return frozenset(self.sharing.feature_roles(spec) if kind == FEATURES else spec.groups)

    def chosen_freely(self, kind: str) -> bool:
        """Whether any subset of the legal roles may be shared, or only all together."""
        return kind == FEATURES or self.sharing.partial_featurizers

    def plan(self, draft: Draft) -> tuple[LIVPlan, ...]:
        """The plan of a draft."""
        return self.resolve(draft.genome(self))


@dataclass
class Draft:
    """A backbone that is being changed.

    Attributes:
        numbers: Class of each LIV.
        labels: Kind -> label of each LIV's group; LIVs of unequal class never have one label.
        roles: Kind -> roles that each LIV shares in its group; empty where it shares nothing.
        residuals: Position of the LIV whose output is added to the input of each; None where there is none.
    """

    numbers: list[int]
    labels: dict[str, list[int]]
    roles: dict[str, list[frozenset[str]]]
    residuals: list[int | None]

    @classmethod
    def of(cls, genome: BackboneGenome, scope: VariationScope) -> Draft:
        """The draft of a canonical genome."""
        numbers = [segment[CLASS] for segment in genome]
        labels, roles = {}, {}
        for kind, index, strategy, mask in (
            (FEATURES, FEATURE, FEATURE_STRATEGY, feature_mask),
            (FEATURIZERS, FEATURIZER, FEATURIZER_STRATEGY, featurizer_mask),
        ):
            labels[kind] = _numbered([(segment[CLASS], segment[index]) for segment in genome])
            roles[kind] = [mask(scope.classes[segment[CLASS]].spec, segment[strategy]) for segment in genome]
        residuals: list[int | None] = [None] * len(genome)
        if scope.residuals:
            residuals = [liv.residual for liv in scope.resolve(genome)]
        return cls(numbers, labels, roles, residuals)

    def __len__(self) -> int:
        return len(self.numbers)

    def copy(self) -> Draft:
        """An independent draft."""
        labels = {kind: list(values) for kind, values in self.labels.items()}
        roles = {kind: list(values) for kind, values in self.roles.items()}
        return Draft(list(self.numbers), labels, roles, list(self.residuals))

    def genome(self, scope: VariationScope) -> BackboneGenome:
        """The integers."""
        indices = {kind: self._indices(kind) for kind in GROUP_KINDS}
        chains: list[int] = []
        rows = []
        for place, number in enumerate(self.numbers):
            spec = scope.classes[number].spec
            weights = self.roles[FEATURIZERS][place]
            tied = featurizer_strategy(spec, weights) if scope.sharing.partial_featurizers else 1 + bool(weights)
            row = [number, indices[FEATURIZERS][place], tied]
            row += [indices[FEATURES][place], feature_strategy(spec, self.roles[FEATURES][place])]
            if scope.residuals:
                source = self.residuals[place]
                chains.append(len(set(chains)) + 1 if source is None else chains[source])
                row.append(chains[place])
            rows.append(tuple(row))
        return tuple(rows)

    def _indices(self, kind: str) -> list[int]:
        """Numbers of the groups, counted within each class."""
        known: dict[int, dict[int, int]] = {}
        indices = []
        for number, label in zip(self.numbers, self.labels[kind], strict=True):
            groups = known.setdefault(number, {})
            indices.append(groups.setdefault(label, len(groups) + 1))
        return indices

    # Groups

    def members(self, kind: str, label: int) -> list[int]:
        """Positions of the LIVs of a group."""
        return [place for place, other in enumerate(self.labels[kind]) if other == label]

    def leave(self, kind: str, place: int) -> None:
        """Make a LIV share nothing."""
        self.labels[kind][place] = self.new_label(kind)
        self.roles[kind][place] = NO_ROLES

    def new_label(self, kind: str) -> int:
        """A label that no LIV has."""
        return max(self.labels[kind], default=0) + 1

    # LIVs

    def insert(self, place: int, number: int) -> None:
        """Put a LIV without connections before the one at ``place``."""
        self.numbers.insert(place, number)
        for kind in GROUP_KINDS:
            self.labels[kind].insert(place, self.new_label(kind))
            self.roles[kind].insert(place, NO_ROLES)
        moved = [None if source is None else source + (source >= place) for source in self.residuals]
        self.residuals = [*moved[:place], None, *moved[place:]]

    def delete(self, place: int) -> None:
        """Take a LIV out; whoever read its output reads instead what it read itself."""
        instead = self.residuals[place]
        sources = [instead if source == place else source for source in self.residuals]
        sources = [None if source is None else source - (source > place) for source in sources]
        del self.numbers[place], sources[place]
        for kind in GROUP_KINDS:
            del self.labels[kind][place], self.roles[kind][place]
        # The output of the LIV just before is in the stream already.
        self.residuals = [None if source == at - 1 else source for at, source in enumerate(sources)]

    def swap(self, one: int, other: int) -> None:
        """Exchange two LIVs with what they share; extra residuals stay at their positions."""
        for values in (self.numbers, *self.labels.values(), *self.roles.values()):
            values[one], values[other] = values[other], values[one]  # type: ignore[index]


def _numbered(keys: list[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    counter = count(1)
    return [numbers[key] if key in numbers else numbers.setdefault(key, next(counter)) for key in keys]


# What a plan connects


def connections_of(plans: tuple[LIVPlan, ...]) -> frozenset[Connection]:
    """Every connection of a plan, extra residuals included."""
    shared = {(kind, owner, user) for kind, owner, user, _ in connections(plans)}
    residuals = {(RESIDUALS, liv.residual, liv.position) for liv in plans if liv.residual is not None}
    return frozenset(shared | residuals)


def links_of(plans: tuple[LIVPlan, ...]) -> frozenset[Link]:
    """All pairs of LIVs that use one tensor, one set of weights or one residual.

    Features that two LIVs share are made with one set of weights, so that these pairs share weights too.
    """
    users: dict[tuple[str, str, int], list[int]] = {}
    for liv in plans:
        for role, source in liv.origin.items():
            if source != liv.position:
                users.setdefault((FEATURES, role, source), [source]).append(liv.position)
            named = plans[source].weights[role]
            if named != liv.position:
                users.setdefault((FEATURIZERS, role, named), [named]).append(liv.position)
    links = {
        (kind, role, one, other)
        for (kind, role, _), group in users.items()
        for at, one in enumerate(group)
        for other in group[at + 1 :]
    }
    links |= {(RESIDUALS, "", liv.residual, liv.position) for liv in plans if liv.residual is not None}
    return frozenset(links)
