"""What strategists that learn from rewards share: J + lambda_H H is raised (97), what is dear is punished (80).

Source: docs/spec/architect_thyself.md#strategists.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from evodevo.growth.strategists.base import Decision, Transition
from evodevo.growth.strategists.learned import LearnedStrategist


class PolicyGradient(LearnedStrategist):
    """Says what an event was worth (``_judge``) and what is raised for a decision (``_gain``)."""

    passes = 1
    """Times that ``update`` goes over what it is told."""

    def update(self, transitions: Sequence[Transition]) -> dict[str, float]:
        """Raise J + lambda_H H and the fit of the value (97), then the multiplier of the cost (80)."""
        if not transitions:
            return {}
        with torch.no_grad():
            worth = [float(self.policy.worth(one.state)) for one in transitions]
            after = [0.0 if one.after is None else float(self.policy.worth(one.after)) for one in transitions]
        rewards = [one.reward - self.multiplier * self._excess(one) for one in transitions]
        advantages, returns = self._judge(transitions, rewards, worth, after)
        log: dict[str, float] = {}
        for _ in range(self.passes):
            log = self._pass(transitions, advantages, returns)
        excess = sum(self._excess(one) for one in transitions) / len(transitions)
        # Dual ascent: dearer while the mean is over its target, free again below it.
        self.multiplier = max(0.0, self.multiplier + self.settings.learning.multiplier_rate * excess)
        return {**log, "multiplier": self.multiplier}

    def _excess(self, transition: Transition) -> float:
        """Share of the target by which the cost is over it; negative below; 0 without a target."""
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
        """(advantages, what the values should have been), one of each per event."""

    @abstractmethod
    def _gain(self, log_probability: Tensor, decision: Decision, advantage: float) -> Tensor:
        """What is raised for one decision, a scalar."""
