"""Proximal policy optimisation with generalised advantages (80, 81)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from evodevo.growth.strategists.policy_gradient import PolicyGradient
from evodevo.growth.strategists.spec import StrategistSettings
from evodevo.growth.strategists.transition import Decision, Transition

FARTHEST = 20.0
"""Largest logarithm of the ratio of probabilities; above it the exponential would overflow."""


class PPO(PolicyGradient):
    """Raises min(rho A, clip(rho, 1 +- clip) A) a few times per update, where rho = pi_new(a | S) / pi_old(a | S)."""

    name = "ppo"

    def __init__(self, settings: StrategistSettings, *, actions: int = 3, seed: int = 0) -> None:
        super().__init__(settings, actions=actions, seed=seed)
        self.passes = settings.learning.epochs

    def _judge(
        self,
        transitions: Sequence[Transition],
        rewards: Sequence[float],
        worth: Sequence[float],
        after: Sequence[float],
    ) -> tuple[list[float], list[float]]:
        learning = self.settings.learning
        advantages = generalised_advantages(transitions, rewards, worth, after, learning.discount, learning.trace)
        return advantages, [advantage + value for advantage, value in zip(advantages, worth, strict=True)]

    def _gain(self, log_probability: Tensor, decision: Decision, advantage: float) -> Tensor:
        clip = self.settings.learning.clip
        # Of logarithms, since probabilities of rare actions underflow.
        ratio = (log_probability - decision.log_probability).clamp(max=FARTHEST).exp()
        return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def generalised_advantages(
    transitions: Sequence[Transition],
    rewards: Sequence[float],
    worth: Sequence[float],
    after: Sequence[float],
    discount: float,
    trace: float,
) -> list[float]:
    """A_t = sum_k (gamma lambda)^k delta_{t+k} to the training's end; delta_t = r_t + gamma V(S_{t+1}) - V(S_t)."""
    advantages: list[float] = []
    later = 0.0
    for transition, reward, now, then in zip(
        reversed(transitions), reversed(rewards), reversed(worth), reversed(after), strict=True
    ):
        goes_on = transition.after is not None
        # Nothing flows back over the end of a training.
        later = reward + discount * then * goes_on - now + discount * trace * later * goes_on
        advantages.append(later)
    return advantages[::-1]
