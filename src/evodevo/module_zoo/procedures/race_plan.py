"""The plan of a race: how many networks of what cost can be trained, in how many rungs, for how long; no torch here.

A heat is a successive halving (Jamieson & Talwalkar 2016): all train for as many steps in a rung, the better half goes
on to the next one, and every rung costs about as much. A cost and a budget are in one unit, FLOPs or steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Heat:
    """One successive halving.

    Attributes:
        arms: Places of the networks that take part, in their given order.
        rungs: Number of rungs, at least 1.
        budget: What the whole heat may cost.
    """

    arms: tuple[int, ...]
    rungs: int
    budget: float

    def steps(self, costs: Sequence[float], judging: float) -> int:
        """Steps of each network in a rung.

        Args:
            costs: Cost of a step of each network in this rung.
            judging: Cost of judging a network, in training steps of it.
        """
        return max(0, math.floor(self.budget / self.rungs / math.fsum(costs) - judging))


def plan_heat(costs: Sequence[float], budget: float, least: int, judging: float, *, by_cost: bool) -> Heat | None:
    """As many networks as leave each at least ``least`` steps in the first rung, then as many rungs as do.

    Args:
        costs: Cost of a step of each network, above 0.
        budget: What the heat may cost.
        least: Fewest steps in a rung.
        judging: Cost of judging a network once, in training steps of it.
        by_cost: Whether the dearest are left out first; else the last ones.

    Returns:
        The heat; None where not even two networks leave each as many steps.
    """
    places = range(len(costs))
    order = sorted(places, key=lambda place: costs[place]) if by_cost else list(places)
    for count in range(len(costs), 1, -1):
        arms = tuple(sorted(order[:count]))
        for rungs in range(max(1, math.ceil(math.log2(count))), 0, -1):
            heat = Heat(arms, rungs, budget)
            if heat.steps([costs[place] for place in arms], judging) >= least:
                return heat
    return None


def survivors(losses: Sequence[float | None], keep: int) -> list[int]:
    """Places of the networks that go on: those of the lowest loss, in their given order; none without a loss."""
    known = [(loss, place) for place, loss in enumerate(losses) if loss is not None]
    return sorted(place for _, place in sorted(known)[:keep])
