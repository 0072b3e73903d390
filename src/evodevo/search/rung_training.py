"""Training of a generation, rung by rung."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.search.base import Scored
from evodevo.search.evaluations import Evaluations
from evodevo.search.members import Listener, Member
from evodevo.search.problem import SNAPSHOT, Goal
from evodevo.search.rungs import RungSettings, going_on
from evodevo.storage import Store


class RungTraining:
    """The training of generations, with or without rungs.

    Args:
        evaluations: Evaluations of the search.
        rungs: Settings of the rungs; None trains every member for the whole budget at once.
        goals: Goals of the search.
        store: Store of the run.
        listener: Function called for each event.

    Attributes:
        decisions: ``generation/share`` -> ids of the candidates that went on from there, as recorded.
    """

    def __init__(
        self,
        evaluations: Evaluations,
        rungs: RungSettings | None,
        goals: tuple[Goal, ...],
        store: Store,
        listener: Listener,
    ) -> None:
        self.decisions: dict[str, list[str]] = {}
        self._evaluations = evaluations
        self._rungs = rungs
        self._goals = goals
        self._store = store
        self._listener = listener

    def train(self, members: Sequence[Member], generation: int) -> None:
        """Evaluate a generation, rung by rung where the settings have rungs; what was recorded is not repeated."""
        rungs = self._rungs
        if rungs is None:
            self._evaluations.evaluate(members)
            return
        # What is known without training takes no part in the rungs.
        self._evaluations.evaluate(
            [member for member in members if self._evaluations.decided_before(member, 0) is not None]
        )
        climbing = [member for member in members if 0 not in member.outcomes or member.rungs]
        for place, share in enumerate(rungs.shares):
            self._evaluations.work([member for member in climbing if share not in member.rungs], 0, share)
            if any(share not in member.rungs for member in climbing):
                return  # stopped
            if place:
                self._evaluations.release("", climbing, rungs.shares[place - 1])
            ahead = self._decision(generation, share, climbing, rungs)
            stopped = [member for member in climbing if member.id not in ahead]
            for member in stopped:
                member.outcomes[0] = member.rungs[share]
            self._evaluations.release(SNAPSHOT, stopped, share)
            climbing = [member for member in climbing if member.id in ahead]
        self._evaluations.evaluate(climbing)
        if all(0 in member.outcomes for member in climbing):
            self._evaluations.release("", climbing, rungs.shares[-1])

    def _decision(self, generation: int, share: float, climbing: list[Member], rungs: RungSettings) -> list[str]:
        """Ids of the candidates that go on from a rung; decided once, and recorded."""
        subject = f"{generation}/{share!r}"
        ahead = self.decisions.get(subject)
        if ahead is None:
            outcomes = [(member, member.rungs[share]) for member in climbing]
            pool = [
                Scored(member.id, member.genome, outcome.values(self._goals), outcome.violation, share)
                for member, outcome in outcomes
            ]
            ahead = going_on(pool, rungs.size(len(pool)))
            stopped = [member.id for member in climbing if member.id not in ahead]
            facts = {"generation": generation, "share": share, "went_on": ahead, "stopped": stopped}
            self._store.add_event(self._evaluations.recorder.lease, "rung", subject, facts)
            self.decisions[subject] = ahead
            self._listener("rung", facts)
        return ahead
