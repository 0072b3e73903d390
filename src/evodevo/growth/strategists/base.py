"""The contract of every strategist: it looks at a zoo, decides, and hears later what it was worth.

A strategist is asked at an event (``decide``) and told after the horizon (``update``). What it has learnt is in
``state_dict`` as tensors and plain data, so that a run that was killed goes on identically. All draws come from the
generator that it is given; none from global state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from evodevo.errors import UsageError
from evodevo.growth.edit_spec import Action
from evodevo.growth.strategists.spec import StrategistSettings
from evodevo.growth.strategists.state import Legal, State, same_target
from evodevo.registry import Registry, table
from evodevo.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

    from evodevo.growth.strategists.edit_memory import EditMemory

STRATEGISTS: Registry[type[Strategist]] = table("strategist", "evodevo.strategists")


class Decision(Settings):
    """One sub-action and how it came about.

    Attributes:
        legal: what could have been done.
        action: what is done.
        log_probability: of it, at that moment; 0 for who does not draw.
        prior: what the heuristic would have done, given the same.
    """

    legal: Legal
    action: Action
    log_probability: float = 0.0
    prior: Action | None = None

    @property
    def differs(self) -> bool:
        """Whether the heuristic would have done something else, or the same to another."""
        return self.prior is not None and not same_target(self.action, self.prior)


class Transition(Settings):
    """An event and what became of it.

    Attributes:
        state: at the event.
        decisions: of it, in order, with the ``noop`` that ended them, if one did.
        reward: r_t after the horizon (82).
        cost: of the network after the event, in the unit of the target (80).
        after: the state at the next event; None at the end of a training.
    """

    state: State
    decisions: tuple[Decision, ...]
    reward: float
    cost: float = Field(default=0.0, ge=0)
    after: State | None = None


@dataclass(frozen=True)
class Snapshot:
    """All that a strategist has learnt: tensors by name, and plain JSON data."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)


Loss = Callable[[dict[str, "Tensor"], dict[str, "Tensor"]], "Tensor"]
"""(parameters by name, gates by name) -> a scalar; a closure over ``torch.func.functional_call`` and some samples."""


@dataclass(frozen=True)
class Unroll:
    """What a meta-gradient needs of a network (98).

    Attributes:
        parameters: of router and modules, by name.
        inner_loss: on training samples.
        outer_loss: on samples of the ``architecture`` split.
    """

    parameters: Mapping[str, Tensor]
    inner_loss: Loss
    outer_loss: Loss


class Strategist(ABC):
    """Decides what happens to a zoo.

    Args:
        settings: of all strategists.
        actions: sub-actions of one event at most.
        seed: of what is drawn before the first event, such as the first weights of a policy.
    """

    name: ClassVar[str]
    learns: ClassVar[bool] = False
    """Whether ``update`` changes anything, and an edit memory serves it."""

    def __init__(self, settings: StrategistSettings, *, actions: int = 3, seed: int = 0) -> None:
        self.settings = settings
        self.actions = actions
        self.seed = seed

    def decide(self, state: State, legal: Legal, rng: np.random.Generator) -> tuple[Decision, ...]:
        """The sub-actions of one event: each is legal after those before it; a ``noop`` is the last one.

        Args:
            state: the zoo.
            legal: what may be done before the first one.
            rng: keyed by the run's seed and the number of the event.
        """
        decisions: list[Decision] = []
        while len(decisions) < self.actions:
            decision = self._choose(state, legal, rng)
            assert legal.allows(decision.action), f"{self.name} chose {decision.action}, which is illegal"
            decisions.append(decision)
            if decision.action.operation == "noop":
                break
            legal = legal.after(decision.action)
        return tuple(decisions)

    def propose(self, state: State, legal: Legal, rng: np.random.Generator) -> tuple[Action, ...]:
        """What ``decide`` wants done, without the ``noop``."""
        return tuple(one.action for one in self.decide(state, legal, rng) if one.action.operation != "noop")

    @abstractmethod
    def _choose(self, state: State, legal: Legal, rng: np.random.Generator) -> Decision:
        """One sub-action."""

    def update(self, transitions: Sequence[Transition]) -> dict[str, float]:
        """Learn from events in the order in which they came, each told once.

        Returns:
            numbers for the log, none where nothing is learnt.
        """
        return {}

    def wants_gradient(self, event: int) -> bool:
        """Whether ``refine`` is worth its cost at this event (from 1)."""
        return False

    def refine(self, state: State, legal: Legal, unroll: Unroll) -> float | None:
        """Learn from the gradient of the loss after a few steps of training (98).

        Returns:
            that loss; None where the strategist takes no such gradient.
        """
        return None

    def remember(self, memory: EditMemory) -> int:
        """Begin with what earlier runs have found, before the first event.

        Returns:
            how many edits were learnt from.
        """
        return 0

    def state_dict(self) -> Snapshot:
        """What has been learnt."""
        return Snapshot()

    def load_state_dict(self, snapshot: Snapshot) -> None:
        """Go on from there.

        Raises:
            UsageError: it is not of this strategist.
        """
        if snapshot.tensors or snapshot.data:
            raise UsageError(f"the strategist {self.name!r} learns nothing, but was given something learnt.")


def create(name: str, *, settings: StrategistSettings | None = None, actions: int = 3, seed: int = 0) -> Strategist:
    """The strategist of that name.

    Raises:
        UsageError: no such name.
    """
    return STRATEGISTS.get(name)(settings or StrategistSettings(), actions=actions, seed=seed)


STRATEGISTS.add("fixed", "evodevo.growth.strategists.fixed:Fixed")
STRATEGISTS.add("random", "evodevo.growth.strategists.random:Random")
STRATEGISTS.add("heuristic", "evodevo.growth.strategists.heuristic:Heuristic")
STRATEGISTS.add("reinforce", "evodevo.growth.strategists.reinforce:Reinforce")
STRATEGISTS.add("ppo", "evodevo.growth.strategists.ppo:PPO")
STRATEGISTS.add("meta_gradient", "evodevo.growth.strategists.meta_gradient:MetaGradient")
STRATEGISTS.add("reinforce_meta", "evodevo.growth.strategists.reinforce_meta:ReinforceMeta")
