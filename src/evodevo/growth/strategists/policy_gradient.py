"""Base of strategists that learn from rewards: J + lambda_H H is raised (97), cost above its target is punished (80).

Source: docs/spec/architect_thyself.md#strategists.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from evodevo.growth.strategists.learned import LearnedStrategist
from evodevo.growth.strategists.transition import Decision, Transition


class PolicyGradient(LearnedStrategist):
    """Subclasses define the advantage of an event (``_judge``) and the objective of a decision (``_gain``)."""

    passes = 1
    """Number of passes of ``update`` over its transitions."""

    def update(self, transitions: Sequence[Transition]) -> dict[str, float]:
        """Raise J + lambda_H H and the fit of the value (97), then update the multiplier of the cost (80)."""
        if not transitions:
            return {}
        with torch.no_grad():
            worth = [float(self.policy.worth(transition.state)) for transition in transitions]
            after = [
                0.0 if transition.after is None else float(self.policy.worth(transition.after))
                for transition in transitions
            ]
        rewards = [transition.reward - self.multiplier * self._excess(transition) for transition in transitions]
        advantages, returns = self._judge(transitions, rewards, worth, after)
        log: dict[str, float] = {}
        for _ in range(self.passes):
            log = self._pass(transitions, advantages, returns)
        excess = sum(self._excess(transition) for transition in transitions) / len(transitions)
        # Dual ascent: dearer while the mean is over its target, free again below it.
        self.multiplier = max(0.0, self.multiplier + self.settings.learning.multiplier_rate * excess)
        return {**log, "multiplier": self.multiplier}

    def _excess(self, transition: Transition) -> float:
        """Cost above the target as a share of it; negative below; 0 without a target."""
        target = self.settings.learning.target_cost
        return transition.cost / target - 1 if target else 0.0

    def _pass(
        self, transitions: Sequence[Transition], advantages: Sequence[float], returns: Sequence[float]
    ) -> dict[str, float]:
        settings = self.settings.learning
        gains: list[Tensor] = []
        entropies: list[Tensor] = []
        errors: list[Tensor] = []
        for transition, advantage, expected in zip(transitions, advantages, returns, strict=True):
            errors.append((self.policy.worth(transition.state) - expected) ** 2)
            for decision in transition.decisions:
                choice = self.choice(transition.state, decision.legal)
                gains.append(self._gain(choice.log_probability(decision.action), decision, advantage))
                entropies.append(choice.entropy())
        error = torch.stack(errors).mean()
        loss = settings.baseline * error
        # Per event, not per sub-action: an event's reward is for all of them.
        if gains:
            objective = (torch.stack(gains).sum() + settings.entropy * torch.stack(entropies).sum()) / len(transitions)
            loss = loss - objective
        self._step(torch.autograd.grad(loss, list(self.policy.parameters()), allow_unused=True))
        entropy = float(torch.stack(entropies).mean().detach()) if entropies else 0.0
        return {"loss": float(loss.detach()), "entropy": entropy, "value_error": float(error.detach())}

    @abstractmethod
    def _judge(
        self,
        transitions: Sequence[Transition],
        rewards: Sequence[float],
        worth: Sequence[float],
        after: Sequence[float],
    ) -> tuple[list[float], list[float]]:
        """(advantages, targets of the values), one of each per event."""

    @abstractmethod
    def _gain(self, log_probability: Tensor, decision: Decision, advantage: float) -> Tensor:
        """The objective of one decision, a scalar to be raised."""
