"""Chance decides: the opponent that a policy must beat (docs/spec/architect_thyself.md#strategists)."""

from __future__ import annotations

import math

import numpy as np

from evodevo.growth.strategists.base import Decision, Strategist
from evodevo.growth.strategists.state import SPREAD, Legal, State


class Random(Strategist):
    """Uniform over legal operations, then over their targets; mix uniform, scale uniform in its logarithm."""

    name = "random"

    def _choose(self, state: State, legal: Legal, rng: np.random.Generator) -> Decision:
        operations = legal.operations
        targets = legal.targets(operations[int(rng.integers(len(operations)))])
        action = targets[int(rng.integers(len(targets)))]
        if action.operation == "hybridise":
            action = action.model_copy(update={"mix": float(rng.random())})
        if action.operation == "grow":
            action = action.model_copy(update={"scale": SPREAD ** float(rng.uniform(-1, 1))})
        chance = -math.log(len(operations)) - math.log(len(targets))
        return Decision(legal=legal, action=action, log_probability=chance)
