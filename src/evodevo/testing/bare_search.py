"""An algorithm driven by the shortest loop that can drive it: no store, no executor; for tests and benchmarks."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from evodevo.randomness import generator
from evodevo.search.base import Algorithm, Proposal, Scored, SearchState, SpaceExhausted
from evodevo.search.space import Space

Evaluate = Callable[[Any], tuple[float, ...] | None]
"""Genome to objective values to minimise; None = the evaluation failed."""


@dataclass(frozen=True)
class SearchHistory:
    """The history of a search: proposals and scores in the order of telling, and the last state."""

    proposals: tuple[Proposal, ...]
    scored: tuple[Scored, ...]
    state: SearchState

    @property
    def values(self) -> list[tuple[float, ...]]:
        """The objective values of all that did not fail."""
        return [individual.values for individual in self.scored if individual.values is not None]


def generational(
    algorithm: Algorithm, space: Space[Any], evaluate: Evaluate, *, seed: int, evaluations: int
) -> SearchHistory:
    """Whole generations, the last one cut to the number of evaluations; ends early where the space is exhausted."""
    known: set[str] = set()
    proposals: list[Proposal] = []
    scored: list[Scored] = []
    state, generation = algorithm.start(), 0
    while len(scored) < evaluations:
        size = algorithm.offspring if generation else algorithm.settings.population
        count = min(size, evaluations - len(scored))
        draw = partial(_draw, seed, generation)
        try:
            asked = algorithm.ask(state, space, draw, count, known.__contains__)
        except SpaceExhausted as end:
            asked = end.proposals
        born = [
            Scored(f"{generation}.{slot}", proposal.genome, evaluate(proposal.genome))
            for slot, proposal in enumerate(asked)
        ]
        known.update(space.hash(proposal.genome) for proposal in asked)
        proposals += asked
        scored += born
        state = algorithm.tell(state, born)
        if len(asked) < count:
            break
        generation += 1
    return SearchHistory(tuple(proposals), tuple(scored), state)


def steady_state(
    algorithm: Algorithm,
    space: Space[Any],
    evaluate: Evaluate,
    *,
    seed: int,
    evaluations: int,
    workers: int = 8,
    seconds: Callable[[int], float] = lambda event: 1.0,
) -> SearchHistory:
    """A free worker gets the next child at once; time is simulated.

    Args:
        algorithm: algorithm that is driven.
        space: space of the genomes.
        evaluate: objective values of a genome.
        seed: seed of the run.
        evaluations: number of evaluations in all; the space must be larger.
        workers: number of evaluations at a time.
        seconds: event -> simulated duration of its evaluation.
    """
    known: set[str] = set()
    finished: list[tuple[Proposal, Scored]] = []
    state = algorithm.start()
    waiting: list[Proposal] = []
    running: list[tuple[float, int, Proposal]] = []
    clock, event, asks = 0.0, 0, 0
    while len(finished) < evaluations:
        while len(running) < workers and event < evaluations:
            if not waiting:
                count = 1 if asks else algorithm.settings.population
                waiting = algorithm.ask(state, space, partial(_draw, seed, asks), count, known.__contains__)
                known.update(space.hash(one.genome) for one in waiting)
                asks += 1
            heapq.heappush(running, (clock + seconds(event), event, waiting.pop(0)))
            event += 1
        clock, born, proposal = heapq.heappop(running)
        scored = Scored(str(born), proposal.genome, evaluate(proposal.genome))
        finished.append((proposal, scored))
        state = algorithm.tell(state, [scored])
    return SearchHistory(
        tuple(proposal for proposal, _ in finished), tuple(individual for _, individual in finished), state
    )


def _draw(seed: int, generation: int, slot: int, purpose: str) -> np.random.Generator:
    return generator(seed, generation, slot, purpose)
