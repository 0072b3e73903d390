"""Regularized (aging) evolution: Real, Aggarwal, Huang, Le, "Regularized evolution for image classifier architecture
search", 2019. A baseline: mutation only, and the oldest individual is removed, however good it is.

With several objectives the score is that of the genetic algorithm here, ΣU(objective), over the current population.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from pydantic import Field

from evodevo.search.base import Algorithm, AlgorithmSettings, Breed, Proposal, Scored, SearchState
from evodevo.search.selection import summed_standings, tournament
from evodevo.search.space import Space


class RegularizedEvolutionSettings(AlgorithmSettings):
    """Settings of regularized evolution."""

    tournament_size: int = Field(
        default=4,
        ge=1,
        description="individuals that compete to be the parent; a quarter of the population in the paper",
    )


class RegularizedEvolution(Algorithm):
    """The winner of a tournament is mutated; the oldest is removed. A generational driver replaces all at once."""

    name = "regularized"
    settings_class = RegularizedEvolutionSettings
    settings: RegularizedEvolutionSettings

    def _breeder(self, state: SearchState, space: Space[Any], count: int) -> Breed:
        def breed(_: int, rng: np.random.Generator) -> Iterator[Proposal]:
            parent = state.population[tournament(state.standings, self.settings.tournament_size, rng)]
            mutant, facts = space.mutation(parent.genome, rng)
            yield Proposal(mutant, (parent.id,), "mutation", facts)

        return breed

    def _survive(
        self, parents: tuple[Scored, ...], children: tuple[Scored, ...]
    ) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
        # Individuals are ordered by the time of their results, so the oldest come first.
        population = (parents + children)[-self.settings.population :]
        return population, tuple(summed_standings(population).tolist())
