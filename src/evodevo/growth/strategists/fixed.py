"""The strategist that never changes anything: the baseline that growth must beat."""

from __future__ import annotations

import numpy as np

from evodevo.growth.edit_spec import Action
from evodevo.growth.strategists.base import Strategist
from evodevo.growth.strategists.state import Legal, State
from evodevo.growth.strategists.transition import Decision


class Fixed(Strategist):
    """Never acts."""

    name = "fixed"

    def _choose(self, state: State, legal: Legal, rng: np.random.Generator) -> Decision:
        return Decision(legal=legal, action=Action(operation="noop"))
