"""The parent of the next path: the agent's best paths first, each new child halving the chance of another.

Source: docs/spec/munet.md#parents; µ4Net, equation 13. A best path that keeps failing to have better children
fades, and the search drifts to the paths of the whole system. Every draw is kept: the choice is explained later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evodevo.errors import UsageError
from evodevo.multitask.search.population import Population, ScoredPath, ordered, with_offspring
from evodevo.multitask.search.sampler import draw
from evodevo.multitask.search.transfer import TEMPERATURE
from evodevo.settings import Settings

if TYPE_CHECKING:
    import numpy as np

Fallback = Literal["uniform", "probed", "none"]
EXPLORE = 0.1


class ParentSettings(Settings):
    """The choice of parents."""

    fallback: Fallback = Field(
        default="uniform",
        description="choice where no own path is accepted: any published path; 'probed' prefers those whose "
        "representation tells the task's classes apart; 'none' leaves the choice to the caller (a multipath agent "
        "draws a new structure)",
    )
    temperature: float = Field(
        default=TEMPERATURE,
        gt=0,
        exclude_if=lambda value: value == TEMPERATURE,
        description="difference between the log-losses of two probes that makes one path e times as likely, in nats",
    )
    explore: float = Field(
        default=EXPLORE,
        ge=0,
        le=1,
        exclude_if=lambda value: value == EXPLORE,
        description="share of a probed draw that is uniform, 0 to 1",
    )


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
class ParentChoice:
    """A choice of a parent.

    Attributes:
        parent: its id; None where the caller draws a new structure.
        how: "population", or the fallback.
        own: whether the parent is a path of the agent itself, so that its score is a bar.
        considered: own paths in the order in which they were considered, best first.
        fallback_probability: probability that no own path is accepted.
        pool: number of paths in a draw from all; 0 where there was none.
        probability: probability of this parent in that draw; None where there was none.
    """

    parent: str | None
    how: Literal["population", "uniform", "probed", "none"]
    own: bool
    considered: tuple[Consideration, ...]
    fallback_probability: float
    pool: int = 0
    probability: float | None = None


def fallback_probability(population: Sequence[ScoredPath]) -> float:
    """``Π (1 - 0.5^offspring)``: how likely no own path is accepted; 1 where there is none."""
    return math.prod(1 - path.acceptance for path in population)


def select_parent(
    population: Sequence[ScoredPath],
    strangers: Sequence[str],
    rng: np.random.Generator,
    settings: ParentSettings,
    *,
    weights: Mapping[str, float] | None = None,
    best: bool = False,
) -> ParentChoice:
    """Choose the parent of one child.

    Args:
        population: own paths, in any order.
        strangers: ids of other published paths, newest first: those of other agents, and roots.
        rng: draws one number for each path considered, and one for a choice from the pool.
        settings: settings of the choice.
        weights: weights of paths in the uniform draw, by id, positive; None = all alike. An informed agent gives some.
        best: whether the path of the largest weight is taken instead of a draw, where there are weights.

    Raises:
        UsageError: there is no path to choose from.
    """
    considered: list[Consideration] = []
    chance = fallback_probability(population)
    # Best first: a worse path is considered only where all better ones were refused.
    for path in ordered(population):
        considered.append(Consideration(path.id, path.acceptance, float(rng.random())))
        if considered[-1].accepted:
            return ParentChoice(path.id, "population", True, tuple(considered), chance)
    if settings.fallback == "none":
        return ParentChoice(None, "none", False, tuple(considered), chance)
    pool = [*(path.id for path in ordered(population)), *strangers]
    if not pool:
        raise UsageError("there is no path to begin with: a system needs a root before its first agent.")
    if best and weights:
        place, probability = max(range(len(pool)), key=lambda one: weights[pool[one]]), 1.0  # of equal ones the first
    else:
        place, probability = draw(pool, weights, rng)
    own = place < len(population)
    how: Literal["uniform", "probed"] = "probed" if settings.fallback == "probed" and weights else "uniform"
    return ParentChoice(pool[place], how, own, tuple(considered), chance, len(pool), probability)


def select_parents(
    population: Sequence[ScoredPath],
    strangers: Sequence[str],
    generators: Sequence[np.random.Generator],
    settings: ParentSettings,
    *,
    weights: Mapping[str, float] | None = None,
    best: int = 0,
    of_others: Mapping[int, Sequence[str]] | None = None,
) -> tuple[tuple[ParentChoice, ...], Population]:
    """Choose the parents of a generation, one after another: each choice makes the next of the same parent rarer.

    Args:
        population, strangers, settings, weights: as in ``select_parent``.
        generators: one for each child.
        best: number of first children with ``best`` of ``select_parent``.
        of_others: number of a child whose parent is a path of another agent -> ids of those to choose from; without
            any it is chosen as others are.

    Returns:
        The choices, and the population with its counts of offspring as they are then.

    Raises:
        UsageError: there is no path to choose from.
    """
    choices: list[ParentChoice] = []
    members = tuple(population)
    for number, rng in enumerate(generators):
        theirs = (of_others or {}).get(number, ())
        known, foreign = ((), theirs) if theirs else (members, strangers)
        choice = select_parent(known, foreign, rng, settings, weights=weights, best=number < best)
        choices.append(choice)
        # Only an accepted parent counts; a path that a uniform draw chose keeps its chance.
        if choice.parent is not None and choice.how == "population":
            members = with_offspring(members, choice.parent)
    return tuple(choices), members
