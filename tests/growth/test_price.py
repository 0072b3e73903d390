"""FLOPs cost the steps that they take, and steps what the curve so far says that they are worth."""

from __future__ import annotations

import math

import pytest

from evodevo.growth.growable import TaskSizes
from evodevo.growth.price import price, rise, taken_steps
from evodevo.growth.spec import FitnessSettings
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.testing.networks import CLASS
from fixtures.small_zoo import INPUTS

TASK = TaskSizes(INPUTS, (CLASS,))
SETTINGS = FitnessSettings()


def zoo(count: int) -> GrowableZoo:
    return GrowableZoo.of(
        ZooStructure(width=16, modules=start_zoo(16)[:count], router=ZooRouterStructure(heads=2, top_k=2))
    )


@pytest.mark.parametrize("count", [2, 4])
def test_a_module_takes_the_steps_that_fit_the_budget_without_it(count: int) -> None:
    structure, budget = zoo(count), 1e12
    steps = budget / structure.prices(TASK, SETTINGS).forward
    taken = taken_steps(structure, TASK, SETTINGS)
    assert list(taken) == [module.id for module in structure.modules]
    for name, share in taken.items():
        others = structure.with_modules(tuple(module for module in structure.modules if module.id != name))
        without = budget / others.prices(TASK, SETTINGS).forward
        assert steps == pytest.approx((1 - share) * without)
        assert 0 < share < 1


def test_a_module_that_is_alone_takes_nothing() -> None:
    assert list(taken_steps(zoo(1), TASK, SETTINGS).values()) == [0.0]


def test_the_price_of_a_birth_is_the_metric_at_the_end_with_and_without_it() -> None:
    """On a curve that rises by the logarithm of the steps, the price is exactly what the end loses."""
    value, beta, share, before, after = 0.4, 0.1, 0.3, 4.0, 5.0

    def metric(steps: float) -> float:
        return value + beta * math.log(steps / share)

    assert rise([0.15, share], [metric(0.15), metric(share)]) == pytest.approx(beta)
    end = share + (1 - share) * before / after  # in steps of the network before
    assert price(beta, share, before, after) == pytest.approx(metric(1.0) - metric(end))
    assert price(beta, share, before, before) == 0
    earlier, later = (price(beta, at, before, after) for at in (0.2, 0.8))
    assert earlier > later > 0, "what is left to lose falls"
    smaller = share + (1 - share) * after / before
    assert price(beta, share, after, before) == pytest.approx(metric(1.0) - metric(smaller))
    assert price(beta, share, after, before) < 0, "a pruning earns"


def test_a_curve_that_falls_prices_nothing_and_one_point_is_no_curve() -> None:
    assert rise([0.2, 0.4], [0.5, 0.3]) == 0
    assert price(0.0, 0.3, 1.0, 9.0) == 0
    assert rise([0.2], [0.5]) is None
    assert rise([0.0, 0.4], [0.5, 0.6]) is None, "ln 0"
    assert rise([0.4], [0.3, 0.5]) is None, "a record of before has no shares"
