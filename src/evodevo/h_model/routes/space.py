"""The space of given routes: for each iteration the slot that it reads, for each symbol the layer that it names.

Source: docs/spec/h_model.md#evolution-of-routes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evodevo.errors import GenomeError, UsageError, quoted_list
from evodevo.h_model.routes.genome import RoutesGenome, genes_of, genome_of, parse_genome, print_genome
from evodevo.h_model.routes.settings import RouteSearchSettings
from evodevo.h_model.spec import HModelStructure
from evodevo.randomness import draw_one
from evodevo.search.space import Space

UNUSED = 0.5
"""Chance that a symbol's new layer is one that no symbol has, where there are some."""


class RoutesSpace(Space[RoutesGenome]):
    """Routes through the hidden layers of one H-Model.

    Two genomes are one where they differ in the names of equal layers only: new layers of one kind are exchangeable.

    Args:
        slots: Slots that an iteration may read, by the first entry of their code; each once.
        iterations: T.
        symbols: Number of symbols.
        layers: Kind of each hidden layer; layers of equal kinds are exchangeable.

    Raises:
        UsageError: There is nothing to choose from, or a slot is given twice.
    """

    name = "routes"
    version = 1

    def __init__(self, slots: Sequence[int], iterations: int, symbols: int, layers: Sequence[Hashable]) -> None:
        if not slots or len(set(slots)) != len(slots) or min(iterations, symbols, len(layers)) < 1:
            raise UsageError(
                f"routes are drawn from slots {list(slots)}, {iterations} iterations, {symbols} symbols and "
                f"{len(layers)} layers; give at least one of each, and each slot once."
            )
        self.slots = tuple(slots)
        self.iterations = iterations
        self.symbols = symbols
        self.kinds = tuple(layers)

    # Validity

    def check(self, genome: RoutesGenome) -> None:
        """Raise ``GenomeError`` for the first gene that is not allowed."""
        for gene, values, count, allowed in self._genes(genome):
            if len(values) != count:
                raise GenomeError(f"these routes have {count} {gene}, not {len(values)}.")
            wrong = [value for value in values if value not in allowed]
            if wrong:
                raise GenomeError(f"{gene} hold {wrong[0]}; allowed: {quoted_list([str(one) for one in allowed])}.")

    def repair(self, genome: RoutesGenome, rng: np.random.Generator) -> RoutesGenome:
        """Genes too many go, missing and unknown ones are drawn."""
        mended = []
        for _, values, count, allowed in self._genes(genome):
            kept = [value if value in allowed else draw_one(allowed, rng) for value in values[:count]]
            mended.append((*kept, *(draw_one(allowed, rng) for _ in range(count - len(kept)))))
        return RoutesGenome(*mended)

    def _genes(self, genome: RoutesGenome) -> list[tuple[str, tuple[int, ...], int, Sequence[int]]]:
        """Name, values, their number, and what each may be."""
        return [
            ("slots", genome.slots, self.iterations, self.slots),
            ("layers", genome.layers, self.symbols, range(len(self.kinds))),
        ]

    # Drawing

    def _sample(self, rng: np.random.Generator) -> RoutesGenome:
        """Every gene by itself."""
        return self.repair(RoutesGenome((), ()), rng)

    def _mutate(self, genome: RoutesGenome, rng: np.random.Generator) -> RoutesGenome:
        """One change: with chance one half a symbol gets another layer (every second time one that no symbol has, where
        there are some), else an iteration gets another slot, or two iterations exchange theirs."""
        layers = [self._another_layer(genome, rng)] * 2
        slots = [self._another_slot(genome, rng), self._exchanged(genome, rng)]
        possible = [one for one in (*layers, *slots) if one is not None]
        return draw_one(possible, rng) if possible else genome

    def _another_layer(self, genome: RoutesGenome, rng: np.random.Generator) -> RoutesGenome | None:
        layers = list(genome.layers)
        symbol = int(rng.integers(len(layers)))
        others = [place for place in range(len(self.kinds)) if place != layers[symbol]]
        if not others:
            return None
        unused = [place for place in others if place not in layers]
        layers[symbol] = draw_one(unused if unused and rng.random() < UNUSED else others, rng)
        return replace(genome, layers=tuple(layers))

    def _another_slot(self, genome: RoutesGenome, rng: np.random.Generator) -> RoutesGenome | None:
        slots = list(genome.slots)
        t = int(rng.integers(len(slots)))
        others = [slot for slot in self.slots if slot != slots[t]]
        if not others:
            return None
        slots[t] = draw_one(others, rng)
        return replace(genome, slots=tuple(slots))

    def _exchanged(self, genome: RoutesGenome, rng: np.random.Generator) -> RoutesGenome | None:
        slots = list(genome.slots)
        unlike = [(s, t) for t in range(len(slots)) for s in range(t) if slots[s] != slots[t]]
        if not unlike:
            return None
        s, t = draw_one(unlike, rng)
        slots[s], slots[t] = slots[t], slots[s]
        return replace(genome, slots=tuple(slots))

    def _crossover(
        self, a: RoutesGenome, b: RoutesGenome, rng: np.random.Generator
    ) -> tuple[RoutesGenome, RoutesGenome]:
        """The layer of each symbol, and all slots together, change owner with chance one half.

        Before that the layers of ``b`` get the names that those of ``a`` have: two tables that differ in names alone
        would otherwise have children unlike both.
        """
        other = self.renamed(b, self._order(a))
        left, right = list(a.layers), list(other.layers)
        for symbol in range(len(left)):
            if rng.random() < 0.5:
                left[symbol], right[symbol] = right[symbol], left[symbol]
        slots = (a.slots, b.slots) if rng.random() < 0.5 else (b.slots, a.slots)
        return RoutesGenome(slots[0], tuple(left)), RoutesGenome(slots[1], tuple(right))

    # Comparing

    def segments(self, genome: RoutesGenome) -> tuple[int, ...]:
        """The slot of each iteration, then the layer of each symbol."""
        return (*genome.slots, *genome.layers)

    def join(self, segments: Sequence[Any]) -> RoutesGenome:
        """The inverse of ``segments``."""
        return RoutesGenome(tuple(segments[: self.iterations]), tuple(segments[self.iterations :]))

    def canonical(self, genome: RoutesGenome) -> RoutesGenome:
        """Layers of each kind by the order in which symbols name them."""
        return self.renamed(genome, range(len(self.kinds)))

    def renamed(self, genome: RoutesGenome, order: Sequence[int]) -> RoutesGenome:
        """The same routes: of each kind the layer that is named first becomes the first one of ``order``, and so on."""
        names: dict[int, int] = {}
        for kind in set(self.kinds):
            old, new = ([place for place in one if self.kinds[place] == kind] for one in (self._order(genome), order))
            names |= dict(zip(old, new, strict=True))
        return replace(genome, layers=tuple(names[place] for place in genome.layers))

    def _order(self, genome: RoutesGenome) -> list[int]:
        """All layers: first those that symbols name, in the order of these, then the others."""
        return list(dict.fromkeys((*genome.layers, *range(len(self.kinds)))))

    # Writing

    def parse(self, text: str) -> RoutesGenome:
        """Read ``8 17 26 | 0 3 1 2``."""
        genome = parse_genome(text)
        self.check(genome)
        return genome

    def print(self, genome: RoutesGenome) -> str:
        """The text form."""
        return print_genome(genome)

    def _to_genes(self, genome: RoutesGenome) -> Any:
        return genes_of(genome)

    def _from_genes(self, genes: Any) -> RoutesGenome:
        return genome_of(genes)


def space_of(settings: RouteSearchSettings, structure: HModelStructure) -> RoutesSpace:
    """The tables that a search may try.

    Raises:
        UsageError: A slot that is given twice, or layers that are disabled, which a table could name.
    """
    if structure.disabled:
        raise UsageError(f"hidden layers {list(structure.disabled)} are disabled; leave them out where routes evolve.")
    kinds = [layer.model_dump_json() for layer in structure.hidden]
    return RoutesSpace(settings.slots, structure.iterations, settings.symbols, kinds)
