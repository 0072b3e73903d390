"""The strategist of a plan: at each event every module is enlarged in place."""

from __future__ import annotations

import numpy as np

from evodevo.growth.strategists.base import Strategist
from evodevo.growth.strategists.state import Legal, State
from evodevo.growth.strategists.transition import Decision


class Enlarge(Strategist):
    """Enlarges each module once at an event, the fittest first, by the first open edit in place that it admits.

    Nothing is born and nothing is pruned: how large the network is when follows from the settings alone, as long as
    ``events.actions`` is not smaller than the number of modules.
    """

    name = "enlarge"

    def _choose(self, state: State, legal: Legal, rng: np.random.Generator) -> Decision:
        fitness = {module.id: module.fitness for module in state.modules}
        for operation, _ in legal.in_place:
            targets = legal.targets(operation)
            if targets:
                first = min(targets, key=lambda action: (-fitness[action.modules[0]], action.modules))
                return Decision(legal=legal, action=first)
        return Decision(legal=legal, action=legal.targets("noop")[0])
