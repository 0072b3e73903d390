"""Whose child the next path is: the agent's best paths first, each new child halving the chance of another.

Source: docs/spec/munet.md#parents; µ4Net, equation 13. A best path that keeps failing to have better children
fades, and the search drifts to the paths of the whole system. Every draw is kept: the choice is explained later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from evodevo.errors import UsageError
from evodevo.multitask.search.population import Member, Population, ordered, with_offspring
from evodevo.multitask.search.sampler import draw
from evodevo.settings import Settings

Fallback = Literal["uniform", "untried", "rotating", "none"]


class ParentSettings(Settings):
    """How parents are chosen."""

    fallback: Fallback = Field(
        default="uniform",
        description="where no own path is accepted: any path in sight; 'untried' (µNet) first tries each path of "
        "others once without mutation; 'rotating' (µ2Net) accepts those of others by their offspring too; 'none' "
        "leaves the choice to the caller (a multipath agent draws a new structure)",
    )
    counted: Literal["accepted", "own"] = Field(
        default="accepted",
        description="what counts as offspring of an own path: children for which the rule accepted it (µ4Net), or "
        "those too for which the fallback drew it (earlier)",
    )


@dataclass(frozen=True)
class Stranger:
    """A path of another agent, or a root.

    Attributes:
        id: unique in the system.
        tried: whether it was a parent of the choosing agent once.
        offspring: how often; only "rotating" looks at it.
    """

    id: str
    tried: bool = False
    offspring: int = 0


@dataclass(frozen=True)
class Consideration:
    """A path that was considered: accepted where the draw is below the probability."""

    id: str
    probability: float
    draw: float

    @property
    def accepted(self) -> bool:
        """Whether it was."""
        return self.draw < self.probability


@dataclass(frozen=True)
class Selection:
    """A choice of a parent.

    Attributes:
        parent: its id; None where the caller draws a new structure.
        how: "population", or what the fallback did.
        own: whether the parent is a path of the agent itself, so that its score is a bar.
        considered: own paths in the order in which they were considered, best first, then strangers of "rotating".
        fallback_probability: how likely it was that no own path would be accepted.
        pool: how many paths a uniform draw chose from; 0 where there was none.
        probability: of this parent in that draw; None where there was none.
    """

    parent: str | None
    how: Literal["population", "uniform", "untried", "rotating", "none"]
    own: bool
    considered: tuple[Consideration, ...]
    fallback_probability: float
    pool: int = 0
    probability: float | None = None

    @property
    def mutates(self) -> bool:
        """False for the first child of a stranger in µNet: only its head is trained."""
        return self.how != "untried"


def fallback_probability(population: Sequence[Member]) -> float:
    """``Π (1 - 0.5^offspring)``: how likely no own path is accepted; 1 where there is none."""
    return math.prod(1 - one.acceptance for one in population)


def select_parent(
    population: Sequence[Member],
    strangers: Sequence[Stranger],
    rng: np.random.Generator,
    settings: ParentSettings,
    *,
    weights: Mapping[str, float] | None = None,
) -> Selection:
    """Choose the parent of one child.

    Args:
        population: own paths, in any order.
        strangers: what else is in sight, newest first (the order of "untried").
        rng: draws one number for each path considered, and one for a choice from the pool.
        settings: of the choice.
        weights: of paths in the uniform draw, by id, positive; None = all alike. An informed agent gives some.

    Raises:
        UsageError: nobody to choose from.
    """
    considered: list[Consideration] = []
    chance = fallback_probability(population)
    for one in ordered(population):
        considered.append(Consideration(one.id, one.acceptance, float(rng.random())))
        if considered[-1].accepted:
            return Selection(one.id, "population", True, tuple(considered), chance)
    if settings.fallback == "none":
        return Selection(None, "none", False, tuple(considered), chance)
    if settings.fallback == "untried":
        fresh = next((one for one in strangers if not one.tried), None)
        if fresh is not None:
            return Selection(fresh.id, "untried", False, tuple(considered), chance)
    if settings.fallback == "rotating" and strangers:
        first = int(rng.integers(len(strangers)))
        for other in (*strangers[first:], *strangers[:first]):
            considered.append(Consideration(other.id, 0.5**other.offspring, float(rng.random())))
            if considered[-1].accepted:
                return Selection(other.id, "rotating", False, tuple(considered), chance)
    pool = [one.id for one in ordered(population)] + [one.id for one in strangers]
    if not pool:
        raise UsageError("there is no path to begin with: a system needs a root before its first agent.")
    place, probability = draw(pool, weights, rng)
    own = place < len(population)
    return Selection(pool[place], "uniform", own, tuple(considered), chance, len(pool), probability)


def select_parents(
    population: Sequence[Member],
    strangers: Sequence[Stranger],
    generators: Sequence[np.random.Generator],
    settings: ParentSettings,
    *,
    weights: Mapping[str, float] | None = None,
) -> tuple[tuple[Selection, ...], Population]:
    """Choose the parents of a generation, one after another: each choice makes the next of the same parent rarer.

    Args:
        population, strangers, settings, weights: as for one child; who was tried for one is tried for its siblings.
        generators: one for each child.

    Returns:
        The choices, and the population with its counts of offspring as they are then.

    Raises:
        UsageError: nobody to choose from.
    """
    choices: list[Selection] = []
    members, others = tuple(population), list(strangers)
    for rng in generators:
        choice = select_parent(members, others, rng, settings, weights=weights)
        choices.append(choice)
        if choice.parent is None:
            continue
        if choice.own and (choice.how == "population" or settings.counted == "own"):
            members = with_offspring(members, choice.parent)
        others = [
            Stranger(one.id, tried=True, offspring=one.offspring + 1) if one.id == choice.parent else one
            for one in others
        ]
    return tuple(choices), members
