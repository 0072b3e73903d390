"""The end of a generation: reference point, hypervolume and front of all results so far, recorded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evodevo.search.base import SearchState
from evodevo.search.front import feasible_points, hypervolume, reference_point
from evodevo.search.members import Listener, Member, front_of
from evodevo.search.problem import Goal
from evodevo.search.rungs import spent_tokens
from evodevo.search.settings import StudySettings
from evodevo.storage import Lease, Store
from evodevo.storage.failpoints import failpoint


class Generations:
    """The finished generations of one search.

    Args:
        goals: Goals of the search.
        settings: Settings of the search.
        store: Store of the run.
        listener: Function called for each event.

    Attributes:
        hypervolumes: Hypervolume of all results so far after each finished generation, at least 0.
        recorded: Number of a generation, from 0 -> its facts in the store.
    """

    def __init__(self, goals: tuple[Goal, ...], settings: StudySettings, store: Store, listener: Listener) -> None:
        self.hypervolumes: list[float] = []
        self.recorded: dict[int, dict[str, Any]] = {}
        self._goals = goals
        self._counts_tokens = settings.rungs is not None or settings.inheritance is not None
        self._store = store
        self._listener = listener
        self._archive: list[Member] = []
        self._reference: tuple[float, ...] | None = None

    def close(self, lease: Lease, generation: int, own: Sequence[Member], state: SearchState) -> None:
        """Fix the reference point once, measure the hypervolume of all results so far, and record both.

        Args:
            lease: Write lease of the run.
            generation: Number of the generation, from 0.
            own: Members whose results the algorithm got in this generation.
            state: State of the algorithm after all of them.
        """
        # A dominated point stays dominated, so the front of all is the front of the last front and the new members.
        self._archive = front_of([*self._archive, *own], self._goals)
        closed = self.recorded.get(generation)
        if closed is None:
            closed = self._measure(own)
            closed["population"] = [individual.id for individual in state.population]
            failpoint("before_generation_event")
            self._store.add_event(lease, "generation", str(generation), closed)
            failpoint("after_generation_event")
            self.recorded[generation] = closed
        if closed["reference"] is not None:
            self._reference = tuple(closed["reference"])
        self.hypervolumes.append(closed["hypervolume"])
        self._listener("generation", {"generation": generation, **closed})

    def _measure(self, own: Sequence[Member]) -> dict[str, Any]:
        if self._reference is None:
            # No individual of an earlier generation had values, else the reference would be fixed already.
            # Individuals that stopped at a rung bound the volume, too; alone those of the whole budget are too few.
            ended = [replace(member.outcomes[0], share=1.0) for member in own]
            points = [values for _, values in feasible_points(ended, self._goals)]
            self._reference = reference_point(points) if points else None
        outcomes = [member.outcomes[0] for member in self._archive]
        return {
            "hypervolume": 0.0 if self._reference is None else hypervolume(outcomes, self._goals, self._reference),
            "reference": None if self._reference is None else list(self._reference),
            "front": [member.id for member in self._archive],
            "evaluated": len(own),
            "failed": sum(member.outcomes[0].reason is not None for member in own),
            **self._tokens_of(own),
        }

    def _tokens_of(self, own: Sequence[Member]) -> dict[str, Any]:
        """Tokens that these individuals were trained on, by share of the budget; nothing where a search is plain."""
        if not self._counts_tokens:
            return {}
        spent = spent_tokens({**member.rungs, member.outcomes[0].share: member.outcomes[0]} for member in own)
        return {"tokens": {repr(share): tokens for share, tokens in spent.items()}} if spent else {}
