"""Lines differ in colour or dashes, and their names are whole, inside, and behind a piece of their line."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.experiments.report.page import MOST_LINES
from evodevo.multitask.diagrams.system.cycles import CycleCurve, cycle_chart
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series, line_chart, series_styles
from evodevo.report.charts.line_names import stack_apart
from evodevo.report.palette import MODULE_COLOURS
from evodevo.report.palette import roles as roles_of_palette
from report.charts.drawn import labels_inside, marked, text_of


def chart_of(kind: str, names: list[str]) -> str:
    if kind == "lines":
        series = [Series(name, [(0, number), (1, number + 1)]) for number, name in enumerate(names)]
        return line_chart(series, Axis("step"), Axis("loss"))
    return cycle_chart([CycleCurve(name, [[0.01 * n, 0.01 * n + 0.3]]) for n, name in enumerate(names)])


def looks(svg: str, name: str, tag: str) -> list[tuple[str, str]]:
    """Role of the colour, and dashes."""
    found = []
    for one in marked(svg, name, tag):
        (role,) = [part for part in one.get("class", "").split() if part.startswith("stroke-")]
        found.append((role, one.get("stroke-dasharray", "")))
    return found


@pytest.mark.parametrize("kind", ["lines", "cycles"])
@pytest.mark.parametrize("count", range(2, 25))
def test_no_two_lines_look_alike_and_their_names_have_their_look(count: int, kind: str) -> None:
    assert MOST_LINES <= 24
    svg = chart_of(kind, [f"arm {number}" for number in range(count)])
    lines = looks(svg, "line", "path")
    assert len(set(lines)) == len(lines) == count
    assert looks(svg, "sample", "line") == lines
    roles = [one.get("class", "").split()[1] for one in marked(svg, "name", "text")]
    assert roles == [role.replace("stroke-", "fill-") for role, _ in lines]


@pytest.mark.parametrize("count", range(1, MODULE_COLOURS + 1))
def test_no_two_lines_of_a_chart_have_one_colour(count: int) -> None:
    roles = [role for role, _ in looks(chart_of("lines", [f"arm {number}" for number in range(count)]), "line", "path")]
    shades = [roles_of_palette()[role.removeprefix("stroke-")] for role in roles]
    assert len({on_white for on_white, _ in shades}) == len({on_black for _, on_black in shades}) == count


def test_up_to_five_lines_look_as_they_did() -> None:
    looked = [("attention", ""), ("recurrence", "7 3"), ("convolution", "2 3"), ("other", "10 3 2 3")]
    looked.append(("memoryless", "10 3 2 3 2 3"))
    for count in range(1, 6):
        found = looks(chart_of("lines", [f"arm {number}" for number in range(count)]), "line", "path")
        assert found == [(f"stroke-{role}", dash) for role, dash in looked[:count]]


def test_of_more_lines_than_there_are_colours_the_first_are_drawn_and_it_is_said() -> None:
    svg = chart_of("lines", [f"arm {number}" for number in range(MODULE_COLOURS + 6)])
    assert len(looks(svg, "line", "path")) == len(set(looks(svg, "line", "path"))) == MODULE_COLOURS
    assert f"The first {MODULE_COLOURS} of {MODULE_COLOURS + 6} lines." in svg
    labels_inside(svg)
    assert "The first" not in chart_of("lines", [f"arm {number}" for number in range(MODULE_COLOURS)])
    with pytest.raises(ValueError, match="none with the number"):
        series_styles(MODULE_COLOURS + 1)


@pytest.mark.parametrize("kind", ["lines", "cycles"])
@pytest.mark.parametrize("long", [10, 40, 80, 120, 200])
@pytest.mark.parametrize("count", [2, 7, 24])
def test_names_are_whole_and_do_not_overlap(kind: str, long: int, count: int) -> None:
    names = [(f"{number}~" + "MultiVit~some_task-name." * 9)[:long] for number in range(count)]
    svg = chart_of(kind, names)
    labels_inside(svg)
    drawn = marked(svg, "name", "text")
    assert [text_of(one) for one in drawn] == names
    lines = sorted(float(line.get("y", "")) for one in drawn for line in (list(one.iter())[1:-1] or [one]))
    assert all(low - high >= 11.9 for high, low in pairwise(lines))


@given(st.lists(st.tuples(st.floats(-50, 450), st.floats(5, 80)), min_size=1, max_size=9))
@settings(max_examples=60)
def test_blocks_are_inside_and_apart(blocks: list[tuple[float, float]]) -> None:
    middles, heights = [middle for middle, _ in blocks], [height for _, height in blocks]
    share = min(1.0, 400 / sum(heights))
    moved = stack_apart(middles, heights, 0, 400)
    for (place, high), (other, also) in combinations(zip(moved, heights, strict=True), 2):
        assert abs(place - other) >= share * (high + also) / 2 - 1e-6
    assert all(
        share * high / 2 - 1e-6 <= one <= 400 - share * high / 2 + 1e-6
        for one, high in zip(moved, heights, strict=True)
    )
