"""NSGA-II: Deb, Pratap, Agarwal, Meyarivan, "A fast and elitist multiobjective genetic algorithm", 2002.

As STAR uses it (star.txt, A.4): parents by binary tournament on rank, then crowding; k-point crossover; mutation.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from evodevo.search.base import Algorithm, AlgorithmSettings, Breed, Scored, SearchState
from evodevo.search.mating import pair_breeder
from evodevo.search.selection import crowded_standings, keep_best, keep_elites, take
from evodevo.search.space import Space


class NSGA2Settings(AlgorithmSettings):
    """Settings of NSGA-II."""

    tournament_size: int = Field(default=2, ge=1, description="individuals that compete to become a parent")
    survival: Literal["best", "elites"] = Field(
        default="best",
        description="best: the best of parents and children together, (µ + λ); elites: a few parents and the children",
    )
    elites: int = Field(default=2, ge=0, description="parents that survive in any case, where survival is 'elites'")

    @model_validator(mode="after")
    def _elites_leave_room(self) -> NSGA2Settings:
        if self.survival == "elites" and self.elites >= self.population:
            raise ValueError(f"elites ({self.elites}) must leave room for children in population ({self.population})")
        return self


class NSGA2(Algorithm):
    """Multi-objective search by non-dominated ranks and crowding."""

    name = "nsga2"
    settings_class = NSGA2Settings
    brood: ClassVar[int] = 2
    settings: NSGA2Settings

    @property
    def offspring(self) -> int:
        """Number of children in a generation after the first: the population, without the elites where they survive."""
        return self.settings.population - (self.settings.elites if self.settings.survival == "elites" else 0)

    def _breeder(self, state: SearchState, space: Space[Any], count: int) -> Breed:
        return pair_breeder(state, space, self.settings.tournament_size)

    def _survive(
        self, parents: tuple[Scored, ...], children: tuple[Scored, ...]
    ) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
        pool = parents + children
        standings = crowded_standings(pool)
        if self.settings.survival == "elites":
            kept = keep_elites(standings, len(parents), self.settings.elites, self.settings.population)
        else:
            kept = keep_best(standings, self.settings.population)
        return take(pool, standings, kept)
