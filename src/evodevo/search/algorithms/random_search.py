"""Random search: the control that every other algorithm has to beat at equal evaluations."""

from __future__ import annotations

from typing import Any

from evodevo.search.base import Algorithm, Breed, Scored, State
from evodevo.search.space import Space


class RandomSearch(Algorithm):
    """New random genomes for ever, after the founders that all algorithms share."""

    name = "random"

    def _breeder(self, state: State, space: Space[Any], count: int) -> Breed:
        raise AssertionError("random search has no population, so nobody breeds")

    def _survive(
        self, parents: tuple[Scored, ...], children: tuple[Scored, ...]
    ) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
        return (), ()
