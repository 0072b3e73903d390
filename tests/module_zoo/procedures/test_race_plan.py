"""Plans of races: within their budget, no rung too short, as many networks as there is room for."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from evodevo.module_zoo.procedures.race_plan import Heat, left_after, plan_first, plan_second, steps_for, survivors

COSTS = st.lists(st.floats(0.5, 8), min_size=2, max_size=12)
BUDGET, LEAST, JUDGING = st.floats(1, 5000), st.integers(1, 40), st.floats(0, 5)
LOSSES = st.lists(st.none() | st.floats(0, 10), min_size=1, max_size=12)


def spent(heat: Heat, costs: list[float], judging: float, least: int) -> float:
    """What a heat costs where the dearest go on; that none has too few steps is checked on the way."""
    total, arms = 0.0, list(heat.arms)
    for _ in range(heat.rungs):
        for place in arms:
            steps = steps_for(heat.amount, costs[place], judging)
            assert steps >= least
            total += costs[place] * (steps + judging)
        arms = sorted(arms, key=lambda place: -costs[place])[: left_after(len(arms))]
    return total


@given(COSTS, BUDGET, LEAST, JUDGING)
def test_heats_keep_their_budget_and_no_network_has_too_few_steps(
    costs: list[float], budget: float, least: int, judging: float
) -> None:
    first = plan_first(costs, budget, least, judging)
    if first is None:
        assert 2 * sorted(costs)[1] * (least + judging) > budget * (1 - 1e-9), "not even two fit"
        return
    assert spent(first, costs, judging, least) <= budget * (1 + 1e-9)
    second = plan_second(costs[::-1], budget, first, least, judging)
    assert second is not None, "as much again, for the same networks"
    assert spent(second, costs[::-1], judging, least) <= budget * (1 + 1e-9)
    assert (second.rungs, second.amount) == (first.rungs, first.amount), "what they find can be compared"


@given(COSTS, BUDGET, LEAST)
def test_those_without_room_are_the_dearest_and_one_more_would_not_fit(
    costs: list[float], budget: float, least: int
) -> None:
    heat = plan_first(costs, budget, least, 0.0)
    if heat is None or len(heat.arms) == len(costs):
        return
    out = [costs[place] for place in range(len(costs)) if place not in heat.arms]
    assert max(costs[place] for place in heat.arms) <= min(out)
    assert (len(heat.arms) + 1) * min(out) * least > budget * (1 - 1e-9)


@given(COSTS, BUDGET, LEAST, st.floats(1, 200), st.integers(1, 3))
def test_of_the_second_heat_the_last_ones_and_the_too_dear_are_left_out(
    costs: list[float], budget: float, least: int, amount: float, rungs: int
) -> None:
    first = Heat((0, 1), rungs, amount)
    heat = plan_second(costs, budget, first, least, 0.0)
    able = [place for place, cost in enumerate(costs) if math.floor(amount / cost) >= least]
    if heat is None:
        assert not able or amount * rungs > budget
    else:
        assert list(heat.arms) == able[: len(heat.arms)]


def test_ample_budgets_halve_to_the_end_and_small_ones_less_often() -> None:
    costs = [1.0] * 8
    # 8; 8 + 4; 8 + 4 + 2 trainings of 30 steps.
    assert [plan_first(costs, 30 * trained, 30, 0.0).rungs for trained in (8, 12, 14)] == [1, 2, 3]  # type: ignore[union-attr]
    assert len(plan_first(costs, 239, 30, 0.0).arms) == 7  # type: ignore[union-attr]
    assert plan_first(costs, 59, 30, 0.0) is None


def test_at_equal_cost_a_cheap_network_makes_more_steps() -> None:
    assert [steps_for(60.0, cost, judging) for cost, judging in ((1.0, 0.0), (2.0, 0.0), (2.0, 5.0))] == [60, 30, 25]


@given(LOSSES, st.integers(1, 12))
def test_those_with_the_lowest_loss_go_on_in_their_order(losses: list[float | None], keep: int) -> None:
    left = survivors(losses, keep)
    assert left == sorted(left)
    known = sorted(loss for loss in losses if loss is not None)
    assert sorted(losses[place] for place in left) == known[:keep]  # type: ignore[type-var]
