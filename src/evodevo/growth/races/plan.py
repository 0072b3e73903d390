"""Plan of a race of several networks from one moment of a training; no torch here."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evodevo.experiments.racing.plan import Heat, entries


def plan_race(steps: Sequence[float], judgements: Sequence[float], allowed: float, least: int) -> Heat | None:
    """As many rungs as leave each network at least ``least`` steps in a rung.

    Args:
        steps: FLOPs of a training step of each network, at least two; above 0.
        judgements: FLOPs of judging each once.
        allowed: FLOPs of the whole race.
        least: Fewest steps in a rung.

    Returns:
        The heat; None where there is not even room for one rung.
    """
    count = len(steps)
    dearest = max(least * step + judgement for step, judgement in zip(steps, judgements, strict=True))
    for rungs in range(math.ceil(math.log2(count)), 0, -1):
        amount = allowed / entries(count, rungs)
        if amount >= dearest:
            return Heat(tuple(range(count)), rungs, amount)
    return None
