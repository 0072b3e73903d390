"""What "dominates" means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evodevo.runs.verdict import GoalValues, dominates, relation

values = st.lists(st.floats(0, 10, allow_nan=False), min_size=2, max_size=4)


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ((2.0, 2.1), (2.2, 2.3), "better"),
        ((2.0, 2.25), (2.2, 2.3), "open"),
        ((2.2, 2.3), (2.0, 2.1), "worse"),
        ((2.0,), (2.2, 2.3), "open"),
        ((), (2.2, 2.3), "open"),
    ],
)
def test_ranges_over_seeds_must_be_apart(ours: tuple[float, ...], theirs: tuple[float, ...], found: str) -> None:
    assert relation(GoalValues(ours), GoalValues(theirs)) == found


def test_exact_goals_need_no_seeds_and_must_not_be_worse() -> None:
    good, bad = GoalValues((2.0, 2.1)), GoalValues((2.2, 2.3))
    small, large = GoalValues((10.0,), exact=True), GoalValues((20.0,), exact=True)
    assert dominates({"quality": good, "cache": small}, {"quality": bad, "cache": large})
    assert dominates({"quality": good, "cache": large}, {"quality": bad, "cache": large})
    assert not dominates({"quality": good, "cache": large}, {"quality": bad, "cache": small})
    assert not dominates({"quality": bad, "cache": small}, {"quality": bad, "cache": large}), "quality does not differ"
    assert dominates(
        {"accuracy": GoalValues((0.9, 0.8), higher_is_better=True)},
        {"accuracy": GoalValues((0.5, 0.7), higher_is_better=True)},
    )


@given(values, values, values)
def test_it_is_a_strict_order(a: list[float], b: list[float], c: list[float]) -> None:
    one, two, three = ({"quality": GoalValues(tuple(each))} for each in (a, b, c))
    assert not dominates(one, one)
    assert not (dominates(one, two) and dominates(two, one))
    if dominates(one, two) and dominates(two, three):
        assert dominates(one, three)
