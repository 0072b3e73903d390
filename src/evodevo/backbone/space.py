"""The space of STAR backbones: sequences of LIVs with their sharing, as integers (STAR 3.1, 4.2, A.6.1, A.7)."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from evodevo.backbone.cost import backbone_cost
from evodevo.backbone.depth import at_depth, motif_of
from evodevo.backbone.designs import hybrid, sharing_hybrid
from evodevo.backbone.genome import (
    CLASS,
    MAX_LIVS,
    BackboneGenome,
    LIVPlan,
    SharingOptions,
    plan_backbone,
)
from evodevo.backbone.named import NAMED_BACKBONES
from evodevo.backbone.resolved import ResolvedLIV, resolved
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.backbone.validity import Validity
from evodevo.backbone.variation.crossover import cross_plans
from evodevo.backbone.variation.draft import Draft, VariationScope
from evodevo.backbone.variation.integers import cross_integers, mutate_integers
from evodevo.backbone.variation.levels import level_at
from evodevo.backbone.variation.mutation import mutate_plan
from evodevo.backbone.written_classes import LIVClasses, written_class
from evodevo.errors import GenomeError, UsageError, quoted_list, unknown_name
from evodevo.operators.classes import OPERATORS, LIVClass, liv_classes
from evodevo.operators.cost import Convention, Cost, Mode
from evodevo.operators.genome_text import parse_segments, print_segments
from evodevo.randomness import draw_one
from evodevo.search.space import Space

REMEMBERED, REMEMBERED_PLANS = 8192, 512
"""Canonical forms and plans that a space remembers: a search asks for those of each of its children several times."""


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
        self._canonical_forms: dict[BackboneGenome, BackboneGenome] = {}
        self._plans: dict[BackboneGenome, tuple[LIVPlan, ...]] = {}
        self.genes = 6 if self.settings.residuals else 5
        for row in self.classes.values():
            row.spec.check(self.settings.dimensions)
        self._rules = Validity(
            self.all_classes, self.classes, self.sharing, self.genes, self.depths, self.settings.dimensions
        )
        self._scope = VariationScope(
            self.all_classes,
            tuple(self.classes),
            self.sharing,
            self.depths,
            self.settings.residuals,
            self.canonical,
            self._remember,
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
        self._rules.check(genome)

    def repair(self, genome: BackboneGenome, rng: np.random.Generator) -> BackboneGenome:
        """Remove invalid connections and draw invalid values anew (STAR 4.2); valid genomes come back unchanged."""
        return self._rules.repair(genome, rng)

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
                row[place] = draw_one(self._rules.values(row[CLASS], place, counts, depth), rng)
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
        return mutate_integers(genome, self._rules, self.settings.mutation_probability, rng)

    def _crossover(
        self, a: BackboneGenome, b: BackboneGenome, rng: np.random.Generator
    ) -> tuple[BackboneGenome, BackboneGenome]:
        """k-point crossover; both children are kept. ``paper`` cuts between integers, also inside a segment."""
        if self.settings.operators == "plan":
            return cross_plans(a, b, self._scope, self.settings.crossover_points, rng)
        return cross_integers(a, b, self.genes, self.settings.crossover_points, rng)

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
        found = self._canonical_forms.get(genome)
        if found is None:
            found = self._canonical_forms[genome] = Draft.of(genome, self._scope).canonical(self._scope)
        return found

    def _remember(self, canonical: BackboneGenome) -> BackboneGenome:
        """A canonical genome, which is its own canonical form."""
        if len(self._canonical_forms) > REMEMBERED:
            self._canonical_forms.clear()
        return self._canonical_forms.setdefault(canonical, canonical)

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
        found = self._plans.get(genome)
        if found is None:
            if len(self._plans) > REMEMBERED_PLANS:
                self._plans.clear()
            found = self._plans[genome] = plan_backbone(genome, self.all_classes)
        return found

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
