"""The contract of a strategist: it decides at each event, and learns later from the reward.

A strategist is called at an event (``decide``) and after the horizon (``update``). What it has learnt is in
``state_dict`` as tensors and plain data, so that an interrupted run goes on identically. All draws come from the
generator that it is given; none from global state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from evodevo.errors import UsageError
from evodevo.growth.edit_spec import Action
from evodevo.growth.strategists.spec import StrategistSettings
from evodevo.growth.strategists.state import Legal, State
from evodevo.growth.strategists.transition import Decision, Transition
from evodevo.registry import Registry, table

if TYPE_CHECKING:
    from torch import Tensor

    from evodevo.growth.strategists.edit_memory import EditMemory

STRATEGISTS: Registry[type[Strategist]] = table("strategist", "evodevo.strategists")


@dataclass(frozen=True)
class StrategistState:
    """All that a strategist has learnt: tensors by name, and plain JSON data."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)


Loss = Callable[[dict[str, "Tensor"], dict[str, "Tensor"]], "Tensor"]
"""(parameters by name, gates by name) -> a scalar; a closure over ``torch.func.functional_call`` and some samples."""


@dataclass(frozen=True)
class Unroll:
    """The functions of a network that a meta-gradient needs (98).

    Attributes:
        parameters: Parameters of router and modules, by name.
        inner_loss: Loss on training samples.
        outer_loss: Loss on samples of the ``architecture`` split.
    """

    parameters: Mapping[str, Tensor]
    inner_loss: Loss
    outer_loss: Loss


class Strategist(ABC):
    """Decides how a network changes while it trains.

    Args:
        settings: Settings of all strategists.
        actions: Largest number of sub-actions in one event.
        seed: Seed of what is drawn before the first event, such as the first weights of a policy.
    """

    name: ClassVar[str]
    learns: ClassVar[bool] = False
    """Whether ``update`` changes anything and an edit memory is of use."""
    hands_on: ClassVar[bool] = False
    """Whether a later run goes on from its ``state_dict`` (``memory_of_policy``); others learn from edits anew."""
    foresees: ClassVar[bool] = False
    """Whether it chooses by the gains that it foresees from measured ones, so that foresight can be judged."""

    def __init__(self, settings: StrategistSettings, *, actions: int = 3, seed: int = 0) -> None:
        self.settings = settings
        self.actions = actions
        self.seed = seed

    def decide(self, state: State, legal: Legal, rng: np.random.Generator) -> tuple[Decision, ...]:
        """The sub-actions of one event: each is legal after those before it; a ``noop`` is the last one.

        Args:
            state: State of the network.
            legal: Actions that are legal before the first one.
            rng: Generator keyed by the run's seed and the number of the event.
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
        """The actions of ``decide`` without the ``noop``."""
        return tuple(
            decision.action for decision in self.decide(state, legal, rng) if decision.action.operation != "noop"
        )

    @abstractmethod
    def _choose(self, state: State, legal: Legal, rng: np.random.Generator) -> Decision:
        """One sub-action."""

    def update(self, transitions: Sequence[Transition]) -> dict[str, float]:
        """Learn from events, in the order in which they came, each given once.

        Returns:
            Metrics for the log, empty where nothing is learnt.
        """
        return {}

    def wants_gradient(self, event: int) -> bool:
        """Whether ``refine`` is worth its cost at this event (from 1)."""
        return False

    def refine(self, state: State, legal: Legal, unroll: Unroll) -> float | None:
        """Learn from the gradient of the loss after a few steps of training (98).

        Returns:
            That loss; None where the strategist takes no such gradient.
        """
        return None

    def remember(self, memory: EditMemory) -> int:
        """Learn from the edits of earlier runs, before the first event.

        Returns:
            The number of edits that were learnt from.
        """
        return 0

    def state_dict(self) -> StrategistState:
        """State that has been learnt."""
        return StrategistState()

    def load_state_dict(self, snapshot: StrategistState) -> None:
        """Restore what ``state_dict`` returned.

        Raises:
            UsageError: It belongs to another strategist.
        """
        if snapshot.tensors or snapshot.data:
            raise UsageError(f"the strategist {self.name!r} learns nothing, but was given something learnt.")


def create(name: str, *, settings: StrategistSettings | None = None, actions: int = 3, seed: int = 0) -> Strategist:
    """Build the strategist of that name.

    Raises:
        UsageError: No such name.
    """
    return STRATEGISTS.get(name)(settings or StrategistSettings(), actions=actions, seed=seed)


STRATEGISTS.add("fixed", "evodevo.growth.strategists.fixed:Fixed")
STRATEGISTS.add("random", "evodevo.growth.strategists.random:Random")
STRATEGISTS.add("enlarge", "evodevo.growth.strategists.enlarge:Enlarge")
STRATEGISTS.add("heuristic", "evodevo.growth.strategists.heuristic:Heuristic")
STRATEGISTS.add("reinforce", "evodevo.growth.strategists.reinforce:Reinforce")
STRATEGISTS.add("ppo", "evodevo.growth.strategists.ppo:PPO")
STRATEGISTS.add("meta_gradient", "evodevo.growth.strategists.meta_gradient:MetaGradient")
STRATEGISTS.add("thompson", "evodevo.growth.strategists.thompson:Thompson")
STRATEGISTS.add("reinforce_meta", "evodevo.growth.strategists.reinforce_meta:ReinforceMeta")
