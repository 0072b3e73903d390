"""Survival in a population of paths: those that improved, the best few of them, one at a cycle's end.

Source: docs/spec/munet.md#cycles; µ4Net, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evodevo.errors import UsageError
from evodevo.settings import Settings

if TYPE_CHECKING:
    import numpy as np


class PopulationSettings(Settings):
    """The paths that an agent keeps while a cycle runs: their number and selection."""

    cap: int | None = Field(default=5, ge=1, description="paths that live on after a generation; None = all")
    prune: Literal["top", "stochastic"] = Field(
        default="top",
        description="the best, or (V4b) the best and then each with probability 0.5^offspring, best first",
    )


@dataclass(frozen=True)
class ScoredPath:
    """A scored path of an agent.

    Attributes:
        id: unique in the system.
        number: counted by its agent; a lower one is older.
        score: finite; a path without one is never a member.
        offspring: number of times that its own agent chose it as a parent.

    Raises:
        UsageError: a score that is not finite.
    """

    id: str
    number: int
    score: float
    offspring: int = 0

    def __post_init__(self) -> None:
        if not math.isfinite(self.score):
            raise UsageError(f"path {self.id}: a member of a population has a finite score, got {self.score}.")

    @property
    def acceptance(self) -> float:
        """``0.5^offspring``: how likely it is accepted where it is considered."""
        return float(0.5**self.offspring)


Population = tuple[ScoredPath, ...]


def ordered(population: Iterable[ScoredPath]) -> Population:
    """Best first; of equals the oldest first."""
    return tuple(sorted(population, key=lambda path: (-path.score, path.number)))


def best(population: Iterable[ScoredPath]) -> ScoredPath | None:
    """The best member; None in an empty population."""
    return next(iter(ordered(population)), None)


def with_generation(
    population: Sequence[ScoredPath],
    improved: Sequence[ScoredPath],
    settings: PopulationSettings,
    rng: np.random.Generator,
) -> Population:
    """The population after a generation, best first; the best is always in it.

    Args:
        population: population before the generation.
        improved: the children that exceeded their bar.
        settings: settings of the population.
        rng: draws only where pruning is stochastic.

    Raises:
        UsageError: a path is in it twice.
    """
    everyone = ordered([*population, *improved])
    if len({path.id for path in everyone}) != len(everyone):
        raise UsageError("a path is added once; one of this generation is in the population already.")
    cap = len(everyone) if settings.cap is None else settings.cap
    if len(everyone) <= cap:
        return everyone
    if settings.prune == "top":
        return everyone[:cap]
    return ordered(_survivors(list(everyone), cap, rng))


def with_offspring(population: Sequence[ScoredPath], parent: str) -> Population:
    """The population after one of it was chosen as a parent."""
    return tuple(replace(path, offspring=path.offspring + (path.id == parent)) for path in population)


def _survivors(rest: list[ScoredPath], cap: int, rng: np.random.Generator) -> list[ScoredPath]:
    # The best path always survives, whatever is drawn.
    alive = [rest.pop(0)]
    while rest and len(alive) < cap:
        chosen = next((path for path in rest if rng.random() < path.acceptance), rest[0])
        rest.remove(chosen)
        alive.append(chosen)
    return alive
