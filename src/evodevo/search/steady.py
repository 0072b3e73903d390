"""Steady state: a free worker gets the next child at once, and the algorithm every result as it comes."""

from __future__ import annotations

from dataclasses import replace

from evodevo.search.ask_tell import AskTell
from evodevo.search.base import SearchState
from evodevo.search.evaluations import Evaluations
from evodevo.search.generations import Generations
from evodevo.search.members import Member, Members
from evodevo.search.settings import StudySettings


class SteadyState:
    """A search without generations; as many results as the population has members count as one.

    Args:
        settings: Settings of the search.
        members: Individuals of the run.
        evaluations: Their evaluations.
        ask_tell: Algorithm of the search.
        generations: Record of the finished generations.
    """

    def __init__(
        self,
        settings: StudySettings,
        members: Members,
        evaluations: Evaluations,
        ask_tell: AskTell,
        generations: Generations,
    ) -> None:
        self._population = settings.population
        self._total = settings.generations * settings.population
        self._members = members
        self._evaluations = evaluations
        self._ask_tell = ask_tell
        self._generations = generations

    def run(self) -> bool:
        """Search until all evaluations are done, or until a stop. True where the space ran out of genomes."""
        evaluations, told = self._evaluations, self._ask_tell.told
        state = self._ask_tell.algorithm.start()
        for member in evaluations.by_completion():
            state = self._tell(state, member)
        waiting = [member for member in self._members.own() if 0 not in member.outcomes]
        born, exhausted = len(told) + len(waiting), False
        while True:
            while evaluations.stop == "no" and evaluations.dispatcher.free:
                if not waiting and born < self._total and not exhausted:
                    waiting, exhausted = self._children(state, born)
                    born += len(waiting)
                if not waiting:
                    break
                evaluations.submit(waiting.pop(0), 0)
            if not evaluations.busy:
                break
            for member in evaluations.poll():
                state = self._tell(state, member)
        rest = len(told) % self._population
        if exhausted and evaluations.stop == "no" and rest:
            self._close(len(self._generations.hypervolumes), told[-rest:], state)
        return exhausted

    def _tell(self, state: SearchState, member: Member) -> SearchState:
        state = self._ask_tell.tell(state, [member])
        told = self._ask_tell.told
        if len(told) % self._population == 0:
            self._close(len(told) // self._population - 1, told[-self._population :], state)
        return state

    def _close(self, generation: int, own: list[Member], state: SearchState) -> None:
        self._generations.close(self._evaluations.recorder.lease, generation, own, state)

    def _children(self, state: SearchState, born: int) -> tuple[list[Member], bool]:
        """The initial population at once, later one child per call; and whether the space was exhausted."""
        count = self._population if born == 0 else 1
        proposals, exhausted = self._ask_tell.ask(state, born, count, born // self._population, first=born == 0)
        rows = []
        for number, child in enumerate(proposals, born):
            # Number of results the algorithm had at this birth: with the order of completion, all a replay needs.
            proposal = replace(child, details={**child.details, "told": len(self._ask_tell.told)})
            rows.append((f"event/{number}", number // self._population, number % self._population, proposal))
        return self._members.add(self._evaluations.recorder.lease, rows), exhausted
