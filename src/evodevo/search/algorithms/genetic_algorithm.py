"""The genetic algorithm of STAR (star.txt, A.4 and footnote 5): one score, the sum of the normalised objectives."""

from __future__ import annotations

from typing import Any, ClassVar

from evodevo.search.base import Algorithm, Breed, Scored, SearchState
from evodevo.search.mating import pair_breeder
from evodevo.search.selection import ElitistSettings, keep_elites, summed_standings, take
from evodevo.search.space import Space


class GeneticAlgorithm(Algorithm):
    """Tournament, crossover, mutation, elitism; the score is ΣU(objective) over parents and children together."""

    name = "genetic"
    settings_class = ElitistSettings
    brood: ClassVar[int] = 2
    settings: ElitistSettings

    @property
    def offspring(self) -> int:
        """Number of children in a generation after the first: the population without the elites."""
        return self.settings.offspring

    def _breeder(self, state: SearchState, space: Space[Any], count: int) -> Breed:
        return pair_breeder(state, space, self.settings.tournament_size)

    def _survive(
        self, parents: tuple[Scored, ...], children: tuple[Scored, ...]
    ) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
        pool = parents + children
        standings = summed_standings(pool)
        kept = keep_elites(standings, len(parents), self.settings.elites, self.settings.population)
        return take(pool, standings, kept)
