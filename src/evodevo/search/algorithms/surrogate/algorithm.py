"""Surrogate-assisted search: many children are drawn, a model says which of them are worth an evaluation.

Parents, crossover and mutation are those of NSGA-II. A Gaussian process over canonical genes predicts the objectives
that only an evaluation tells (Rasmussen, Williams 2006); what the problem knows of a genome beforehand (size, cache,
broken constraints) is used exactly. Chosen are, one after the other, the children of the largest expected hypervolume
gain (Yang et al. 2019); with one objective that is the expected improvement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from typing import Any, cast

import numpy as np
from pydantic import Field
from threadpoolctl import ThreadpoolController

from evodevo.search.algorithms.surrogate import choice
from evodevo.search.algorithms.surrogate.features import Features, encode
from evodevo.search.algorithms.surrogate.objective_model import Fitted, fit_objective
from evodevo.search.algorithms.surrogate.state import SurrogateState
from evodevo.search.base import (
    Algorithm,
    AlgorithmSettings,
    Breed,
    Draw,
    Foresee,
    Foreseen,
    Known,
    Litter,
    Proposal,
    Scored,
    SearchState,
)
from evodevo.search.dominance import Booleans, Floats
from evodevo.search.mating import pair_breeder
from evodevo.search.selection import crowded_standings, keep_best, take
from evodevo.search.space import Space

LEAST_CANDIDATES = 96
MUTATION_DRAWS = 4
FITTED = 200
"""Most results that length scales are fitted to; beyond, they are taken evenly from all."""
LEAST_FITTED = 8
REMEMBERED = 20_000


class SurrogateSettings(AlgorithmSettings):
    """Settings of the surrogate-assisted search."""

    tournament_size: int = Field(default=2, ge=1, description="individuals that compete to become a parent")
    candidates: int = Field(
        default=32, ge=1, le=10_000, description="children per proposal that the model judges; 96 in all at least"
    )
    samples: float = Field(default=0.15, ge=0, le=1, description="share of random genomes among them, 0 to 1")
    mutants: float = Field(
        default=0.4, ge=0, le=1, description="share of mutants of one parent among the others, 0 to 1; the rest is bred"
    )
    observations: int = Field(
        default=512, ge=8, le=5000, description="results that the model knows at most, 8 to 5000; the best are kept"
    )


@dataclass(frozen=True)
class _Basis:
    """Scale of the objectives and what was fitted; None for what is known or cannot be learnt."""

    scale: choice.ObjectiveScale
    objectives: list[Fitted | None]
    success: Fitted | None


class Surrogate(Algorithm):
    """Children of NSGA-II's operators, chosen by the gain that a model expects of them.

    Args:
        settings: Settings.
        foresee: What the problem knows of a genome before its evaluation; None = nothing.
    """

    name = "surrogate"
    settings_class = SurrogateSettings
    settings: SurrogateSettings

    def __init__(self, settings: AlgorithmSettings | None = None, foresee: Foresee | None = None) -> None:
        super().__init__(settings)
        self._foresee = foresee
        # Neither decides anything: they keep what would be computed again, equal.
        self._segments: dict[Any, tuple[Any, ...]] = {}
        self._last: tuple[Any, _Basis] | None = None

    def informed(self, foresee: Foresee) -> Surrogate:
        """See ``Algorithm``."""
        return Surrogate(self.settings, foresee)

    def start(self) -> SurrogateState:
        """See ``Algorithm``."""
        return SurrogateState()

    def tell(self, state: SearchState, scored: Sequence[Scored]) -> SurrogateState:
        """See ``Algorithm``; every result is remembered."""
        before = cast(SurrogateState, state)
        after = cast(SurrogateState, super().tell(before, scored))
        return replace(after, archive=before.archive + tuple(scored))

    def ask(self, state: SearchState, space: Space[Any], draw: Draw, count: int, known: Known) -> list[Proposal]:
        """See ``Algorithm``; where there are too few new candidates, the rest are children that nobody judged."""
        if not state.population:
            return super().ask(state, space, draw, count, known)
        with _threads().limit(limits=1, user_api="blas"):  # sums in another order would round differently
            chosen = self._chosen(cast(SurrogateState, state), space, draw, count, known)
        breed = self._breeder(state, space, count)
        litter = Litter(space, draw, known)
        for slot in range(count):
            first = chosen[slot : slot + 1]
            litter.add(slot, partial(_attempt, first, breed, draw, slot))
        return litter.proposals

    def _breeder(self, state: SearchState, space: Space[Any], count: int) -> Breed:
        return pair_breeder(state, space, self.settings.tournament_size)

    def _survive(
        self, parents: tuple[Scored, ...], children: tuple[Scored, ...]
    ) -> tuple[tuple[Scored, ...], tuple[int, ...]]:
        pool = parents + children
        standings = crowded_standings(pool)
        return take(pool, standings, keep_best(standings, self.settings.population))

    def _chosen(self, state: SurrogateState, space: Space[Any], draw: Draw, count: int, known: Known) -> list[Proposal]:
        candidates = self._candidates(state, space, draw(0, "candidates"), count, known)
        goals = len(state.population[0].values or ())
        foreseen = [Foreseen((None,) * goals) if self._foresee is None else self._foresee(c.genome) for c in candidates]
        least = min((one.violation for one in foreseen), default=0.0)
        if least > 0:  # none keeps the constraints: take those that break them least
            order = sorted(range(len(candidates)), key=lambda place: foreseen[place].violation)
            return [candidates[place] for place in order[:count]]
        allowed = [place for place, one in enumerate(foreseen) if one.violation <= 0]
        candidates, foreseen = [candidates[place] for place in allowed], [foreseen[place] for place in allowed]
        feasible = [one for one in state.archive if _is_feasible(one)]
        if len(candidates) <= count or not feasible:
            return candidates[:count]
        columns = [_column(foreseen, goal) for goal in range(goals)]
        exact = tuple(column is not None for column in columns)
        basis = self._basis(state, space, exact)
        observed = self._kept(feasible)
        failed = [one for one in state.archive if self._has_failed(one)][-self.settings.observations :]
        genomes = [one.genome for one in (*observed, *failed)] + [one.genome for one in candidates]
        features = encode([self._segments_of(space, genome) for genome in genomes])
        told, places = np.split(np.arange(len(genomes)), [len(observed) + len(failed)])
        values = basis.scale.table(_values(observed))
        front = values[_finished(observed)]
        known_values = [None if column is None else basis.scale(column, goal) for goal, column in enumerate(columns)]
        models = choice.judges(features, told[: len(observed)], values, places, known_values, basis.objectives)
        succeeded = (told < len(observed)).astype(float)
        success = choice.success_probability(basis.success, features, told, succeeded, places)
        chosen = choice.choose(models, front, basis.scale.reference, success, count)
        return [candidates[place] for place in chosen]

    def _candidates(
        self, state: SurrogateState, space: Space[Any], rng: np.random.Generator, count: int, known: Known
    ) -> list[Proposal]:
        """New genomes, each once: random ones, mutants of one parent, children of two."""
        settings, population = self.settings, state.population
        breed = self._breeder(state, space, count)
        wanted = max(LEAST_CANDIDATES, count * settings.candidates)
        found: dict[Any, Proposal] = {}
        drawn = 0
        while drawn < wanted:
            if rng.random() < settings.samples:
                proposals = [Proposal(space.sample(rng), (), "sample", {})]
            elif rng.random() < settings.mutants:
                parent = population[int(rng.integers(len(population)))]
                for _ in range(MUTATION_DRAWS):  # a mutation may change nothing
                    mutant, facts = space.mutation(parent.genome, rng)
                    if mutant != parent.genome:
                        break
                proposals = [Proposal(mutant, (parent.id,), "mutation", facts)]
            else:
                proposals = list(islice(breed(0, rng), 2))
            drawn += len(proposals)
            for proposal in proposals:
                found.setdefault(proposal.genome, proposal)
        by_hash: dict[str, Proposal] = {}
        for proposal in found.values():
            by_hash.setdefault(space.hash(proposal.genome), proposal)
        return [proposal for genome_hash, proposal in by_hash.items() if not known(genome_hash)]

    def _basis(self, state: SurrogateState, space: Space[Any], exact: tuple[bool, ...]) -> _Basis:
        """By the results of whole generations, so that steady state does not fit at every event."""
        whole = len(state.archive) // self.settings.population * self.settings.population
        told = state.archive[:whole]
        if sum(map(_is_feasible, told)) < LEAST_FITTED:
            told = state.archive
        key = (space, exact, told)
        if self._last is None or self._last[0] != key:
            feasible = _evenly([one for one in told if _is_feasible(one)])
            judged = _evenly([one for one in told if _is_feasible(one) or self._has_failed(one)])
            learnt = _values(feasible)
            scale = choice.ObjectiveScale(learnt)
            features, places = self._encoded(space, feasible), np.arange(len(feasible))
            values = scale.table(learnt)
            objectives = [
                None if is_exact else fit_objective(features, places, values[:, goal])
                for goal, is_exact in enumerate(exact)
            ]
            succeeded = np.array([float(_is_feasible(one)) for one in judged])
            success = choice.fit_success(self._encoded(space, judged), np.arange(len(judged)), succeeded)
            self._last = (key, _Basis(scale, objectives, success))
        return self._last[1]

    def _has_failed(self, one: Scored) -> bool:
        """Constraints that are foreseen need no learning; other violations count as failures."""
        return one.values is None or (one.violation > 0 and self._foresee is None)

    def _encoded(self, space: Space[Any], told: Sequence[Scored]) -> Features:
        return encode([self._segments_of(space, one.genome) for one in told])

    def _kept(self, feasible: list[Scored]) -> list[Scored]:
        """The best where there are more than the model may know, in the order of telling."""
        most = self.settings.observations
        if len(feasible) <= most:
            return feasible
        places = keep_best(crowded_standings(feasible), most)
        return [feasible[place] for place in np.sort(places)]

    def _segments_of(self, space: Space[Any], genome: Any) -> tuple[Any, ...]:
        if len(self._segments) > REMEMBERED:
            self._segments.clear()
        key = (space, genome)
        if key not in self._segments:
            self._segments[key] = space.segments(space.canonical(genome))
        return self._segments[key]


def _attempt(first: list[Proposal], breed: Breed, draw: Draw, slot: int, redraws: int) -> Iterable[Proposal]:
    return breed(slot, draw(slot, f"child/{redraws}")) if redraws or not first else first


def _is_feasible(one: Scored) -> bool:
    return one.values is not None and one.violation <= 0


def _evenly(told: list[Scored]) -> list[Scored]:
    """At most ``FITTED`` of them."""
    if len(told) <= FITTED:
        return told
    return [told[place] for place in np.linspace(0, len(told) - 1, FITTED).astype(int)]


def _finished(feasible: Sequence[Scored]) -> Booleans:
    """Who was trained for as long as anybody, shape (n,)."""
    shares = np.array([one.share for one in feasible])
    return np.asarray(shares == shares.max())


def _values(feasible: Sequence[Scored]) -> Floats:
    """Objective values, shape (n, objectives); stopped trainings have estimates for the whole budget."""
    return np.array([one.values for one in feasible], dtype=float)


def _column(foreseen: Sequence[Foreseen], goal: int) -> Floats | None:
    """Values of one objective for all candidates; None where one of them is not known."""
    column = [one.values[goal] for one in foreseen]
    return None if any(value is None for value in column) else np.array(column, dtype=float)


@cache
def _threads() -> ThreadpoolController:
    # Looking for the loaded libraries takes milliseconds, and scipy brings one of its own.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
