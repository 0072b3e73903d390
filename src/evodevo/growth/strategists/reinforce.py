"""REINFORCE with a learned baseline (97)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from evodevo.growth.strategists.policy_gradient import PolicyGradient
from evodevo.growth.strategists.transition import Decision, Transition


class Reinforce(PolicyGradient):
    """Raises log pi(a | S) (R - V(S)) once per update."""

    name = "reinforce"

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


def baselined(
    transitions: Sequence[Transition],
    rewards: Sequence[float],
    worth: Sequence[float],
    after: Sequence[float],
    discount: float,
) -> tuple[list[float], list[float]]:
    """(R_t - V(S_t), R_t), R_t = sum_k gamma^k r_{t+k} to the end of the training or of the transitions given.

    Where the training goes on, V of the state after the last one replaces the rest.
    """
    returns: list[float] = []
    later = after[-1] if after else 0.0
    for transition, reward in zip(reversed(transitions), reversed(rewards), strict=True):
        later = reward + discount * (later if transition.after is not None else 0.0)
        returns.append(later)
    returns.reverse()
    return [total - value for total, value in zip(returns, worth, strict=True)], returns
