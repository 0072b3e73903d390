"""The firefly algorithm of STAR (star.txt, A.4): dim genomes move towards bright ones, segment by segment.

Attraction β = β0 (1 − e^{−γ(1 − r)}) grows with dissimilarity, opposite to the textbook's firefly; r is the share of
equal segments. Light is a = 1/(1 + s) with s the sum of the normalised objectives. The algorithm only compares light,
and a falls with s, so the code compares standings by s and never computes a.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from pydantic import Field

from evodevo.search.base import Algorithm, Breed, Proposal, Scored, SearchState
from evodevo.search.selection import ElitistSettings, keep_elites, summed_standings, take, tournament
from evodevo.search.space import Space


class FireflySettings(ElitistSettings):
    """Settings of the firefly algorithm."""

    attraction: float = Field(default=1.0, gt=0, le=1, description="β0, the largest attraction, in (0, 1]")
    absorption: float = Field(default=1.0, gt=0, description="γ, how fast attraction grows with dissimilarity, above 0")


class Firefly(Algorithm):
    """Each firefly but the elites moves towards a brighter one, then mutates."""

    name = "firefly"
    settings_class = FireflySettings
    settings: FireflySettings

    @property
    def offspring(self) -> int:
        """Number of fireflies that move in a generation: all but the elites."""
        return self.settings.offspring

    def _breeder(self, state: SearchState, space: Space[Any], count: int) -> Breed:
        population, standings, settings = state.population, state.standings, self.settings

        def breed(slot: int, rng: np.random.Generator) -> Iterator[Proposal]:
            # The population is ordered best first, so the slots of a generation cover all but the elites. An event in
            # steady state has a single slot, which would always be the same firefly; it is drawn at random instead.
            size = len(population)
            position = (settings.elites + slot) % size if count > 1 else int(rng.integers(size))
            firefly = population[position]
            if size > 1:
                other = tournament(standings, settings.tournament_size, rng, excluded=position)
                if standings[other] < standings[position]:
                    yield self._approach(firefly, population[other], space, rng)
                    return
            mutant, facts = space.mutation(firefly.genome, rng)
            yield Proposal(mutant, (firefly.id,), "mutation", facts)

        return breed

    def _approach(self, dim: Scored, bright: Scored, space: Space[Any], rng: np.random.Generator) -> Proposal:
        beta = attraction(space.distance(dim.genome, bright.genome), self.settings.attraction, self.settings.absorption)
        segments = list(space.segments(dim.genome))
        targets = space.segments(bright.genome)[: len(segments)]
        copied = [index for index, chance in enumerate(rng.random(len(targets))) if chance < beta]
        for index in copied:
            segments[index] = targets[index]
        moved = space.repair(space.join(segments), rng) if copied else dim.genome
        mutant, facts = space.mutation(moved, rng)
        details = {"attraction": beta, "copied": len(copied), **facts}
        if moved == dim.genome:
            return Proposal(mutant, (dim.id,), "mutation", details)
        operation = "attraction" if mutant == moved else "attraction+mutation"
        return Proposal(mutant, (dim.id, bright.id), operation, details)

    def _survive(
        self, parents: tuple[Scored, ...], children: tuple[Scored, ...]
    ) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
        pool = parents + children
        standings = summed_standings(pool)
        kept = keep_elites(standings, len(parents), self.settings.elites, self.settings.population)
        return take(pool, standings, kept)


def attraction(dissimilarity: float, beta0: float, gamma: float) -> float:
    """β = β0 (1 − e^{−γ(1 − r)}), the probability that a segment is copied.

    Args:
        dissimilarity: 1 − r, share of unequal segments, in [0, 1].
        beta0: Limit of β for an infinite γ, in (0, 1].
        gamma: Light absorption γ, above 0.
    """
    # expm1 keeps full precision where the dissimilarity is close to 0.
    return -beta0 * math.expm1(-gamma * dissimilarity)
