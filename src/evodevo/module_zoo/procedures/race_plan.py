"""The plan of a race: which networks can be trained, in how many rungs, at what cost each; no torch here.

A heat is a successive halving (Jamieson & Talwalkar 2016): in a rung all networks cost the same, so that a cheap one
makes more steps, as it does in the training that follows, and the better half goes on to the next rung. A cost and a
budget are in one unit, FLOPs or steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 2
"""Networks that are left after a rung, where there are as many."""


@dataclass(frozen=True)
class Heat:
    """One successive halving.

    Attributes:
        arms: Places of the networks that take part, in their given order.
        rungs: Number of rungs, at least 1.
        amount: Cost of each network in a rung, its judgement included.
    """

    arms: tuple[int, ...]
    rungs: int
    amount: float


def steps_for(amount: float, cost: float, judging: float) -> int:
    """Steps of a network in a rung.

    Args:
        amount: Cost of the rung.
        cost: Cost of a step of this network.
        judging: Cost of judging it, in steps of its own.
    """
    return max(0, math.floor(amount / cost - judging))


def left_after(count: int) -> int:
    """Number of networks that go on after a rung of so many."""
    return min(count, max(FEWEST, math.ceil(count / 2)))


def entries(count: int, rungs: int) -> int:
    """Number of trainings in a heat that begins with so many networks."""
    total = 0
    for _ in range(rungs):
        total += count
        count = left_after(count)
    return total


def plan_first(costs: Sequence[float], budget: float, least: int, judging: float) -> Heat | None:
    """As many networks, then as many rungs, as leave each at least ``least`` steps in a rung; the dearest are left out.

    Args:
        costs: Cost of a step of each network, above 0.
        budget: What the heat may cost.
        least: Fewest steps in a rung.
        judging: Cost of judging a network once, in steps of its own.

    Returns:
        The heat; None where there is not even room for two networks.
    """
    order = sorted(range(len(costs)), key=lambda place: costs[place])
    for count in range(len(costs), 1, -1):
        arms = tuple(sorted(order[:count]))
        dearest = max(costs[place] for place in arms)
        for rungs in range(max(1, math.ceil(math.log2(count))), 0, -1):
            amount = budget / entries(count, rungs)
            if steps_for(amount, dearest, judging) >= least:
                return Heat(arms, rungs, amount)
    return None


def plan_second(costs: Sequence[float], budget: float, first: Heat, least: int, judging: float) -> Heat | None:
    """As many networks as there is room for in rungs as those of the first heat; the last ones are left out.

    So that the result can be compared with that of the first heat. Arguments as for ``plan_first``.

    Returns:
        The heat; None where there is room for none.
    """
    able = [place for place, cost in enumerate(costs) if steps_for(first.amount, cost, judging) >= least]
    for count in range(len(able), 0, -1):
        if first.amount * entries(count, first.rungs) <= budget:
            return Heat(tuple(able[:count]), first.rungs, first.amount)
    return None


def survivors(losses: Sequence[float | None], keep: int) -> list[int]:
    """Places of the networks that go on: those of the lowest loss, in their given order; none without a loss."""
    known = [(loss, place) for place, loss in enumerate(losses) if loss is not None]
    return sorted(place for _, place in sorted(known)[:keep])
