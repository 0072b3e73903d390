"""The plan of a race in a given time."""

from __future__ import annotations

import pytest

from evodevo.estimators.automatic.networks.plan import LEAST, TimedRace, plan_timed
from evodevo.experiments.racing.plan import entries


@pytest.mark.parametrize("budget", [50, 200, 1000, 5000, 100_000])
@pytest.mark.parametrize("costs", [[1.0] * 10, [1.0, 9.0, 2.0, 3.0], [5.0, 1.0]])
def test_a_plan_keeps_to_the_budget_and_every_network_has_its_steps(costs: list[float], budget: float) -> None:
    plan = plan_timed(costs, [2.0] * len(costs), budget)
    assert plan.amount * entries(len(plan.arms), plan.rungs) <= budget * (1 + 1e-9)
    if len(plan.arms) > 1:
        assert all((plan.amount - 2) / costs[place] >= LEAST for place in plan.arms)


def test_more_time_lets_more_networks_begin() -> None:
    counts = [len(plan_timed([1.0] * 8, [0.0] * 8, budget).arms) for budget in (40, 100, 200, 500)]
    assert counts == [1, 3, 6, 8]


def test_the_dearest_is_left_out_before_the_last() -> None:
    assert plan_timed([1.0, 50.0, 1.0], [0.0] * 3, 100.0).arms == (0, 2)
    assert plan_timed([1.0, 1.0, 1.0], [0.0] * 3, 70.0).arms == (0, 1)


def test_without_time_the_cheapest_is_trained() -> None:
    assert plan_timed([9.0, 3.0, 4.0], [0.0] * 3, 1.0) == TimedRace((1,), 1, 1.0)
