"""Regularized (aging) evolution: Real, Aggarwal, Huang, Le, "Regularized evolution for image classifier architecture
search", 2019. A control: mutation only, and the oldest dies, however good.

With several objectives the score is that of our genetic algorithm, ΣU(objective), over the living.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from pydantic import Field

from evodevo.search.base import Algorithm, AlgorithmSettings, Breed, Proposal, Scored, State
from evodevo.search.selection import summed_standings, tournament
from evodevo.search.space import Space


class RegularizedEvolutionSettings(AlgorithmSettings):
    """Settings of regularized evolution."""

    tournament_size: int = Field(
        default=4, ge=1, description="individuals that compete to be the parent; the paper draws a quarter of all"
    )


class RegularizedEvolution(Algorithm):
    """The best of a random few has a mutant; the oldest dies. In generations, a whole generation is born at once."""

    name = "regularized"
    settings_class = RegularizedEvolutionSettings
    settings: RegularizedEvolutionSettings

    def _breeder(self, state: State, space: Space[Any], count: int) -> Breed:
        def breed(_: int, rng: np.random.Generator) -> Iterator[Proposal]:
            parent = state.population[tournament(state.standings, self.settings.tournament_size, rng)]
            yield Proposal(space.mutate(parent.genome, rng), (parent.id,), "mutation", {})

        return breed

    def _survive(
        self, parents: tuple[Scored, ...], children: tuple[Scored, ...]
    ) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
        # The oldest first: the order of telling is the order of age.
        living = (parents + children)[-self.settings.population :]
        return living, tuple(summed_standings(living).tolist())
