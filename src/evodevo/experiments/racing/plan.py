"""The plan of a race: which networks can be trained, in how many rungs, at what cost each; no torch here.

A heat is a successive halving (Jamieson & Talwalkar 2016): in a rung all networks cost the same, so that a cheap one
makes more steps, as it does in the training that follows, and the better half goes on to the next rung. A cost and a
budget are in one unit, FLOPs or steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

HORIZON = 8.0
"""How many times longer a training is thought to last where its trend decides; not longer, for slopes fall, too."""

Score = TypeVar("Score", float, tuple[float, float])

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


def expected_loss(looks: Sequence[tuple[float, float]], total: float) -> float:
    """The loss to which a training leads that goes on to ``HORIZON`` times its length, or to its end.

    By a straight line in the logarithm of the length, through the last look and the one whose length is nearest to half
    of that (by their ratio). What rises is expected to stay, and no loss falls below 0: this is for comparison, not for
    prediction.

    Args:
        looks: (length so far, loss), lengths above 0 and rising; at least one.
        total: Length in the end, in the unit of the looks.
    """
    length, loss = looks[-1]
    if len(looks) == 1:
        return loss
    earlier, before = min(looks[:-1], key=lambda look: abs(math.log(2 * look[0] / length)))
    slope = min(0.0, (loss - before) / math.log(length / earlier))
    return max(0.0, loss + slope * math.log(min(HORIZON, max(total / length, 1.0))))


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


def ranked(scores: Sequence[Score | None]) -> list[int]:
    """Places by score, the lowest first, of equal ones in their given order; those without a score are left out."""
    known = [(score, place) for place, score in enumerate(scores) if score is not None]
    return [place for _, place in sorted(known)]


def survivors(scores: Sequence[Score | None], keep: int) -> list[int]:
    """Places of the networks that go on: those of the lowest score, in their given order; none without a score."""
    return sorted(ranked(scores)[:keep])
