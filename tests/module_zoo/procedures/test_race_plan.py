"""Plans of races: within their budget, no rung too short, as many networks as there is room for."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from evodevo.module_zoo.procedures.race_plan import plan_heat, survivors

COSTS = st.lists(st.floats(0.5, 8), min_size=2, max_size=12)
LOSSES = st.lists(st.none() | st.floats(0, 10), min_size=1, max_size=12)


@given(COSTS, st.floats(1, 5000), st.integers(1, 40), st.floats(0, 5), st.booleans())
def test_a_heat_keeps_its_budget_and_no_network_has_too_few_steps(
    costs: list[float], budget: float, least: int, judging: float, by_cost: bool
) -> None:
    heat = plan_heat(costs, budget, least, judging, by_cost=by_cost)
    if heat is None:
        cheapest = sorted(costs)[:2] if by_cost else costs[:2]
        assert math.fsum(cheapest) * (least + judging) > budget * (1 - 1e-9), "not even two fit"
        return
    spent, arms = 0.0, list(heat.arms)
    for _ in range(heat.rungs):
        steps = heat.steps([costs[place] for place in arms], judging)
        assert steps >= least
        spent += math.fsum(costs[place] for place in arms) * (steps + judging)
        # The dearest half goes on, which is the worst for the budget.
        arms = sorted(sorted(arms, key=lambda place: -costs[place])[: max(2, math.ceil(len(arms) / 2))])
    assert spent <= budget * (1 + 1e-9)


@given(COSTS, st.floats(1, 5000), st.integers(1, 40), st.booleans())
def test_those_without_room_are_the_dearest_or_the_last_and_one_more_would_not_fit(
    costs: list[float], budget: float, least: int, by_cost: bool
) -> None:
    heat = plan_heat(costs, budget, least, 0.0, by_cost=by_cost)
    if heat is None or len(heat.arms) == len(costs):
        return
    out = [place for place in range(len(costs)) if place not in heat.arms]
    if by_cost:
        assert max(costs[place] for place in heat.arms) <= min(costs[place] for place in out)
        more = math.fsum(costs[place] for place in heat.arms) + min(costs[place] for place in out)
    else:
        assert heat.arms == tuple(range(len(heat.arms)))
        more = math.fsum(costs[: len(heat.arms) + 1])
    assert more * least > budget * (1 - 1e-9)


def test_ample_budgets_halve_to_the_end_and_small_ones_less_often() -> None:
    costs = [1.0] * 8
    assert plan_heat(costs, 720, 30, 0.0, by_cost=True) == plan_heat(costs, 720, 30, 0.0, by_cost=False)
    assert [plan_heat(costs, budget, 30, 0.0, by_cost=True).rungs for budget in (240, 480, 720)] == [1, 2, 3]  # type: ignore[union-attr]
    assert len(plan_heat(costs, 239, 30, 0.0, by_cost=True).arms) == 7  # type: ignore[union-attr]
    assert plan_heat(costs, 59, 30, 0.0, by_cost=True) is None


@given(LOSSES, st.integers(1, 12))
def test_those_with_the_lowest_loss_go_on_in_their_order(losses: list[float | None], keep: int) -> None:
    left = survivors(losses, keep)
    assert left == sorted(left)
    known = sorted(loss for loss in losses if loss is not None)
    assert sorted(losses[place] for place in left) == known[:keep]  # type: ignore[type-var]
