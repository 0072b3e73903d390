"""Shares of a budget: never more than is there, and children that are never too short."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.errors import UsageError
from evodevo.multitask.budgets.budget import FEWEST, PERIODS, RunBudget, allowance, of_root, read_budget


@given(
    share=st.floats(0, 1e6),
    generations=st.integers(1, 20),
    size=st.integers(1, 20),
    looks=st.integers(1, 40),
    together=st.integers(1, 5),
    untrained=st.integers(0, 2),
)
def test_a_cycle_keeps_to_its_share_with_fewer_children_and_never_shorter_ones(
    share: float, generations: int, size: int, looks: int, together: int, untrained: int
) -> None:
    most = generations * size
    found = allowance(share, most, size, looks, together, untrained + 1, untrained)
    if found is None:
        assert share < FEWEST + looks
        return
    assert found.total <= share
    assert found.total == found.most_steps * (found.children - untrained) or found.children <= untrained
    assert found.children > untrained or found.children >= most - size + 1
    assert found.steps >= FEWEST
    assert found.steps % looks == 0 == found.most_steps % found.steps
    assert found.children % found.generation_size == 0
    assert 1 <= found.children <= most
    assert found.generation_size <= size
    if found.children > untrained:
        assert share - found.total < found.steps * found.children, "what is more makes children longer"
    if found.children > max(together, untrained + 1):
        assert found.most_steps >= PERIODS * found.steps, "no child is short for the sake of another one"
    affordable = int(share // found.steps)
    assert found.generation_size >= min(together, affordable, size), "no worker is idle for want of children"


@pytest.mark.parametrize(
    ("periods", "together", "children", "size", "each"),
    [
        (1, 1, 1, 1, 1),
        (4, 1, 1, 1, 4),
        (7, 1, 1, 1, 7),
        (8, 1, 4, 2, 2),
        (9, 1, 4, 2, 2),
        (12, 1, 6, 3, 2),
        (16, 1, 8, 4, 2),
        (40, 1, 8, 4, 5),
        (1, 2, 1, 1, 1),
        (4, 2, 2, 2, 2),
        (9, 2, 4, 2, 2),
        (9, 4, 4, 4, 2),
    ],
)
def test_few_long_children_come_before_many_short_ones(
    periods: int, together: int, children: int, size: int, each: int
) -> None:
    found = allowance(periods * 500, 8, 4, 4, together)
    assert found is not None
    assert (found.children, found.generation_size, found.most_steps) == (children, size, each * 500)


def test_a_root_has_one_period_at_least() -> None:
    assert of_root(0, 4).total == FEWEST == 500
    assert (of_root(1_999, 4).steps, of_root(1_999, 4).most_steps) == (500, 1_500)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("90s", RunBudget(90, "seconds")),
        ("1.5m", RunBudget(90, "seconds")),
        ("1 h", RunBudget(3600, "seconds")),
        ("5000steps", RunBudget(5000, "steps")),
        ("500 Steps", RunBudget(500, "steps")),
    ],
)
def test_budgets_are_times_or_steps(text: str, budget: RunBudget) -> None:
    assert read_budget(text) == budget


@pytest.mark.parametrize("text", ["", "10", "0s", "-5m", "5000", "ten steps", "0steps", "nan s"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="such as 90s, 10m or 1h, or steps such as 5000steps"):
        read_budget(text)


@given(st.floats(1, 1e7), st.sampled_from(["seconds", "steps"]))
def test_a_named_budget_is_no_smaller_than_it_was(amount: float, unit: str) -> None:
    said = read_budget(RunBudget(1, unit).words(amount))  # type: ignore[arg-type]
    assert said.unit == unit
    assert said.amount >= amount
