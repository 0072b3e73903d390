"""REINFORCE at every event and a meta-gradient at some (end of appendix H)."""

from __future__ import annotations

from evodevo.growth.strategists.base import Unroll
from evodevo.growth.strategists.reinforce import Reinforce
from evodevo.growth.strategists.state import Legal, State


class ReinforceMeta(Reinforce):
    """Both train one policy; the meta-gradient comes at every ``meta.every``-th event."""

    name = "reinforce_meta"

    def wants_gradient(self, event: int) -> bool:
        return event % self.settings.meta.every == 0

    def refine(self, state: State, legal: Legal, unroll: Unroll) -> float:
        return self._descend(state, legal, unroll)
