"""The plan of a race in a given time: which networks begin, in how many rungs, for how long each; no torch here.

Successive halving (Jamieson & Talwalkar 2016): in a rung all networks get the same time, and the better half goes on.
A cost and a budget are in one unit, seconds or steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evodevo.experiments.racing.plan import entries, steps_for

LEAST = 30
"""Fewest steps of a network in a rung."""


@dataclass(frozen=True)
class TimedRace:
    """Successive halving.

    Attributes:
        arms: Places of the networks that begin, in their given order.
        rungs: Number of rungs, at least 1.
        amount: What each network may use in a rung, its judgement included.
    """

    arms: tuple[int, ...]
    rungs: int
    amount: float


def plan_timed(costs: Sequence[float], judging: Sequence[float], budget: float) -> TimedRace:
    """As many networks, then as many rungs, as leave each at least ``LEAST`` steps in a rung.

    Those for which a rung is too short are left out first, then the last ones; the cheapest is never left out.

    Args:
        costs: Cost of a step of each network, above 0, the more promising network first.
        judging: Cost of judging each once.
        budget: What the race may cost.
    """
    for count in range(len(costs), 1, -1):
        for rungs in range(max(1, math.ceil(math.log2(count)) - 1), 0, -1):
            amount = budget / entries(count, rungs)
            able = [
                place for place, cost in enumerate(costs) if steps_for(amount, cost, judging[place] / cost) >= LEAST
            ]
            if len(able) >= count:
                return TimedRace(tuple(able[:count]), rungs, amount)
    cheapest = min(range(len(costs)), key=lambda place: costs[place])
    return TimedRace((cheapest,), 1, budget)
