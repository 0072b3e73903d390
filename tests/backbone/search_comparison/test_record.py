"""The measures of a comparison of searches, counted again."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

import pytest

from evodevo.backbone.search_comparison.course import Course, CourseScale, course_of
from evodevo.backbone.search_comparison.interval import Interval
from evodevo.backbone.search_comparison.record import read_search_comparison
from evodevo.backbone.search_comparison.text import sentences
from evodevo.runs.archive import Run
from evodevo.runs.composed import stage_runs
from evodevo.search.problem import Goal

pytestmark = pytest.mark.slow

GOALS = (Goal("a"), Goal("b"))


def area(points: list[tuple[float, float]], corner: tuple[float, float]) -> float:
    """Of the union of the boxes between points and corner, strip by strip."""
    total, lowest = 0.0, corner[1]
    for x, y in sorted(point for point in points if point[0] < corner[0]):
        if y < lowest:
            total += (corner[0] - x) * (lowest - y)
            lowest = y
    return total


def test_hypervolumes_have_one_reference_point_for_all_arms(comparison: Run) -> None:
    record, runs = read_search_comparison(comparison), stage_runs(comparison)
    values = {
        stage: [(one.scores["quality"] or 0.0, one.scores["parameters"] or 0.0) for one in run.individuals()]
        for stage, run in runs.items()
    }
    first = [
        (one.scores["quality"] or 0.0, one.scores["parameters"] or 0.0)
        for run in runs.values()
        for one in run.individuals()
        if one.generation == 0
    ]
    every = [point for points in values.values() for point in points]
    corner = tuple(max(column) + 0.1 * (max(column) - min(column)) for column in zip(*first, strict=True))
    assert record.reference == pytest.approx(corner)
    box = math.prod(worst - min(column) for worst, column in zip(corner, zip(*every, strict=True), strict=True))
    for arm in record.arms:
        for seed, row in enumerate(arm.searches):
            share = area(values[f"{arm.name}/{seed}"], (corner[0], corner[1])) / box
            assert row.values["at_equal_evaluations"] == pytest.approx(share)
            assert row.curve[-1] == (4, 512, pytest.approx(share))


def test_differences_are_those_of_equal_seeds(comparison: Run) -> None:
    arms = {arm.name: arm for arm in read_search_comparison(comparison).arms}
    for name in ("genetic", "surrogate"):
        pairs = zip(arms[name].searches, arms["random"].searches, strict=True)
        gaps = [(a.values["at_equal_tokens"] or 0.0) - (b.values["at_equal_tokens"] or 0.0) for a, b in pairs]
        found = arms[name].differences["at_equal_tokens"]
        assert found.mean == pytest.approx(fmean(gaps))
        assert found.high is not None
        # Of two values: 12.706 standard errors, and one is half their distance.
        assert found.high - found.mean == pytest.approx(12.7062 * abs(gaps[0] - gaps[1]) / 2, rel=1e-4)
    assert arms["random"].differences == {}


def test_an_interval_is_students() -> None:
    found = Interval.of([1.0, None, 2.0, math.nan, 3.0])
    assert found is not None
    assert (found.mean, found.count) == (2.0, 3)
    assert found.half == pytest.approx(4.30265 / math.sqrt(3), rel=1e-5)
    assert [Interval(1, low, high, 3).side() for low, high in ((0.1, 2), (-1, 2), (-2, -0.1))] == [1, 0, -1]
    one = Interval.of([2.0])
    assert one is not None
    assert (one.low, one.side()) == (None, 0)
    assert Interval.of([None]) is None


def test_what_failed_or_stopped_is_an_evaluation_and_its_tokens_count() -> None:
    course = Course((100, 125, 225), (None, (2.0, 2.0), (1.0, 1.0)), ((3.0, 3.0),))
    assert [course.within(tokens) for tokens in (99, 100, 224, 1000)] == [0, 1, 2, 3]
    scale = CourseScale((3.0, 3.0), (1.0, 1.0))
    assert [scale.measure(course.points[:count]) for count in range(4)] == [0.0, 0.0, 0.25, 1.0]
    assert scale.curve(course, 2) == [(2, 0.25)]
    assert scale.curve(course, 3) == [(2, 0.25), (3, 1.0)]


def test_one_goal_is_measured_by_its_best_value() -> None:
    up = CourseScale.of([(-3.0,)], [(-3.0,), (-5.0,)], [Goal("accuracy", direction="maximise")])
    down = CourseScale.of([(3.0,)], [(3.0,), (2.0,)], [Goal("loss")])
    assert up is not None
    assert down is not None
    assert (up.measure([(-3.0,), None, (-5.0,)]), up.higher_is_better) == (5.0, True)
    assert (down.measure([(3.0,), (2.0,)]), down.higher_is_better) == (2.0, False)
    assert down.measure([None]) is None


def test_a_course_ends_before_the_first_that_is_not_evaluated(comparison: Run) -> None:
    run = stage_runs(comparison)["random/0"]
    whole = course_of(run)
    assert whole.tokens == (128, 256, 384, 512)
    run.individuals()[2].__dict__["evaluation"] = None
    assert course_of(run).tokens == (128, 256)


def test_the_sentences_name_what_is_beyond_the_interval(comparison: Run) -> None:
    record = read_search_comparison(comparison)
    name = record.measures[0].name
    sides = {"genetic": Interval(0.2, 0.1, 0.3, 2), "surrogate": Interval(-0.2, -0.3, -0.1, 2)}
    arms = tuple(replace(arm, differences={name: sides[arm.name]} if arm.name in sides else {}) for arm in record.arms)
    said = " ".join(sentences(replace(record, arms=arms), "evaluations"))
    assert "better genetic; worse surrogate" in said
    assert "half-widths" in said
    lower = tuple(replace(measure, higher_is_better=False) for measure in record.measures)
    assert "better surrogate; worse genetic" in " ".join(sentences(replace(record, arms=arms, measures=lower), ""))
    alone = " ".join(sentences(replace(record, seeds=1), "evaluations"))
    assert "anecdote" in alone
