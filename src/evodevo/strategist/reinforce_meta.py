"""REINFORCE for the long run, an occasional meta-gradient for the fine tuning (end of appendix H)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from evodevo.strategist.base import Decision, Transition, Unroll
from evodevo.strategist.policy_gradient import PolicyGradient
from evodevo.strategist.reinforce import baselined
from evodevo.strategist.state import Legal, State


class ReinforceMeta(PolicyGradient):
    """Both learn one policy; the meta-gradient comes at every ``meta.every``-th event."""

    name = "reinforce_meta"

    def _rate(self) -> float:
        return self.settings.learning.reinforce_rate

    def _judge(
        self,
        transitions: Sequence[Transition],
        rewards: Sequence[float],
        worth: Sequence[float],
        after: Sequence[float],
    ) -> tuple[list[float], list[float]]:
        return baselined(transitions, rewards, worth, after, self.settings.learning.discount)

    def _gain(self, log_probability: Tensor, decision: Decision, advantage: float) -> Tensor:
        return log_probability * advantage

    def wants_gradient(self, event: int) -> bool:
        return event % self.settings.meta.every == 0

    def refine(self, state: State, legal: Legal, unroll: Unroll) -> float:
        return self._descend(state, legal, unroll)
