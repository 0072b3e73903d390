"""A backbone as classes, sharing groups and residuals: what operations change. Integers are read from it at the end.

In integers two LIVs share only where class and index agree and both strategies allow it, so that most changes of one
integer change no connection. A draft has the connections themselves: a label per LIV and kind of sharing, equal for
the members of a group, and the roles that the LIV shares in its group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from evodevo.backbone.canonical_form import canonical_segments
from evodevo.backbone.genome import (
    CLASS,
    FEATURE,
    FEATURE_STRATEGY,
    FEATURIZER,
    FEATURIZER_STRATEGY,
    RESIDUAL,
    BackboneGenome,
    SharingOptions,
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

Roles = frozenset[str]
K = TypeVar("K")
V = TypeVar("V")
MOST_REMEMBERED, MOST_DRAFTS = 16_384, 512
"""Translations of integers, and drafts of genomes, that a scope remembers: a search asks for few again and again."""


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
        remember: Takes a canonical genome, so that ``canonical`` need not find it again, and returns it.
        dimensions: Sizes at which classes must exist.
        open_genes: Places of operator and featurizer genomes that mutation may change (``GENE_PLACES``).
    """

    classes: Mapping[int, LIVClass]
    drawn: tuple[int, ...]
    sharing: SharingOptions
    depths: tuple[int, int]
    residuals: bool
    canonical: Callable[[BackboneGenome], BackboneGenome]
    remember: Callable[[BackboneGenome], BackboneGenome]
    dimensions: Dimensions
    open_genes: tuple[str, ...] = ()
    # What would be computed again, equal.
    _legal: dict[tuple[str, int], Roles] = field(default_factory=dict, init=False, repr=False, compare=False)
    _shared: dict[tuple[int, ...], tuple[Roles, Roles]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _strategies: dict[tuple[int, Roles, Roles], tuple[int, int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _drafts: dict[BackboneGenome, Draft] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of connections of the space."""
        return (*GROUP_KINDS, RESIDUALS) if self.residuals else GROUP_KINDS

    def legal_roles(self, kind: str, number: int) -> frozenset[str]:
        """Roles that LIVs of a class may share."""
        found = self._legal.get((kind, number))
        if found is None:
            spec = self.classes[number].spec
            found = frozenset(self.sharing.feature_roles(spec) if kind == FEATURES else spec.groups)
            _remember(self._legal, (kind, number), found)
        return found

    def chosen_freely(self, kind: str) -> bool:
        """Whether any subset of the legal roles may be shared, or only all together."""
        return kind == FEATURES or self.sharing.partial_featurizers

    def shared_roles(self, segment: tuple[int, ...]) -> tuple[Roles, Roles]:
        """Roles whose features, and whose weights, the strategies of a segment share."""
        found = self._shared.get(segment)
        if found is None:
            spec = self.classes[segment[CLASS]].spec
            found = feature_mask(spec, segment[FEATURE_STRATEGY]), featurizer_mask(spec, segment[FEATURIZER_STRATEGY])
            _remember(self._shared, segment, found)
        return found

    def strategies(self, number: int, features: Roles, weights: Roles) -> tuple[int, int]:
        """Feature-group strategy and featurizer strategy that share these roles."""
        key = (number, features, weights)
        found = self._strategies.get(key)
        if found is None:
            spec = self.classes[number].spec
            tied = featurizer_strategy(spec, weights) if self.sharing.partial_featurizers else 1 + bool(weights)
            found = feature_strategy(spec, features), tied
            _remember(self._strategies, key, found)
        return found

    def draft(self, genome: BackboneGenome) -> Draft:
        """The draft of a canonical genome, to be read and copied, not to be changed."""
        found = self._drafts.get(genome)
        if found is None:
            found = Draft.of(genome, self)
            if len(self._drafts) > MOST_DRAFTS:
                self._drafts.clear()
            self._drafts[genome] = found
        return found


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
        """The draft of a valid genome."""
        numbers = [segment[CLASS] for segment in genome]
        shared = [scope.shared_roles(segment) for segment in genome]
        labels = {
            kind: _numbered([(segment[CLASS], segment[index]) for segment in genome])
            for kind, index in ((FEATURES, FEATURE), (FEATURIZERS, FEATURIZER))
        }
        roles = {kind: [pair[at] for pair in shared] for at, kind in enumerate(GROUP_KINDS)}
        residuals: list[int | None] = [None] * len(genome)
        if scope.residuals:
            latest: dict[int, int] = {}
            for place, segment in enumerate(genome):
                residuals[place] = latest.get(segment[RESIDUAL])
                latest[segment[RESIDUAL]] = place
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
        features, weights = (self._indices(kind) for kind in GROUP_KINDS)
        shared = zip(self.roles[FEATURES], self.roles[FEATURIZERS], strict=True)
        rows: list[tuple[int, ...]] = []
        for number, feature, featurizer, pair in zip(self.numbers, features, weights, shared, strict=True):
            strategy, tied = scope.strategies(number, *pair)
            rows.append((number, featurizer, tied, feature, strategy))
        return self._with_chains(rows, scope)

    def canonical(self, scope: VariationScope) -> BackboneGenome:
        """The canonical form of the integers: ``scope.canonical(draft.genome(scope))``, made at once."""
        rows = canonical_segments(
            self.numbers,
            self.labels[FEATURES],
            self.roles[FEATURES],
            self.labels[FEATURIZERS],
            self.roles[FEATURIZERS],
            scope.strategies,
        )
        return scope.remember(self._with_chains(rows, scope))

    def _with_chains(self, rows: list[tuple[int, ...]], scope: VariationScope) -> BackboneGenome:
        """Segments with the place of the residual extension, where the space has it."""
        if not scope.residuals:
            return tuple(rows)
        chains: list[int] = []
        for source in self.residuals:
            chains.append(max(chains, default=0) + 1 if source is None else chains[source])
        return tuple((*row, chain) for row, chain in zip(rows, chains, strict=True))

    def _indices(self, kind: str) -> list[int]:
        """Numbers of the groups, counted within each class."""
        groups: dict[tuple[int, int], int] = {}
        counts: dict[int, int] = {}
        indices = []
        for key in zip(self.numbers, self.labels[kind], strict=True):
            index = groups.get(key)
            if index is None:
                index = groups[key] = counts[key[0]] = counts.get(key[0], 0) + 1
            indices.append(index)
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


def _numbered(keys: list[tuple[int, int]]) -> list[int]:
    """Numbers of the keys in order of appearance, from 1."""
    numbers: dict[tuple[int, int], int] = {}
    return [numbers.setdefault(key, len(numbers) + 1) for key in keys]


def _remember(table: dict[K, V], key: K, value: V) -> None:
    if len(table) > MOST_REMEMBERED:
        table.clear()
    table[key] = value
