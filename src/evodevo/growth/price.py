"""What FLOPs cost where the budget is in FLOPs: steps of the training that they take from it.

With R FLOPs left and f FLOPs of a training sample, R / (n f) steps of n samples follow. A module of f_m FLOPs takes the
share f_m / f of those that there were without it, R / (n (f - f_m)): as much as its birth took from the rest.

What the steps are worth follows from the curve so far. With value v at the share s of the budget, v' at s' before it,

    v(t) = v + beta ln(t / s),   beta = max(0, (v - v') / ln(s / s')),

a rise that slows down as trainings do. Where FLOPs change from f to g at s, the rest of the training has f / g of its
steps: it ends as if at 1 - (1 - s) phi with phi = 1 - f / g, and a birth costs

    -beta ln(1 - (1 - s) phi),

in the unit of the metric; a pruning earns what is left of the same formula below 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from evodevo.growth.growable import Growable, TaskSizes
from evodevo.growth.spec import FitnessSettings


def taken_steps(structure: Growable, task: TaskSizes, settings: FitnessSettings) -> dict[str, float]:
    """Id -> share of the remaining steps that the module takes, f_m / f; 0 for a module that is alone."""
    live = [module.id for module in structure.live]
    if len(live) < 2:
        return dict.fromkeys(live, 0.0)
    whole = structure.prices(task, settings).forward

    def without(name: str) -> float:
        others = structure.with_modules(tuple(module for module in structure.modules if module.id != name))
        return others.prices(task, settings).forward

    return {name: max(0.0, 1.0 - without(name) / whole) for name in live}


def rise(shares: Sequence[float], values: Sequence[float]) -> float | None:
    """beta, from the last two values of the metric and the shares of the budget at them; None where there are fewer."""
    if len(values) < 2 or len(shares) < 2 or not 0 < shares[-2] < shares[-1]:
        return None
    return max(0.0, (values[-1] - values[-2]) / math.log(shares[-1] / shares[-2]))


def price(beta: float, share: float, before: float, after: float) -> float:
    """What a change of the FLOPs of a sample costs, in the unit of the metric; below 0 where fewer are left.

    Args:
        beta: Rise of the metric, see ``rise``.
        share: Share of the budget that is used up, 0 to 1.
        before, after: FLOPs of a sample.
    """
    return -beta * math.log(1.0 - (1.0 - share) * (1.0 - before / after))
