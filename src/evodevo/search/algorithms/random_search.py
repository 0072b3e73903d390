"""Random search: the baseline that every other algorithm has to beat with equally many evaluations."""

from __future__ import annotations

from typing import Any

from evodevo.search.base import Algorithm, Breed, Scored, SearchState
from evodevo.search.space import Space


class RandomSearch(Algorithm):
    """New random genomes without end, after the initial population that all algorithms share."""

    name = "random"

    def _breeder(self, state: SearchState, space: Space[Any], count: int) -> Breed:
        raise AssertionError("random search has no population, so nobody breeds")

    def _survive(
        self, parents: tuple[Scored, ...], children: tuple[Scored, ...]
    ) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
        # With an empty population, ``ask`` falls back to samples for every slot.
        return (), ()
