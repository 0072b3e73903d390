"""The space of STAR backbones: sequences of LIVs with their sharing, as integers (STAR 3.1, 4.2, A.6.1, A.7)."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations, pairwise, zip_longest
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from evodevo.backbone.cost import backbone_cost
from evodevo.backbone.depth import at_depth, motif_of
from evodevo.backbone.designs import hybrid, sharing_hybrid
from evodevo.backbone.genome import (
    CLASS,
    FEATURE,
    FEATURE_STRATEGY,
    FEATURIZER,
    FEATURIZER_STRATEGY,
    MAX_LIVS,
    PLACES,
    RESIDUAL,
    BackboneGenome,
    LIVPlan,
    SharingOptions,
    components,
    feature_mask,
    feature_strategy,
    featurizer_mask,
    featurizer_strategy,
    plan_backbone,
)
from evodevo.backbone.named import NAMED_BACKBONES
from evodevo.backbone.resolved import ResolvedLIV, resolved
from evodevo.backbone.variation.crossover import cross_plans
from evodevo.backbone.variation.draft import VariationScope
from evodevo.backbone.variation.levels import Level, gene_places, level_at, operation_weights
from evodevo.backbone.variation.mutation import mutate_plan
from evodevo.backbone.written_classes import SMALLEST, LIVClasses, written_class
from evodevo.errors import GenomeError, UsageError, quoted_list, unknown_name
from evodevo.operators.classes import OPERATORS, LIVClass, liv_classes
from evodevo.operators.cost import Convention, Cost, Mode
from evodevo.operators.genome_text import parse_segments, print_segments
from evodevo.operators.spec import Dimensions
from evodevo.search.space import Space
from evodevo.settings import Settings


class BackboneSettings(Settings):
    """The settings of a backbone space.

    Attributes:
        depth: LIVs of a sampled backbone.
        depth_range: (fewest, most) LIVs; makes depth variable (an extension of the paper).
        classes: names of the LIV classes that are drawn, or operator genomes such as ``12141``; the paper's 17 if left
            out.
        residuals: the sixth integer of A.7.
        share_queries: attention may share queries.
        partial_featurizers: featurizers may be shared for some groups only (STAR 3.1, item 3).
        mutation_probability: per integer (STAR A.4: 10 %).
        crossover_points: k (STAR A.4: 2).
        operators: ``paper`` mutates single integers and cuts between them; ``plan`` acts on connections and whole LIVs
            (``backbone.variation``), with ``mutation_probability`` per LIV.
        operation_weights: operation -> weight, at least 0, of its draw under ``plan``; the defaults if left out.
        designs: kinds of designed backbones that begin a search, in turn: ``hybrid`` shares nothing, ``sharing`` shares
            keys and values in pairs of attention LIVs, and one featurizer among recurrences.
        distance: what two LIVs are compared by: ``integers`` (those without effect too) or ``network`` (class and
            connections).
        open_genes: places of operator and featurizer genomes that mutation may change under ``plan``
            (``backbone.variation.genes.GENE_PLACES``: ``operator``, ``featurizer.repeat``, …).
        levels: what mutation may change in which generation, one entry after the other; the last one holds to the end.
        dimensions: sizes that the genome leaves open.
    """

    depth: int = Field(default=24, ge=1, le=MAX_LIVS)
    depth_range: tuple[int, int] | None = None
    classes: tuple[str, ...] | None = None
    residuals: bool = False
    share_queries: bool = False
    partial_featurizers: bool = False
    mutation_probability: float = Field(default=0.1, ge=0.0, le=1.0)
    crossover_points: int = Field(default=2, ge=1, le=64)
    # Not written where it is the default, so that runs and networks from before it are still written as they were.
    operators: Literal["paper", "plan"] = Field(default="paper", exclude_if=lambda value: value == "paper")
    operation_weights: dict[str, float] = Field(default_factory=dict, exclude_if=lambda value: not value)
    designs: tuple[Literal["hybrid", "sharing"], ...] = Field(
        default=("hybrid",), min_length=1, max_length=16, exclude_if=lambda value: value == ("hybrid",)
    )
    distance: Literal["integers", "network"] = Field(default="integers", exclude_if=lambda value: value == "integers")
    open_genes: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    levels: tuple[Level, ...] = Field(default=(), exclude_if=lambda value: not value)
    dimensions: Dimensions = Dimensions(width=768)

    @model_validator(mode="after")
    def _genes_need_operations(self) -> Self:
        if self.operators == "paper" and (self.open_genes or self.levels):
            raise ValueError("open_genes and levels need operators=plan; the paper's operators change no lower level")
        if self.levels and (self.open_genes or self.operation_weights):
            raise ValueError("with levels, open_genes and operation_weights are given in each level")
        return self

    @field_validator("open_genes")
    @classmethod
    def _are_places(cls, places: tuple[str, ...]) -> tuple[str, ...]:
        return gene_places(places)

    @field_validator("operation_weights")
    @classmethod
    def _are_weights(cls, weights: dict[str, float]) -> dict[str, float]:
        return operation_weights(weights)


class BackboneSpace(Space[BackboneGenome]):
    """Backbones of LIVs. A genome is a tuple of segments of five integers, six with the residual extension."""

    name = "backbone"
    version = 1

    def __init__(self, settings: BackboneSettings | None = None) -> None:
        """
        Raises:
            UsageError: an unknown class, an impossible depth range, or a class that the width does not allow.
        """
        self.settings = settings or BackboneSettings()
        self.all_classes = LIVClasses(liv_classes())
        self.classes = self._drawn_classes()
        self.sharing = SharingOptions(self.settings.share_queries, self.settings.partial_featurizers)
        low, high = self.settings.depth_range or (self.settings.depth, self.settings.depth)
        if not 1 <= low <= self.settings.depth <= high <= MAX_LIVS:
            raise UsageError(
                f"depth {self.settings.depth} with depth_range ({low}, {high}): 1 <= fewest <= depth <= most <= "
                f"{MAX_LIVS} is wanted."
            )
        self.depths = (low, high)
        self._stages: dict[str, BackboneSpace] = {}
        self.genes = 6 if self.settings.residuals else 5
        for row in self.classes.values():
            row.spec.check(self.settings.dimensions)
        self._scope = VariationScope(
            self.all_classes,
            tuple(self.classes),
            self.sharing,
            self.depths,
            self.settings.residuals,
            self.canonical,
            self.settings.dimensions,
            self.settings.open_genes,
        )

    def _drawn_classes(self) -> dict[int, LIVClass]:
        names = self.settings.classes
        if names is None:
            return {number: row for number, row in self.all_classes.items() if row.sampled}
        if not names:
            raise UsageError("classes is empty; name at least one LIV class or leave it out.")
        rows = [written_class(int(name)) if name.isdecimal() else OPERATORS.get(name) for name in names]
        return {row.number: row for row in sorted(rows, key=lambda row: row.number)}

    # Validity

    def check(self, genome: BackboneGenome) -> None:
        """Raise ``GenomeError`` for the first integer that is not allowed at its place.

        Any class of the table is accepted, so that a named backbone of a class that is never drawn is a genome too.
        """
        if not 1 <= len(genome) <= MAX_LIVS:
            raise GenomeError(f"a backbone has 1 to {MAX_LIVS} LIVs; this one has {len(genome)}.")
        counts = Counter(segment[CLASS] for segment in genome if segment)
        last: dict[int, int] = {}
        for position, segment in enumerate(genome):
            if len(segment) != self.genes:
                raise GenomeError(f"segment {position + 1} has {len(segment)} integers; {self.genes} are wanted.")
            for place, value in enumerate(segment):
                if place == CLASS and value >= SMALLEST and value not in self.all_classes:
                    written_class(value)  # says what is wrong with the digits
                allowed = self._allowed(segment, place, counts, len(genome))
                if value not in allowed:
                    more = ", or an operator genome such as 12141" if place == CLASS else ""
                    raise GenomeError(
                        f"segment {position + 1}, integer {place + 1} ({PLACES[place]}) is {value}; "
                        f"allowed: {_ranges(allowed)}{more}."
                    )
            if self.genes > RESIDUAL:
                value = segment[RESIDUAL]
                if last.get(value) == position - 1:
                    raise GenomeError(
                        f"segment {position + 1}, integer 6 (residual value) is {value}, as in the segment before it; "
                        "the output of the LIV just before is in the stream already. Choose another value."
                    )
                last[value] = position
            self.all_classes[segment[CLASS]].spec.check(self.settings.dimensions)

    def _allowed(self, segment: Sequence[int], place: int, counts: Counter[int], depth: int) -> Collection[int]:
        if place == CLASS:
            return self.all_classes
        if place == RESIDUAL:
            return range(1, depth + 1)
        if place in (FEATURIZER, FEATURE):
            return range(1, counts[segment[CLASS]] + 1)
        spec = self.all_classes[segment[CLASS]].spec
        most = self.sharing.featurizer_strategies if place == FEATURIZER_STRATEGY else self.sharing.feature_strategies
        return range(1, most(spec) + 1)

    def repair(self, genome: BackboneGenome, rng: np.random.Generator) -> BackboneGenome:
        """Remove invalid connections and draw invalid values anew (STAR 4.2); valid genomes come back unchanged."""
        try:
            self.check(genome)
            return genome
        except GenomeError:
            pass
        low, high = self.depths
        rows = [list(segment) for segment in genome[:high]]
        rows = [(row + [0] * self.genes)[: self.genes] for row in rows]
        while len(rows) < low:
            rows.append([0] * self.genes)
        drawn = list(self.classes)
        for row in rows:
            if row[CLASS] not in self.all_classes or not self._fits(row[CLASS]):
                row[CLASS] = int(rng.choice(drawn))
        counts = Counter(row[CLASS] for row in rows)
        for place in (FEATURIZER, FEATURE):
            self._repair_indices(rows, place, counts)
        for row in rows:
            for place in (FEATURIZER_STRATEGY, FEATURE_STRATEGY):
                allowed = self._allowed(row, place, counts, len(rows))
                if row[place] not in allowed:
                    row[place] = int(rng.choice(list(allowed)))
        if self.genes > RESIDUAL:
            self._repair_residuals(rows)
        return tuple(tuple(row) for row in rows)

    def _fits(self, number: int) -> bool:
        try:
            self.all_classes[number].spec.check(self.settings.dimensions)
        except GenomeError:
            return False
        return True

    @staticmethod
    def _repair_indices(rows: list[list[int]], place: int, counts: Counter[int]) -> None:
        used: dict[int, set[int]] = {}
        for row in rows:
            if 1 <= row[place] <= counts[row[CLASS]]:
                used.setdefault(row[CLASS], set()).add(row[place])
        for row in rows:
            if not 1 <= row[place] <= counts[row[CLASS]]:
                taken = used.setdefault(row[CLASS], set())
                row[place] = _lowest_unused(taken)
                taken.add(row[place])

    @staticmethod
    def _repair_residuals(rows: list[list[int]]) -> None:
        used = {row[RESIDUAL] for row in rows if 1 <= row[RESIDUAL] <= len(rows)}
        before = None
        for row in rows:
            if not 1 <= row[RESIDUAL] <= len(rows) or row[RESIDUAL] == before:
                row[RESIDUAL] = _lowest_unused(used)
                used.add(row[RESIDUAL])
            before = row[RESIDUAL]

    # Drawing

    def initial(self, rng: np.random.Generator) -> BackboneGenome | None:
        """A simple hybrid without connections: token mixers alternate with memoryless LIVs (STAR 5, option pool).

        None where the space draws no memoryless class or no plain mixer.
        """
        pattern = hybrid(self.classes, self._depth, rng)
        return None if pattern is None else unconnected(pattern, self.genes)

    def initial_designs(self) -> Mapping[str, Callable[[np.random.Generator], BackboneGenome | None]]:
        """Hybrids without and with sharing, as the settings name them."""
        kinds = {"hybrid": self.initial, "sharing": self._sharing}
        return {name: kinds[name] for name in self.settings.designs}

    def _sharing(self, rng: np.random.Generator) -> BackboneGenome | None:
        return sharing_hybrid(self.classes, self._depth, lambda pattern: unconnected(pattern, self.genes), rng)

    def _depth(self, rng: np.random.Generator) -> int:
        low, high = self.depths
        return int(rng.integers(low, high + 1))

    def _sample(self, rng: np.random.Generator) -> BackboneGenome:
        depth = self._depth(rng)
        rows = [[int(value), *([0] * (self.genes - 1))] for value in rng.choice(list(self.classes), size=depth)]
        counts = Counter(row[CLASS] for row in rows)
        for row in rows:
            for place in range(1, self.genes):
                row[place] = int(rng.choice(list(self._allowed(row, place, counts, depth))))
        return tuple(tuple(row) for row in rows)

    def at(self, generation: int) -> BackboneSpace:
        """See ``Space``: with ``levels``, the space of that generation's stage."""
        levels = self.settings.levels
        if not levels:
            return self
        stage = level_at(levels, generation)
        name = stage.model_dump_json()
        if name not in self._stages:
            changes = {
                "levels": (),
                "open_genes": stage.open_genes,
                "operation_weights": stage.operation_weights,
            }
            self._stages[name] = BackboneSpace(self.settings.model_copy(update=changes))
        return self._stages[name]

    def mutation(self, genome: BackboneGenome, rng: np.random.Generator) -> tuple[BackboneGenome, dict[str, Any]]:
        """See ``Space``; under ``plan`` the names of the ``operations`` and the number of ``draws``."""
        if self.settings.operators == "paper":
            return super().mutation(genome, rng)
        made = mutate_plan(
            genome,
            self._scope,
            probability=self.settings.mutation_probability,
            weights=self.settings.operation_weights,
            integers=lambda given, draws: self.repair(self._mutate_integers(given, draws), draws),
            rng=rng,
        )
        facts = {"operations": list(made.operations), "draws": made.draws} if made.draws else {}
        return self.repair(made.genome, rng), facts

    def _mutate(self, genome: BackboneGenome, rng: np.random.Generator) -> BackboneGenome:
        if self.settings.operators == "plan":
            return self.mutation(genome, rng)[0]
        return self._mutate_integers(genome, rng)

    def _mutate_integers(self, genome: BackboneGenome, rng: np.random.Generator) -> BackboneGenome:
        """Each integer, with the mutation probability, becomes another value that is valid at its place."""
        rows = [list(segment) for segment in genome]
        probability = self.settings.mutation_probability
        low, high = self.depths
        if low < high and rng.random() < probability:
            rows = self._change_depth(rows, rng)
        counts = Counter(row[CLASS] for row in rows)
        for row in rows:
            hits = rng.random(self.genes) < probability
            for place in np.flatnonzero(hits):
                allowed = list(self.classes) if place == CLASS else self._allowed(row, int(place), counts, len(rows))
                others = [value for value in allowed if value != row[place]]
                if others:
                    row[place] = int(rng.choice(others))
        return tuple(tuple(row) for row in rows)

    def _change_depth(self, rows: list[list[int]], rng: np.random.Generator) -> list[list[int]]:
        low, high = self.depths
        grow = len(rows) < high and (len(rows) == low or bool(rng.random() < 0.5))
        if grow:
            place = int(rng.integers(len(rows) + 1))
            return [*rows[:place], [int(rng.choice(list(self.classes))), *([0] * (self.genes - 1))], *rows[place:]]
        place = int(rng.integers(len(rows)))
        return rows[:place] + rows[place + 1 :]

    def _crossover(
        self, a: BackboneGenome, b: BackboneGenome, rng: np.random.Generator
    ) -> tuple[BackboneGenome, BackboneGenome]:
        """k-point crossover; both children are kept. ``paper`` cuts between integers, also inside a segment."""
        if self.settings.operators == "plan":
            return cross_plans(a, b, self._scope, self.settings.crossover_points, rng)
        left, right = [v for s in a for v in s], [v for s in b for v in s]
        positions = min(len(left), len(right)) - 1
        count = min(self.settings.crossover_points, positions)
        cuts = sorted(int(c) + 1 for c in rng.choice(positions, size=count, replace=False)) if count else []
        segments: list[int] = []
        two: list[int] = []
        for number, (start, stop) in enumerate(pairwise([0, *cuts, max(len(left), len(right))])):
            sources = (left, right) if number % 2 == 0 else (right, left)
            segments += sources[0][start:stop]
            two += sources[1][start:stop]
        return self._segments(segments), self._segments(two)

    def _segments(self, values: list[int]) -> BackboneGenome:
        return tuple(tuple(values[i : i + self.genes]) for i in range(0, len(values), self.genes))

    # Comparing

    def segments(self, genome: BackboneGenome) -> tuple[tuple[int, ...], ...]:
        """One segment per LIV."""
        return genome

    def join(self, segments: Sequence[Any]) -> BackboneGenome:
        """The genome of these segments."""
        return tuple(tuple(segment) for segment in segments)

    def resolved(self, genome: BackboneGenome) -> tuple[ResolvedLIV, ...]:
        """Class and connections of each LIV."""
        return resolved(self.plan(genome))

    def distance(self, a: BackboneGenome, b: BackboneGenome) -> float:
        """Share of LIVs that are not equal, by integers or as they are in the network (``settings.distance``)."""
        if self.settings.distance == "integers":
            return super().distance(a, b)
        return self.network_distance(a, b)

    def network_distance(self, a: BackboneGenome, b: BackboneGenome) -> float:
        """Share of LIVs with another class or other connections, in [0, 1]; 0 for two genomes of one network."""
        pairs = list(zip_longest(self.resolved(a), self.resolved(b)))
        return float(sum(left != right for left, right in pairs) / len(pairs))

    def at_depth(self, genome: BackboneGenome, depth: int) -> tuple[BackboneGenome, str]:
        """The backbone stacked or trimmed by its motif, and how; see ``backbone/depth.py``."""
        return at_depth(genome, depth, self.canonical)

    def motif(self, genome: BackboneGenome) -> BackboneGenome:
        """The shortest beginning whose copies are the whole backbone, in canonical form."""
        return motif_of(genome, self.canonical)

    def check_founder(self, genome: BackboneGenome) -> None:
        """See ``Space``: it has a depth that the space draws."""
        self.check(genome)
        low, high = self.depths
        if not low <= len(genome) <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            raise GenomeError(
                f"it has {len(genome)} LIVs, those of this search have {wanted}; --depth {self.settings.depth} stacks "
                f"or trims it, --depth {len(genome)} searches at its depth."
            )

    def canonical(self, genome: BackboneGenome) -> BackboneGenome:
        """Strategies keep only the bits that have a partner, and indices count the groups that remain."""
        plans = self.plan(genome)
        rows = [list(segment) for segment in genome]
        for number in {plan.row.number for plan in plans}:
            members = [plan.position for plan in plans if plan.row.number == number]
            spec = plans[members[0]].spec
            features = {n: feature_mask(spec, genome[n][FEATURE_STRATEGY]) for n in members}
            weights = {n: featurizer_mask(spec, genome[n][FEATURIZER_STRATEGY]) & plans[n].owned for n in members}
            for place, masks in ((FEATURE, features), (FEATURIZER, weights)):
                self._renumber(rows, place, members, masks)
            for n in members:
                self._write_strategies(rows, n, plans, members, features, weights)
        if self.genes > RESIDUAL:
            self._renumber_residuals(rows, plans)
        return tuple(tuple(row) for row in rows)

    @staticmethod
    def _renumber(rows: list[list[int]], place: int, members: list[int], masks: dict[int, frozenset[str]]) -> None:
        links = (
            (a, b) for a, b in combinations(members, 2) if rows[a][place] == rows[b][place] and masks[a] & masks[b]
        )
        for index, group in enumerate(components(members, links), 1):
            for member in group:
                rows[member][place] = index

    def _write_strategies(
        self,
        rows: list[list[int]],
        n: int,
        plans: tuple[LIVPlan, ...],
        members: list[int],
        features: dict[int, frozenset[str]],
        weights: dict[int, frozenset[str]],
    ) -> None:
        spec = plans[n].spec
        # Indices were renumbered above; LIVs of one index are now exactly those that are connected.
        alike = [m for m in members if m != n and rows[m][FEATURE] == rows[n][FEATURE]]
        partners = frozenset().union(*(features[m] for m in alike)) & features[n] if alike else frozenset()
        rows[n][FEATURE_STRATEGY] = feature_strategy(spec, frozenset(partners))
        alike = [m for m in members if m != n and rows[m][FEATURIZER] == rows[n][FEATURIZER]]
        tied = frozenset().union(*(weights[m] for m in alike)) & weights[n] if alike else frozenset()
        if self.sharing.partial_featurizers:
            rows[n][FEATURIZER_STRATEGY] = featurizer_strategy(spec, frozenset(tied))
        else:
            rows[n][FEATURIZER_STRATEGY] = 2 if tied else 1

    @staticmethod
    def _renumber_residuals(rows: list[list[int]], plans: tuple[LIVPlan, ...]) -> None:
        chain: dict[int, int] = {}
        for plan in plans:
            chain[plan.position] = len(set(chain.values())) + 1 if plan.residual is None else chain[plan.residual]
            rows[plan.position][RESIDUAL] = chain[plan.position]

    # Writing

    def parse(self, text: str) -> BackboneGenome:
        """Read ``11111 91111 …``, or a named backbone (``transformer++``, also ``transformer++@24``).

        Raises:
            GenomeError: with position, value and what is allowed.
        """
        name, at, depth = text.strip().partition("@")
        if name in NAMED_BACKBONES:
            if at and not (depth.isascii() and depth.isdigit() and len(depth) < 6):
                raise GenomeError(f"{text.strip()[:60]!r}: after @ the depth is wanted, for example {name}@24.")
            return self.named(name, int(depth) if at else None)
        if len(name) < 60 and (near := difflib.get_close_matches(name, NAMED_BACKBONES, n=1)):
            raise GenomeError(
                f"unknown backbone {name!r}. Did you mean {near[0]!r}? Known: {quoted_list(NAMED_BACKBONES)}."
            )
        genome = parse_segments(text, self.genes, what="backbone genome", most=MAX_LIVS)
        self.check(genome)
        return genome

    def print(self, genome: BackboneGenome) -> str:
        """The digits, segments separated by spaces."""
        return print_segments(genome)

    def title(self, genome: BackboneGenome) -> str:
        """The text of the canonical form, in which no integer is without effect on the network."""
        return self.print(self.canonical(genome))

    @property
    def named_genomes(self) -> tuple[str, ...]:
        """The named backbones."""
        return tuple(NAMED_BACKBONES)

    def named(self, name: str, depth: int | None = None) -> BackboneGenome:
        """A named backbone at this depth, in this space's number of integers.

        Raises:
            UsageError: unknown name.
            GenomeError: the name does not exist at this depth or width.
        """
        if name not in NAMED_BACKBONES:
            raise unknown_name("backbone", name, NAMED_BACKBONES)
        genome = unconnected(NAMED_BACKBONES[name](self.settings.depth if depth is None else depth), self.genes)
        self.check(genome)
        return genome

    def _to_genes(self, genome: BackboneGenome) -> list[list[int]]:
        return [list(segment) for segment in genome]

    def _from_genes(self, genes: Any) -> BackboneGenome:
        if not isinstance(genes, list) or len(genes) > MAX_LIVS:
            raise GenomeError(f"the genes of a backbone are a list of at most {MAX_LIVS} lists of integers.")
        for position, segment in enumerate(genes, 1):
            if not isinstance(segment, list) or len(segment) != self.genes or any(type(v) is not int for v in segment):
                raise GenomeError(f"segment {position} is not a list of {self.genes} integers.")
        return tuple(tuple(segment) for segment in genes)

    # Meaning

    def plan(self, genome: BackboneGenome) -> tuple[LIVPlan, ...]:
        """Every LIV with its connections resolved."""
        return plan_backbone(genome, self.all_classes)

    def cost(
        self,
        genome: BackboneGenome,
        *,
        length: int,
        batch: int = 1,
        mode: Mode = "prefill",
        causal: bool = True,
        convention: Convention = "star",
        vocabulary: int = 0,
        tied: bool = True,
        element_bytes: int | None = None,
    ) -> Cost:
        """Cost without building a model; see ``backbone_cost``."""
        return backbone_cost(
            self.plan(genome),
            self.settings.dimensions,
            length=length,
            batch=batch,
            mode=mode,
            causal=causal,
            convention=convention,
            vocabulary=vocabulary,
            tied=tied,
            element_bytes=element_bytes,
        )


def unconnected(classes: Sequence[int], genes: int = 5) -> BackboneGenome:
    """A backbone of these classes in which nothing is shared."""
    seen: Counter[int] = Counter()
    rows = []
    for position, number in enumerate(classes, 1):
        seen[number] += 1
        rows.append((number, seen[number], 1, seen[number], 1, position)[:genes])
    return tuple(rows)


def _lowest_unused(used: set[int]) -> int:
    value = 1
    while value in used:
        value += 1
    return value


def _ranges(values: Collection[int]) -> str:
    """1, 2, 3, 7 as "1 to 3, 7"."""
    parts: list[list[int]] = []
    for value in values:
        if parts and value == parts[-1][-1] + 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in parts)
