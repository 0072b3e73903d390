"""Base of strategists with a policy: the policy, its optimiser, the memory of edits, and their storage.

Source: docs/spec/architect_thyself.md#edit-memory.

Two ways to learn beside rewards: weighted behaviour cloning of earlier edits that were better than the mean, and
truncated meta-gradients (98), the gradient of the loss after a few steps of training by the policy's gates. The steps
are plain SGD: the second derivative of Adam's square root at 0 is not a number. Nothing of the graph outlives the call,
and no ``.grad`` of the network is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from evodevo import randomness
from evodevo.errors import UsageError
from evodevo.growth.edit_spec import Action
from evodevo.growth.strategists.base import Strategist, StrategistState, Unroll
from evodevo.growth.strategists.choice import PolicyOutput
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.heuristic import prior
from evodevo.growth.strategists.policy import Policy
from evodevo.growth.strategists.spec import MemorySettings, StrategistSettings
from evodevo.growth.strategists.state import Legal, State
from evodevo.growth.strategists.transition import Decision
from evodevo.module_zoo.modules.families import ARCHETYPES
from evodevo.settings import Settings, validate

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


class Learnt(Settings):
    """The plain half of a policy's state.

    Attributes:
        strategist: Name of the strategist.
        archetypes: Families of its policy's spawn head.
        lean: Shifts of logits from the memory of edits.
        multiplier: Multiplier of the Lagrangian, at least 0.
    """

    strategist: str
    archetypes: tuple[str, ...]
    lean: dict[str, float]
    multiplier: float


class LearnedStrategist(Strategist):
    """A policy on top of the heuristic; subclasses define how it learns."""

    learns = True
    hands_on = True

    def __init__(self, settings: StrategistSettings, *, actions: int = 3, seed: int = 0) -> None:
        super().__init__(settings, actions=actions, seed=seed)
        generator = torch.Generator().manual_seed(randomness.integer_seed(seed, "strategist"))
        with torch.random.fork_rng(devices=[]):  # layers draw weights of their own, which are replaced
            self.policy = Policy(settings.learning.width, ARCHETYPES.names(), generator)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=self._rate())
        self.lean: dict[str, float] = {}
        self.multiplier = 0.0

    def choice(self, state: State, legal: Legal) -> PolicyOutput:
        """The policy's distribution, in the graph of its weights."""
        given = prior(state, legal, self.settings.heuristic)
        return cast(PolicyOutput, self.policy(state, legal, given, self.lean))

    def _choose(self, state: State, legal: Legal, rng: np.random.Generator) -> Decision:
        with torch.no_grad():
            choice = self.choice(state, legal)
            action = self._pick(choice, rng)
            chance = float(choice.log_probability(action))
        other = prior(state, legal, self.settings.heuristic).action
        return Decision(legal=legal, action=action, log_probability=chance, prior=other)

    def _pick(self, choice: PolicyOutput, rng: np.random.Generator) -> Action:
        return choice.sample(rng)

    def _rate(self) -> float:
        return self.settings.learning.rate

    def _step(self, gradients: Sequence[Tensor | None]) -> None:
        """One step of Adam; a gradient that is not finite changes nothing."""
        parameters = list(self.policy.parameters())
        if all(gradient is None or bool(gradient.isfinite().all()) for gradient in gradients):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = None if gradient is None else gradient.detach()
            nn.utils.clip_grad_norm_(parameters, self.settings.learning.norm)
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _descend(self, state: State, legal: Legal, unroll: Unroll) -> float:
        """One step down the outer loss after a few inner ones (98)."""
        settings = self.settings.meta
        gates = self.choice(state, legal).gates(state)
        loss, gradients = outer_gradient(
            unroll, gates, list(self.policy.parameters()), steps=settings.steps, rate=settings.step_rate
        )
        self._step(gradients)
        return loss

    def remember(self, memory: EditMemory) -> int:
        """Shift the prior towards what was rewarded, then imitate it."""
        self.lean = memory.lean(self.settings.memory)
        return imitate(self.policy, self.choice, memory, self.settings.memory)

    def state_dict(self) -> StrategistState:
        """The policy, Adam's moments by the name of their parameter, the memory's shifts, and the multiplier."""
        tensors = {f"policy.{name}": tensor.detach().clone() for name, tensor in self.policy.state_dict().items()}
        for name, parameter in self.policy.named_parameters():
            for moment, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{moment}.{name}"] = value.detach().clone()
        learnt = Learnt(
            strategist=self.name, archetypes=self.policy.archetypes, lean=self.lean, multiplier=self.multiplier
        )
        return StrategistState(tensors, learnt.model_dump(mode="json"))

    def load_state_dict(self, snapshot: StrategistState) -> None:
        """Restore a snapshot; nothing changes where it does not fit.

        Raises:
            UsageError: Another strategist, other families, or tensors of other names or shapes, or with numbers that
                no weight and no moment of Adam can have.
        """
        learnt = validate(Learnt, dict(snapshot.data), what=f"what the strategist {self.name!r} had learnt")
        if (learnt.strategist, learnt.archetypes) != (self.name, self.policy.archetypes):
            raise UsageError(
                f"what was learnt belongs to the strategist {learnt.strategist!r} of the families "
                f"{', '.join(learnt.archetypes)}; this one is {self.name!r} of {', '.join(self.policy.archetypes)}."
            )
        weights = {f"policy.{name}": tensor for name, tensor in self.policy.state_dict().items()}
        shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        state: dict[nn.Parameter, dict[str, Tensor]] = {}
        for name, parameter in self.policy.named_parameters():
            keys = {moment: f"optimizer.{moment}.{name}" for moment in _MOMENTS}
            if any(key in snapshot.tensors for key in keys.values()):
                shapes |= {key: () if moment == "step" else tuple(parameter.shape) for moment, key in keys.items()}
                state[parameter] = {
                    moment: snapshot.tensors[key].clone() for moment, key in keys.items() if key in snapshot.tensors
                }
        given = {name: tuple(tensor.shape) for name, tensor in snapshot.tensors.items()}
        if given != shapes:
            wrong = sorted(name for name in given.keys() | shapes.keys() if given.get(name) != shapes.get(name))
            raise UsageError(
                f"what the strategist {self.name!r} had learnt does not fit its policy: {', '.join(wrong[:5])}."
            )
        wrong = sorted(name for name, tensor in snapshot.tensors.items() if not _is_sound(name, tensor))
        if wrong:
            raise UsageError(
                f"what the strategist {self.name!r} had learnt is damaged: {', '.join(wrong[:5])} cannot be a weight "
                "or a moment of Adam."
            )
        self.policy.load_state_dict({name: snapshot.tensors[f"policy.{name}"] for name in self.policy.state_dict()})
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=self._rate())
        self.optimizer.state.update(cast(Any, state))
        self.lean, self.multiplier = dict(learnt.lean), learnt.multiplier


def _is_sound(name: str, tensor: Tensor) -> bool:
    """Whether a tensor can be a weight or a moment: finite, float32, and no mean of squares or count below 0."""
    squares = name.startswith(("optimizer.exp_avg_sq.", "optimizer.step."))
    return (
        tensor.dtype == torch.float32 and bool(tensor.isfinite().all()) and not (squares and bool((tensor < 0).any()))
    )


def imitate(
    policy: Policy, choose: Callable[[State, Legal], PolicyOutput], memory: EditMemory, settings: MemorySettings
) -> int:
    """Raise sum_i w_i log pi(a_i | S_i) over the best edits, where w is the advantage of an edit.

    Args:
        policy: Policy, trained in place.
        choose: Returns its distribution.
        memory: Earlier edits.
        settings: Number of epochs, learning rate, number of edits.

    Returns:
        The number of edits that were imitated.
    """
    advantages = zip(memory.advantages(settings.doubt), memory.edits, strict=True)
    weighted = [(weight, edit) for advantage, edit in advantages if (weight := max(advantage, 0.0))]
    # A stable sort: of equal ones the older stay first.
    best = sorted(weighted, key=lambda pair: -pair[0])[: settings.most]
    if not best or not settings.epochs:
        return 0
    optimizer = torch.optim.Adam(policy.parameters(), lr=settings.rate)
    total = sum(weight for weight, _ in best)
    for _ in range(settings.epochs):
        optimizer.zero_grad(set_to_none=True)
        for weight, edit in best:
            loss = -weight / total * choose(edit.state, edit.legal).log_probability(edit.action)
            torch.autograd.backward(loss)
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return len(best)


def unrolled_loss(unroll: Unroll, gates: Mapping[str, Tensor], *, steps: int, rate: float) -> Tensor:
    """L_outer(theta_K, w), theta_{k+1} = theta_k - rate * dL_inner(theta_k, w) / dtheta; still in the graph of w.

    Args:
        unroll: Loss functions of the network.
        gates: Gates w, by name.
        steps: Number of steps, K.
        rate: Learning rate of each step.

    Returns:
        The loss, a scalar.
    """
    gates = dict(gates)
    parameters = {name: parameter.detach().requires_grad_() for name, parameter in unroll.parameters.items()}
    for _ in range(steps):
        loss = unroll.inner_loss(parameters, gates)
        slopes = torch.autograd.grad(loss, list(parameters.values()), create_graph=True, allow_unused=True)
        parameters = {
            name: parameter if slope is None else parameter - rate * slope
            for (name, parameter), slope in zip(parameters.items(), slopes, strict=True)
        }
    return unroll.outer_loss(parameters, gates)


def outer_gradient(
    unroll: Unroll, gates: Mapping[str, Tensor], learnt: Sequence[Tensor], *, steps: int, rate: float
) -> tuple[float, tuple[Tensor | None, ...]]:
    """The unrolled loss and its gradient by the parameters behind the gates (None where one plays no part).

    Args:
        unroll: Loss functions of the network.
        gates: Gates w, in the graph of ``learnt``.
        learnt: Parameters phi of the policy.
        steps: Number of steps, K.
        rate: Learning rate of each step.
    """
    loss = unrolled_loss(unroll, gates, steps=steps, rate=rate)
    if not loss.requires_grad:  # the network reads no gate
        return float(loss), (None,) * len(learnt)
    return float(loss.detach()), torch.autograd.grad(loss, list(learnt), allow_unused=True)
