"""Settings of a search for routes, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evodevo.search.base import Algorithm, create
from evodevo.settings import Settings


class RouteSearchSettings(Settings):
    """A search for routes: many short trainings, each under a table of its own.

    Source: docs/spec/h_model.md#evolution-of-routes.

    Attributes:
        input: the input, a vector, in which the symbols are written as one-hot codes.
        slots: first entry of each code that an iteration may read.
        symbols: number of symbols, the length of a code.
        algorithm: name of the search algorithm; ``random`` is the control.
        algorithm_settings: further settings of the algorithm.
        population: number of tables in the population.
        generations: number of generations, the initial population included.
        steps: training steps of each table before it is judged.
        judged_by: split on whose samples it is judged, by the loss: ``architecture`` (what is right soonest on samples
            that are not trained on) or ``train`` (what is learned soonest).
        samples: samples of that split.
        inherit: a table begins with the weights of its (first) parent, and with new ones where it has none.
    """

    input: str
    slots: tuple[int, ...] = Field(min_length=1, max_length=256)
    symbols: int = Field(ge=2, le=65536)
    algorithm: str = "nsga2"
    algorithm_settings: dict[str, int | float | str | bool] = Field(default_factory=dict)
    population: int = Field(default=8, ge=2, le=10_000)
    generations: int = Field(default=5, ge=1, le=10_000)
    steps: int = Field(default=100, ge=1)
    judged_by: Literal["train", "architecture"] = "architecture"
    samples: int = Field(default=512, ge=1)
    inherit: bool = False

    def create(self) -> Algorithm:
        """The algorithm with its settings."""
        return create(self.algorithm, {**self.algorithm_settings, "population": self.population})

    @property
    def trainings(self) -> int:
        """Number of tables that are tried."""
        return self.population + (self.generations - 1) * self.create().offspring
