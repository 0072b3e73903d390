"""Children of two parents: tournament, crossover, mutation (star.txt, A.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from evodevo.search.base import Breed, Proposal, SearchState
from evodevo.search.selection import tournament
from evodevo.search.space import Space


def pair_breeder(state: SearchState, space: Space[Any], tournament_size: int) -> Breed:
    """Matings of two different parents, each the winner of a tournament; both children are kept.

    A population of one has no second parent: its children are mutants.
    """
    population, standings = state.population, state.standings

    def breed(_: int, rng: np.random.Generator) -> Iterator[Proposal]:
        if len(population) == 1:
            only = population[0]
            for _ in range(2):
                mutant, facts = space.mutation(only.genome, rng)
                yield Proposal(mutant, (only.id,), "mutation", facts)
            return
        first = tournament(standings, tournament_size, rng)
        second = tournament(standings, tournament_size, rng, excluded=first)
        a, b = population[first], population[second]
        parents = (a.id, b.id)
        for crossed in space.crossover(a.genome, b.genome, rng):
            mutant, facts = space.mutation(crossed, rng)
            operation = "crossover" if mutant == crossed else "crossover+mutation"
            yield Proposal(mutant, parents, operation, facts)

    return breed
