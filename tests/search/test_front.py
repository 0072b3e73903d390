"""Fronts and hypervolumes over individuals of which some failed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymoo.indicators.hv import HV

from evodevo.search.front import feasible_points, front_places, hypervolume, reference_point
from evodevo.search.problem import Goal, Outcome

GOALS = (Goal("loss"), Goal("speed", direction="maximise"))

numbers = st.integers(-5, 5).map(float)
outcomes = st.one_of(
    st.none(),
    st.builds(lambda a, b: Outcome(scores={"loss": a, "speed": b}), numbers, numbers),
    st.builds(lambda a: Outcome(scores={"loss": a, "speed": math.nan}), numbers),
    st.builds(
        lambda a, b: Outcome(reason="infeasible", scores={"loss": a, "speed": b}, violation=1.0), numbers, numbers
    ),
    st.builds(lambda a, b: Outcome(reason="crash", scores={"loss": a, "speed": b}), numbers, numbers),
    st.builds(lambda a: Outcome(scores={"loss": a}), numbers),
)


def points(of: list[Outcome | None]) -> list[tuple[int, float, float]]:
    """Place, loss and negated speed of those that count, by hand."""
    return [
        (place, one.scores["loss"], -one.scores["speed"])
        for place, one in enumerate(of)
        if one is not None
        and one.reason is None
        and not one.violation
        and math.isfinite(one.scores.get("speed", math.nan))
    ]


@given(st.lists(outcomes, max_size=25))
def test_the_front_is_what_nobody_dominates(of: list[Outcome | None]) -> None:
    found = points(of)
    expected = [place for place, a, b in found if not any(c <= a and d <= b and (c, d) != (a, b) for _, c, d in found)]
    assert front_places(of, GOALS) == expected
    assert [(place, *values) for place, values in feasible_points(of, GOALS)] == found


@given(st.lists(outcomes, max_size=25))
def test_the_hypervolume_is_that_of_whoever_counts(of: list[Outcome | None]) -> None:
    found = np.array([[a, b] for _, a, b in points(of)])
    reference = (5.5, 5.5)
    expected = HV(np.array(reference))(found) if len(found) else 0.0
    assert hypervolume(of, GOALS, reference) == pytest.approx(expected, rel=1e-12)


@given(st.lists(st.tuples(numbers, numbers), min_size=1))
def test_every_point_counts_before_the_reference(of: list[tuple[float, float]]) -> None:
    reference = reference_point(of)
    for values in of:
        assert all(value < limit for value, limit in zip(values, reference, strict=True))


def test_the_reference_stands_a_tenth_behind_the_worst() -> None:
    assert reference_point([(0.0, 10.0), (1.0, 20.0)]) == (1.1, 21.0)
    assert reference_point([(2.0, 0.0)]) == (2.2, 0.1), "without a range: of the value, or of one"
    assert reference_point([(-2.0, 0.0)])[0] == -1.8


@given(st.lists(st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 3), min_size=1, max_size=8))
def test_no_finite_value_breaks_a_hypervolume(of: list[tuple[float, float, float]]) -> None:
    goals = tuple(Goal(name) for name in "abc")
    told = [Outcome(scores=dict(zip("abc", values, strict=True))) for values in of]
    reference = reference_point(of)
    assert all(map(math.isfinite, reference))
    assert 0 <= hypervolume(told, goals, reference) < math.inf
