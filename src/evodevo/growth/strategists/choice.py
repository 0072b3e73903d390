"""A probability distribution over actions: an operation, then its target, then its mix or scale.

It consists of log-probabilities that are still in the graph, so that one value serves drawing, learning and the soft
gates of a meta-gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.growth.edit_spec import Action
from evodevo.growth.spec import Operation
from evodevo.growth.strategists.state import BIRTHS, SPREAD, State, same_target

EDGE = 1e-3
"""Margin at both ends of a Beta, where its density may be infinite."""
SHARPEST = 40.0
"""Largest residual that counts, so that no Beta becomes a single point."""

Shape = Callable[[Action], tuple[Tensor, Tensor]]
"""Both parameters of the Beta of an action's mix (``hybridise``) or of the logarithm of its scale (``grow``)."""


def beta_parameters(residual: Tensor, start: float) -> tuple[Tensor, Tensor]:
    """Both parameters from a residual, (2,), that is 0 at first: then they are ``start``; never below half of it."""
    both = start * (1 + F.elu(residual.clamp(max=SHARPEST)) / 2)
    return both[0], both[1]


@dataclass(frozen=True)
class PolicyOutput:
    """A policy's distribution for one state.

    Attributes:
        operations: Legal operations.
        operation_logs: log p(operation), (operations,).
        targets: Every legal action, by operation.
        target_logs: log p(target | operation), (targets,), by operation.
        shape: Returns the parameters of an action's Beta.
    """

    operations: tuple[Operation, ...]
    operation_logs: Tensor
    targets: Mapping[Operation, tuple[Action, ...]]
    target_logs: Mapping[Operation, Tensor]
    shape: Shape

    def probability(self, action: Action) -> float:
        """Probability of an action, whatever its mix and scale; exactly 0 where it is illegal."""
        if not any(same_target(action, target) for target in self.targets.get(action.operation, ())):
            return 0.0
        return math.exp(float(self._discrete(action).detach()))

    def log_probability(self, action: Action) -> Tensor:
        """Log-probability of an action with its mix or scale (a density): a scalar in the graph."""
        total = self._discrete(action)
        if action.operation in ("grow", "hybridise"):
            total = total + _beta_log(*self.shape(action), _unit(action))
        return total

    def entropy(self) -> Tensor:
        """Exact entropy of operation and target: that of the operation plus the expected one of its target."""
        chances = self.operation_logs.exp()
        inner = torch.stack([_entropy(self.target_logs[operation]) for operation in self.operations])
        return _entropy(self.operation_logs) + (chances * inner).sum()

    def sample(self, rng: np.random.Generator) -> Action:
        """Draw an action."""
        operation = self.operations[_draw(self.operation_logs, rng)]
        action = self.targets[operation][_draw(self.target_logs[operation], rng)]
        if operation not in ("grow", "hybridise"):
            return action
        first, second = (float(part.detach()) for part in self.shape(action))
        return _with_unit(action, float(rng.beta(first, second)))

    def mode(self) -> Action:
        """The likeliest operation, its likeliest target and the mean of its Beta; deterministic."""
        operation = self.operations[int(self.operation_logs.argmax())]
        action = self.targets[operation][int(self.target_logs[operation].argmax())]
        if operation not in ("grow", "hybridise"):
            return action
        first, second = (float(part.detach()) for part in self.shape(action))
        return _with_unit(action, first / (first + second))

    def gates(self, state: State) -> dict[str, Tensor]:
        """Gates w in (0, 1), scalars in the graph: how far each module stays, by id, and each birth comes, by name.

        A gate is above one half where the operation is likelier than ``noop``; the best target has the operation's own
        odds, others less. A module that may not be pruned has the gate 1.
        """
        odds = dict(zip(self.operations, self.operation_logs - self.operation_logs[0], strict=True))
        assert self.operations[0] == "noop"
        gates = {module.id: torch.ones(()) for module in state.modules}
        for operation in self.operations:
            logs = self.target_logs[operation]
            wanted = odds[operation] + logs - logs.detach().amax()
            for action, each in zip(self.targets[operation], wanted, strict=True):
                if operation == "prune":
                    gates[action.modules[0]] = (-each).sigmoid()
                elif operation in BIRTHS:
                    gates[gate_name(action)] = each.sigmoid()
        return gates

    def _discrete(self, action: Action) -> Tensor:
        targets = self.targets[action.operation]
        place = next(place for place, target in enumerate(targets) if same_target(action, target))
        logs: Tensor = self.operation_logs[self.operations.index(action.operation)]
        return logs + self.target_logs[action.operation][place]


def gate_name(action: Action) -> str:
    """Name of a birth's gate: ``grow:ID``, ``spawn:FAMILY`` or ``hybridise:FRAME+DONOR``."""
    return f"{action.operation}:{action.archetype or '+'.join(action.modules)}"


def _entropy(logs: Tensor) -> Tensor:
    return -(logs.exp() * logs).sum()


def _beta_log(first: Tensor, second: Tensor, unit: float) -> Tensor:
    """Logarithm of the density of Beta(first, second) at a number in (0, 1)."""
    norm = first.lgamma() + second.lgamma() - (first + second).lgamma()
    return (first - 1) * math.log(unit) + (second - 1) * math.log1p(-unit) - norm


def _draw(logs: Tensor, rng: np.random.Generator) -> int:
    chances = np.exp(logs.detach().double().numpy())
    return int(rng.choice(len(chances), p=chances / chances.sum()))


def _unit(action: Action) -> float:
    """The mix, or the logarithm of the scale, in (0, 1)."""
    unit = action.mix if action.operation == "hybridise" else (math.log(max(action.scale, 1e-9), SPREAD) + 1) / 2
    return min(max(unit, EDGE), 1 - EDGE)


def _with_unit(action: Action, unit: float) -> Action:
    unit = min(max(unit, EDGE), 1 - EDGE)
    if action.operation == "hybridise":
        return action.model_copy(update={"mix": unit})
    return action.model_copy(update={"scale": SPREAD ** (2 * unit - 1)})
