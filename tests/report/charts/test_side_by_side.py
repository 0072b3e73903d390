"""Lines that coincide are drawn beside each other, and nothing else is moved."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.growth.diagrams.curve import growth_curve
from evodevo.multitask.diagrams.system.cycles import CycleCurve, cycle_chart
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series, line_chart
from evodevo.report.charts.side_by_side import NOTE, STROKE, Place, side_by_side
from report.charts.drawn import SVG, labels_inside, marked, words_of

TOP, BOTTOM, STEP = 0.0, 400.0, 40.0
HEIGHTS = st.lists(st.integers(10, 18).map(lambda n: 10.0 * n), min_size=8, max_size=8)


def placed(heights: Sequence[float]) -> list[Place]:
    return [(STEP * number, height) for number, height in enumerate(heights)]


def distance(point: Place, line: Sequence[Place]) -> float:
    """From a point to the nearest place of a line."""
    found = [math.dist(point, place) for place in line]
    for (x, y), (to_x, to_y) in pairwise(line):
        long = math.dist((x, y), (to_x, to_y)) ** 2
        if long:
            share = min(max(((point[0] - x) * (to_x - x) + (point[1] - y) * (to_y - y)) / long, 0.0), 1.0)
            found.append(math.dist(point, (x + share * (to_x - x), y + share * (to_y - y))))
    return min(found)


@given(HEIGHTS, st.integers(2, 4), st.integers(1, 7), st.booleans())
@settings(max_examples=150, deadline=None)
def test_lines_are_a_stroke_apart_where_they_coincide(heights: list[float], count: int, end: int, late: bool) -> None:
    """All have the same points up to one of them; from there on the later half is 30 pixels lower."""
    lines = [placed(heights) for _ in range(count)]
    if late:
        lines[count // 2 :] = [
            [(x, y + 30.0 * (number > end)) for number, (x, y) in enumerate(line)] for line in lines[count // 2 :]
        ]
    drawn = side_by_side(lines, TOP, BOTTOM)
    assert drawn.moved
    for one, other in combinations(range(count), 2):
        for number, (a, b) in enumerate(zip(drawn.dots[one], drawn.dots[other], strict=True)):
            if lines[one][number] == lines[other][number]:
                assert math.dist(a, b) >= 0.9 * STROKE
        for number, (a, b) in enumerate(pairwise(drawn.dots[one])):
            if lines[one][number : number + 2] == lines[other][number : number + 2]:
                middle = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
                assert distance(middle, drawn.lines[other]) >= 0.9 * drawn.stroke


@given(st.lists(st.floats(40, 360), min_size=8, max_size=8), st.floats(1.01, 30), st.floats(0.001, 1e3))
@settings(max_examples=40, deadline=None)
def test_what_does_not_coincide_is_drawn_at_its_exact_place(heights: list[float], apart: float, step: float) -> None:
    lines = [[(step * n, y + number * apart) for n, y in enumerate(heights)] for number in range(3)]
    drawn = side_by_side(lines, TOP, BOTTOM + 100)
    assert not drawn.moved
    assert drawn.stroke == STROKE
    assert [list(line) for line in drawn.lines] == [list(line) for line in drawn.dots] == lines


def test_lines_in_a_very_sharp_peak_can_still_be_told_apart() -> None:
    peak = [(0.0, 390.0), (10.0, 10.0), (20.0, 390.0)]
    drawn = side_by_side([peak, peak], TOP, BOTTOM)
    assert math.dist(drawn.dots[0][1], drawn.dots[1][1]) >= STROKE
    for a, b in pairwise(drawn.dots[0]):
        assert distance(((a[0] + b[0]) / 2, (a[1] + b[1]) / 2), drawn.lines[1]) >= STROKE / 2
    for dot, place in zip(drawn.dots[0], peak, strict=True):
        assert math.dist(dot, place) <= 12


def test_lines_that_cross_between_their_points_or_touch_with_one_are_not_moved() -> None:
    rising, falling = [(0.0, 100.0), (100.0, 200.0)], [(0.0, 200.0), (100.0, 100.0)]
    touching = [(0.0, 150.0), (50.0, 150.0), (100.0, 190.0)]
    assert not side_by_side([rising, falling], TOP, BOTTOM).moved
    assert not side_by_side([rising, touching], TOP, BOTTOM).moved


def test_a_point_in_common_is_drawn_twice_and_all_else_once() -> None:
    drawn = side_by_side([[(0, 50), (50, 150), (100, 50)], [(0, 250), (50, 150), (100, 250)]], TOP, BOTTOM)
    (first, upper, last), (under_first, lower, under_last) = drawn.dots
    assert (first, last, under_first, under_last) == ((0, 50), (100, 50), (0, 250), (100, 250))
    assert lower[1] - upper[1] >= STROKE


def test_a_line_of_few_points_lies_beside_one_of_many_on_its_whole_way() -> None:
    many, few = [(10.0 * n, 100.0 + n) for n in range(11)], [(0.0, 100.0), (100.0, 110.0)]
    drawn = side_by_side([many, few], TOP, BOTTOM)
    assert len(drawn.dots[1]) == 2, "a dot is a point that was given"
    assert all(distance(dot, drawn.lines[1]) >= STROKE for dot in drawn.dots[0])


def test_very_many_stay_inside_with_thinner_strokes() -> None:
    drawn = side_by_side([[(0.0, BOTTOM), (100.0, BOTTOM)]] * 24, TOP, BOTTOM)
    heights = [line[0][1] for line in drawn.lines]
    assert all(0.9 * STROKE > low - high >= drawn.stroke - 1e-6 for high, low in pairwise(heights))
    assert heights[0] >= BOTTOM - 40
    assert heights[-1] <= BOTTOM + 1e-6


def test_pieces_and_steps_and_no_lines_at_all() -> None:
    step = [(0.0, 50.0), (50.0, 50.0), (50.0, 150.0), (100.0, 150.0)]
    drawn = side_by_side([step, step, [], [(20.0, 300.0)]], TOP, BOTTOM)
    for (a, b), (c, d) in zip(pairwise(drawn.dots[0]), pairwise(drawn.dots[1]), strict=True):
        middle = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
        assert distance(middle, [c, d]) >= STROKE
    assert drawn.dots[2:] == ((), ((20.0, 300.0),))
    assert side_by_side([], TOP, BOTTOM).lines == ()


def lines_of(values: Sequence[Sequence[float]]) -> str:
    return line_chart([Series(str(n), list(enumerate(line))) for n, line in enumerate(values)], Axis("x"), Axis("y"))


def cycles_of(values: Sequence[Sequence[float]]) -> str:
    return cycle_chart([CycleCurve(str(n), [line]) for n, line in enumerate(values)])


def growth_of(values: Sequence[Sequence[float]]) -> str:
    series = [Series(str(n), list(enumerate(line))) for n, line in enumerate(values)]
    return growth_curve(series, [], Axis("x"), Axis("y"))


@pytest.mark.parametrize("chart", [lines_of, cycles_of, growth_of])
def test_charts_show_every_line_and_say_what_was_moved(chart: Callable[[Sequence[Sequence[float]]], str]) -> None:
    same, apart = chart([[0.5, 0.7, 0.6]] * 3), chart([[0.5, 0.7, 0.6], [0.4, 0.6, 0.5]])
    paths = [
        [(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", path.get("d", ""))]
        for path in marked(same, "line", "path")
    ]
    assert len(paths) == 3
    for one, other in combinations(paths, 2):
        assert all(distance(place, other) >= 0.9 * STROKE for place in one)
    dots = [(dot.get("cx"), dot.get("cy")) for dot in ElementTree.fromstring(same).iter(f"{SVG}circle")]
    assert len(set(dots)) == 9
    assert same.count("0.7") + same.count("70") >= 3, "tooltips keep the exact numbers"
    assert NOTE in words_of(same)
    assert NOTE not in words_of(apart)
    labels_inside(same)
