"""Ask and tell in a search: proposals of its algorithm from keyed draws, and the scores that it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from evodevo.randomness import generator
from evodevo.search.base import Algorithm, Proposal, Scored, SearchState, SpaceExhausted
from evodevo.search.inheritance import with_donors
from evodevo.search.members import Member, Members
from evodevo.search.problem import Goal
from evodevo.search.rungs import mean_changes
from evodevo.search.settings import StudySettings
from evodevo.search.space import Space


class AskTell:
    """Asking and telling in one search.

    Args:
        algorithm: Algorithm that proposes.
        space: Space of the genomes.
        settings: Settings of the search.
        goals: Goals of the search.
        members: Individuals of the run.
        founders: Individuals that come first in the initial population, see ``start.founders``.

    Attributes:
        told: Members whose results the algorithm got, in that order.
        living: Ids of the individuals in the algorithm's population.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        space: Space[Any],
        settings: StudySettings,
        goals: tuple[Goal, ...],
        members: Members,
        founders: list[Proposal],
    ) -> None:
        self.algorithm = algorithm
        self.told: list[Member] = []
        self.living: set[str] = set()
        self._space = space
        self._settings = settings
        self._goals = goals
        self._members = members
        self._founders = founders

    def ask(
        self, state: SearchState, moment: int, count: int, generation: int, *, first: bool
    ) -> tuple[list[Proposal], bool]:
        """Proposals in a generation, and whether the space was exhausted.

        Args:
            state: State of the algorithm.
            moment: Key of the draws: the generation, or in steady state the number of births before.
            count: Number of proposals wanted; fewer come where the space has too few.
            generation: Number of the generation, from 0.
            first: Whether the initial population is asked for, in which the user's own genomes come first.
        """
        given, known, space = (self._founders if first else []), self._members.hashes, self._space.at(generation)
        if given:
            known = known.union(self._space.hash(proposal.genome) for proposal in given)
        draw, exhausted = partial(self._draw, moment), False
        try:
            proposals = self.algorithm.ask(state, space, draw, count - len(given), known.__contains__)
        except SpaceExhausted as end:
            proposals, exhausted = end.proposals, True
        inherits = self._settings.inheritance is not None
        return [with_donors(one, state) if inherits else one for one in [*given, *proposals]], exhausted

    def tell(self, state: SearchState, members: Sequence[Member]) -> SearchState:
        """The state of the algorithm with the results of these members."""
        self.told += members
        courses = [{**member.rungs, member.outcomes[0].share: member.outcomes[0]} for member in members]
        changes = mean_changes(courses, self._goals)
        state = self.algorithm.tell(state, [self._scored(member, changes) for member in members])
        self.living = {individual.id for individual in state.population}
        return state

    def _draw(self, moment: int, slot: int, purpose: str) -> np.random.Generator:
        return generator(self._settings.seed, moment, slot, purpose)

    def _scored(self, member: Member, changes: Mapping[float, tuple[float, ...]]) -> Scored:
        outcome = member.outcomes[0]
        if outcome.violation > 0:
            return Scored(member.id, member.genome, (0.0,) * len(self._goals), outcome.violation)
        values, change = outcome.values(self._goals), changes.get(outcome.share)
        if values is not None and change is not None:
            values = tuple(a + b for a, b in zip(values, change, strict=True))
        return Scored(member.id, member.genome, values, share=outcome.share)
