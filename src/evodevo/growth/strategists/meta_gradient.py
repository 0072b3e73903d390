"""The strategist that learns only from gradients through training (98)."""

from __future__ import annotations

import numpy as np

from evodevo.growth.edit_spec import Action
from evodevo.growth.strategists.base import Unroll
from evodevo.growth.strategists.choice import PolicyOutput
from evodevo.growth.strategists.learned import LearnedStrategist
from evodevo.growth.strategists.state import Legal, State


class MetaGradient(LearnedStrategist):
    """Takes the likeliest operation on its likeliest target; rewards do not change it.

    Only what is soft has a gradient: how far a module stays, and how far a newborn comes.
    """

    name = "meta_gradient"

    def _pick(self, choice: PolicyOutput, rng: np.random.Generator) -> Action:
        return choice.mode()

    def _rate(self) -> float:
        return self.settings.meta.rate

    def wants_gradient(self, event: int) -> bool:
        return True

    def refine(self, state: State, legal: Legal, unroll: Unroll) -> float:
        return self._descend(state, legal, unroll)
