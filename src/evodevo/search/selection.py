"""Ranking of individuals, selection of parents by tournament, and survival.

A standing is the integer rank of an individual: lower is better, equal standings mean equally good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from evodevo.search import dominance
from evodevo.search.base import AlgorithmSettings, Scored
from evodevo.search.dominance import Floats, Integers


class ElitistSettings(AlgorithmSettings):
    """Settings of algorithms that select by tournament and keep a few parents as they are."""

    tournament_size: int = Field(default=2, ge=1, description="individuals that compete to be selected")
    elites: int = Field(default=2, ge=0, description="parents that survive in any case")

    @property
    def offspring(self) -> int:
        """Number of children in a generation: the population without the elites."""
        return self.population - self.elites

    @model_validator(mode="after")
    def _elites_leave_room(self) -> ElitistSettings:
        if self.elites >= self.population:
            raise ValueError(f"elites ({self.elites}) must leave room for children in population ({self.population})")
        return self


def crowded_standings(pool: Sequence[Scored]) -> Integers:
    """Standings by constrained rank, then by crowding distance, the larger the better (NSGA-II).

    Individuals whose training stopped at a rung are ranked among those of their rung, behind all of higher rungs.

    Args:
        pool: Individuals whose evaluation succeeded.

    Returns:
        Standings from 0, shape (individuals,).
    """
    return _rung_by_rung(pool, _crowded)


def summed_standings(pool: Sequence[Scored]) -> Integers:
    """Standings with feasible individuals first, by the sum of the normalised objectives; the others by violation.

    Args:
        pool: Individuals whose evaluation succeeded; the feasible ones among them define the ranges.

    Individuals whose training stopped at a rung are ranked among those of their rung, behind all of higher rungs.

    Returns:
        Standings from 0, shape (individuals,).
    """
    return _rung_by_rung(pool, _summed)


def summed_objectives(values: Floats) -> Floats:
    """ΣU(x), U(x) = (x − min)/(max − min), 0 where max = min (star.txt, footnote 5).

    Args:
        values: Objective values, shape (individuals, objectives), finite, at least one row.

    Returns:
        Sums, shape (individuals,), in [0, objectives].
    """
    halves = values / 2  # because the difference of two finite floats can overflow to infinity
    low = halves.min(axis=0)
    spans = halves.max(axis=0) - low
    return np.asarray(((halves - low) / np.where(spans > 0, spans, 1.0)).sum(axis=1))


def tournament(standings: Sequence[int], size: int, rng: np.random.Generator, excluded: int | None = None) -> int:
    """Index of the best of ``size`` different individuals drawn at random; of equals, the first drawn.

    Args:
        standings: Standings of the population.
        size: Number of individuals drawn; all where the population is smaller.
        rng: Generator of the draws.
        excluded: Index that is never drawn; the population then has at least two members.
    """
    taken = [] if excluded is None else [excluded]
    best = -1
    # One call for all draws: calling ``integers`` for each costs more than the rest of a mating.
    for chance in rng.random(min(size, len(standings) - len(taken))).tolist():
        position = int(chance * (len(standings) - len(taken)))
        # The draw is an index into the remaining individuals; shifting it past each taken one makes it absolute.
        for earlier in sorted(taken):
            position += position >= earlier
        taken.append(position)
        if best < 0 or standings[position] < standings[best]:
            best = position
    return best


def keep_best(standings: Integers, size: int) -> Integers:
    """(µ + λ) survival: indices of the ``size`` best, best first; of equals, the earliest."""
    return np.argsort(standings, kind="stable")[:size]


def keep_elites(standings: Integers, num_parents: int, elites: int, size: int) -> Integers:
    """Generational survival: the best parents, then the children, then other parents while there is room.

    With one child told at a time (steady state) the child replaces the worst parent.

    Args:
        standings: Standings of parents and children together, the parents first.
        num_parents: Number of parents among them.
        elites: Number of parents that survive in any case.
        size: Size of the next population.

    Returns:
        Indices of the survivors, best first; of equals, the earliest.
    """
    parents = keep_best(standings[:num_parents], num_parents)
    children = num_parents + keep_best(standings[num_parents:], len(standings) - num_parents)
    kept = np.concatenate([parents[:elites], children, parents[elites:]])[:size]
    return kept[np.lexsort((kept, standings[kept]))]


def take(pool: tuple[Scored, ...], standings: Integers, kept: Integers) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
    """The individuals at these indices, with their standings."""
    return tuple(pool[position] for position in kept.tolist()), tuple(standings[kept].tolist())


def _crowded(values: Floats, violations: Floats) -> Integers:
    rank = dominance.constrained_ranks(values, violations)
    return _dense(rank, -dominance.crowding(values, rank))


def _summed(values: Floats, violations: Floats) -> Integers:
    feasible = violations <= 0
    scores = np.zeros(len(values))
    if feasible.any():
        scores[feasible] = summed_objectives(values[feasible])
    return _dense(violations, scores)


def _rung_by_rung(pool: Sequence[Scored], standings_of: Callable[[Floats, Floats], Integers]) -> Integers:
    """Standings within each rung, the highest rung first; infeasible individuals, never trained, are behind all."""
    values, violations = _arrays(pool)
    rungs = np.array([0.0 if one.violation > 0 else one.share for one in pool])
    if (rungs[violations <= 0] == 1.0).all():
        return standings_of(values, violations)
    result, behind = np.zeros(len(pool), dtype=np.int64), 0
    for rung in np.unique(rungs)[::-1]:
        own = rungs == rung
        result[own] = behind + standings_of(values[own], violations[own])
        behind = int(result[own].max()) + 1
    return result


def _arrays(pool: Sequence[Scored]) -> tuple[Floats, Floats]:
    values = np.array([individual.values for individual in pool], dtype=float)
    return values, np.array([individual.violation for individual in pool], dtype=float)


def _dense(primary: NDArray[np.generic], secondary: Floats) -> Integers:
    """Dense ranks 0, 1, 2, … in ascending order of the pair; equal pairs have equal ranks. Shape (individuals,)."""
    order = np.lexsort((secondary, primary))
    first, second = primary[order], secondary[order]
    step = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.concatenate([[0], np.cumsum(step)])
    return result
