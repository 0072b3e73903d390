"""The settings of one search."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evodevo.errors import UsageError
from evodevo.search.base import Algorithm, create
from evodevo.search.inheritance import InheritanceSettings
from evodevo.search.problem import Problem
from evodevo.search.rungs import RungSettings
from evodevo.search.start import Start
from evodevo.settings import Settings


def _is_off(value: object) -> bool:
    return value is None


class StudySettings(Settings):
    """One search.

    Attributes:
        algorithm: Name of the algorithm: nsga2, surrogate, genetic, firefly, regularized or random.
        population: Number of individuals in the population, at least 2.
        generations: Number of generations, the initial population included; in steady state, generations times
            population evaluations are made.
        mode: ``generational`` waits for a whole generation; ``steady`` gives a free worker the next child at once.
        algorithm_settings: Further settings of the algorithm.
        seed: Seed of every draw.
        start: Genomes of the user's that come first in the initial population.
        baselines: Whether hand-designed genomes are evaluated too, before the initial population.
        confirmations: Number of fresh seeds with which the final front and the baselines are evaluated again.
        retries: Largest number of restarts of an evaluation that was killed from outside, alone or with its worker.
        max_failed_share: Largest share of failed evaluations, 0 to 1; more end the run with an error. None = any.
        rungs: Shares of the budget at which candidates are ranked and most of them stop; None trains all to the end.
        inheritance: Terms on which a child begins with weights of its parents; None trains all from scratch.
    """

    algorithm: str = "nsga2"
    population: int = Field(default=16, ge=2, le=100_000)
    generations: int = Field(default=18, ge=1, le=1_000_000)
    mode: Literal["generational", "steady"] = "generational"
    algorithm_settings: dict[str, int | float | str | bool] = Field(default_factory=dict)
    seed: int = Field(default=0, ge=0, lt=2**63)
    # Not written where it is empty, so that runs from before it are still written as they were.
    start: tuple[Start, ...] = Field(default=(), exclude_if=lambda value: not value)
    baselines: bool = True
    confirmations: int = Field(default=0, ge=0, le=1000)
    retries: int = Field(default=2, ge=0, le=100)
    max_failed_share: float | None = Field(default=None, ge=0.0, le=1.0)
    # Left out of what is stored where they are off, so that records of plain searches are as they were.
    rungs: RungSettings | None = Field(default=None, exclude_if=_is_off)
    inheritance: InheritanceSettings | None = Field(default=None, exclude_if=_is_off)

    def check(self, problem: Problem) -> None:
        """
        Raises:
            UsageError: The problem's evaluations, or the mode, do not allow rungs or inheritance.
        """
        if self.rungs is not None and self.mode != "generational":
            raise UsageError(
                "rungs rank the candidates of a generation, and steady mode has none; "
                "set study.mode=generational, or leave study.rungs out."
            )
        if self.rungs is not None and problem.undivided:
            raise UsageError(f"study.rungs cannot be used here: {problem.undivided}. Leave it out.")
        if self.inheritance is not None and problem.fresh:
            raise UsageError(f"study.inheritance cannot be used here: {problem.fresh}. Leave it out.")

    def create(self) -> Algorithm:
        """The algorithm with its settings."""
        return create(self.algorithm, {**self.algorithm_settings, "population": self.population})
