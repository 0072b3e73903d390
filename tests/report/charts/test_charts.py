"""Charts: nothing is lost, nothing breaks on bad numbers, and positions mean what the axes say."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.backbone.diagrams.composition import Composition, composition_chart
from evodevo.report.charts.axes import Axis, Scale
from evodevo.report.charts.curves import (
    Series,
    TrainingCurve,
    line_chart,
    stability_words,
    thin,
    training_curves,
)
from evodevo.report.charts.front import BaselinePoint, FrontPoint, front_chart
from evodevo.report.charts.lineage import LineageNode, ancestors, lineage_chart, lineage_layout
from evodevo.report.charts.numbers import show, tick_texts
from report.charts import sample_run
from report.charts.drawn import SVG, marked, size_of

NUMBERS = st.one_of(st.none(), st.floats(), st.integers(), st.sampled_from([10**400, -(10**400), 5e-324, 1.7e308]))
X, Y = Axis("cache", "bytes", minimise=True), Axis("quality", "bits per byte", minimise=True)


def corners(svg: str) -> list[tuple[float, float]]:
    (line,) = marked(svg, "front-line", "path")
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", line.get("d", ""))]


# Numbers and scales


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (150994944, "bytes", "151 MB"),
        (84934656, "parameters", "84.93 M"),
        (0.0021, "seconds", "2.1 ms"),
        (75, "seconds", "75 s"),
        (1.83214, "bits per byte", "1.832"),
        (0, "bytes", "0 B"),
        (-2500, "bytes", "-2.5 kB"),
        (None, "bytes", "–"),
        (math.nan, "", "–"),
        (-math.inf, "", "–"),
        (10**400, "bytes", "–"),
        (123456.0, "", "123,456"),
    ],
)
def test_numbers_are_shown_as_people_read_them(value, unit: str, shown: str) -> None:
    assert show(value, unit) == shown


@given(st.lists(NUMBERS, max_size=8), st.sampled_from([None, True, False]))
@settings(max_examples=80)
def test_a_scale_holds_every_number_and_has_ticks_inside(values, logarithmic) -> None:
    scale = Scale.fit(values, 10, 110, logarithmic)
    ticks = scale.ticks()
    assert len(ticks) <= 24
    assert ticks == sorted(ticks)
    assert all(scale.low <= tick <= scale.high for tick in ticks)
    for value in [v for v in values if v is not None]:
        try:
            place = scale(float(value))
        except OverflowError:
            continue
        if not math.isnan(float(value)):
            assert 10 <= place <= 110


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_a_linear_scale_is_linear_and_has_at_least_two_ticks(low: float, span: float) -> None:
    scale = Scale.fit([low, low + span], 0, 100, False, padding=0.0)
    assert scale(low + span / 4) == pytest.approx(25, abs=1e-4)
    assert len(scale.ticks()) >= 2


@pytest.mark.parametrize(("low", "high"), [(1.0, 3.0), (1.0, 40.0), (1e3, 1e9), (0.02, 0.9), (101.0, 102.0)])
def test_a_logarithmic_scale_has_readable_ticks(low: float, high: float) -> None:
    scale = Scale.fit([low, high], 0, 100, True)
    assert 3 <= len(scale.ticks()) <= 9
    assert scale(math.sqrt(low * high)) == pytest.approx(50)


def test_ticks_and_columns_are_equally_exact_in_one_unit() -> None:
    assert [show(v, "bits per byte", padded=True) for v in (1.79, 1.644)] == ["1.790", "1.644"]
    assert show(12, padded=True) == "12"
    assert tick_texts([25e6, 50e6, 75e6], "bytes") == (["25", "50", "75"], "MB")
    assert tick_texts([0.725, 0.75, 0.775], "") == (["0.725", "0.750", "0.775"], "")
    assert tick_texts([0.8], "") == (["0.8"], "")


# Front


def test_every_individual_is_on_the_chart_also_without_numbers() -> None:
    points = [
        FrontPoint("a", 1e6, 1.9, state="front"),
        FrontPoint("b", 2e6, 1.8, state="front"),
        FrontPoint("c", 2e6, 2.0),
        FrontPoint("d", 3e6, math.nan, state="failed"),
        FrontPoint("e", None, 1.7, state="failed"),
        FrontPoint("f", math.inf, None, state="failed"),
    ]
    svg = front_chart(
        points, X, Y, [BaselinePoint("base", 4e6, 1.85, None, (1.8, 1.9)), BaselinePoint("lost", 4e6, None)]
    )
    assert len(marked(svg, "point")) == 3 + 2 + 2  # in the plane, in margins, baselines
    assert len(marked(svg, "front")) == 2
    assert len(marked(svg, "baseline")) == 1
    assert "1 without either number: f" in svg
    assert svg.count("margin-strip") == 2
    assert len(marked(svg, "spread", "path")) == 1


@pytest.mark.parametrize(
    ("minimise", "front", "turns"),
    [(True, [(1, 5), (2, 3), (4, 1), (3, 4)], 3), (False, [(1, 1), (2, 3), (3, 2)], 2)],
)
def test_the_step_line_is_the_edge_of_what_the_front_dominates(minimise: bool, front: list, turns: int) -> None:
    points = [FrontPoint(str(x), x, y, state="front") for x, y in front]
    path = corners(front_chart(points, Axis("x", minimise=minimise), Axis("y", minimise=minimise)))
    # up from the first, then right and down in turn, then to the worst x; (3, 4) and (1, 1) are dominated
    assert len(path) == 1 + 2 * turns
    assert all(x1 == x2 or y1 == y2 for (x1, y1), (x2, y2) in pairwise(path))
    assert [x for x, _ in path] == sorted((x for x, _ in path), reverse=not minimise)
    assert [y for _, y in path] == sorted((y for _, y in path), reverse=not minimise)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from(["front", "dominated", "failed"])), max_size=8),
    st.lists(st.tuples(NUMBERS, NUMBERS), max_size=3),
)
@settings(max_examples=40, deadline=None)
def test_any_numbers_give_a_chart(points, spreads) -> None:
    made = [FrontPoint(str(i), x, y, i, state, label="label") for i, (x, y, state) in enumerate(points)]
    baselines = [BaselinePoint("b", 1.0, 2.0, spread, spread) for spread in spreads]
    svg = front_chart(made, X, Y, baselines)
    ElementTree.fromstring(svg)
    assert not re.search(r'="[^"]*\b(nan|inf)\b', svg)


# Curves


def test_curves_are_drawn_with_their_gaps_and_the_share_of_stable_runs_is_said() -> None:
    curves = [TrainingCurve(str(i), [(0, 5.0), (1, 3.0), (2, 2.0)]) for i in range(19)]
    curves.append(TrainingCurve("bad", [(0, 5.0), (1, 90.0), (2, math.nan)], "diverged"))
    svg = training_curves(curves, Axis("step"), Axis("loss"))
    assert stability_words(curves) == "19 of 20 runs stable (95 %)"
    assert "19 of 20 runs stable (95 %)" in svg
    assert len(marked(svg, "stable")) == 19
    assert len(marked(svg, "diverged")) == 1
    assert "1 run leaves the scale" in svg
    svg = training_curves([TrainingCurve("a", [(0, 5.0), (1, 4.0), (2, None), (3, 3.0), (4, 2.0)])], X, Y)
    (curve,) = marked(svg, "curve")
    path = curve.find(f"{SVG}path")
    assert path.get("d", "").count("M") == 2


@given(st.lists(st.tuples(st.floats(0, 1e6), NUMBERS), max_size=60), st.integers(1, 30))
def test_thinning_keeps_ends_order_and_extremes(points, limit: int) -> None:
    points = [(float(i), y) for i, (_, y) in enumerate(points)]
    kept = thin(points, limit)
    assert len(kept) <= max(limit, 4)
    assert [x for x, _ in kept] == sorted({x for x, _ in kept})
    if points:
        assert (kept[0], kept[-1]) == (points[0], points[-1])
    known = [y for _, y in points if y is not None and abs(y) < 1e300]
    if known:
        assert {max(known), min(known)} <= {y for _, y in kept}


def test_lines_survive_one_point_and_none_and_empty_things_say_so() -> None:
    for values in ([], [(0, 0.4)], [(0, None), (1, math.nan)], [(0, 0.4), (1, 0.4)]):
        ElementTree.fromstring(
            line_chart([Series("own", values), Series("random", values)], Axis("generation"), Axis("volume"))
        )
    svg = line_chart([Series("a", [(0, 1.0), (1, 2.0)]), Series("b", [(0, 1.0), (1, 2.0)])], X, Y)
    assert len(list(ElementTree.fromstring(svg).iter(f"{SVG}circle"))) == 4
    assert "No individual has been scored" in front_chart([], X, Y)
    assert "No training curve" in training_curves([TrainingCurve("a", [])], X, Y)
    assert "no ancestry" in lineage_chart([])
    assert "No genomes" in composition_chart([Composition(0, {"SA-1": math.nan})])


# Lineage


def test_ancestors_follow_both_parents_and_end_at_strangers() -> None:
    nodes = [
        LineageNode("a", 0),
        LineageNode("b", 0),
        LineageNode("c", 1, ("a", "b")),
        LineageNode("d", 1, ("elsewhere",)),
        LineageNode("e", 2, ("c", "d")),
    ]
    assert ancestors(nodes, "e") == {"a", "b", "c", "d", "e"}
    assert ancestors(nodes, "c") == {"a", "b", "c"}
    assert ancestors(nodes, "nobody") == set()
    nodes = [LineageNode("a", 0, ("b",)), LineageNode("b", 0, ("a",)), LineageNode("c", 1, ("c",))]
    assert ancestors(nodes, "a") == {"a", "b"}, "a circle ends"
    ElementTree.fromstring(lineage_chart(nodes, "a"))


def test_lineage_has_a_column_for_each_generation_and_crosses_less_than_order_of_birth() -> None:
    nodes = sample_run.nodes()
    layout = lineage_layout(nodes)
    assert layout == lineage_layout(nodes)
    assert len(set(layout.values())) == len(nodes)
    assert all(layout[node.id][0] == node.generation for node in nodes)
    nodes = sample_run.nodes()

    def crossings(row: dict[str, int]) -> int:
        column = {node.id: node.generation for node in nodes}
        edges = [(p, n.id) for n in nodes for p in n.parents if column[p] == n.generation - 1]
        return sum(
            column[a] == column[c] and (row[a] - row[c]) * (row[b] - row[d]) < 0
            for index, (a, b) in enumerate(edges)
            for c, d in edges[index + 1 :]
        )

    born = {node.id: index % 10 for index, node in enumerate(nodes)}
    assert crossings({name: row for name, (_, row) in lineage_layout(nodes).items()}) < 0.8 * crossings(born)


def test_every_parent_is_one_edge_and_ancestry_is_strong() -> None:
    nodes = sample_run.nodes()
    target = nodes[-1].id
    svg = lineage_chart(nodes, target)
    edges = marked(svg, "edge", "path")
    assert len(edges) == sum(len(node.parents) for node in nodes)
    line = ancestors(nodes, target)
    strong = [edge for edge in edges if edge.get("stroke-width") == "2.4"]
    assert len(strong) == sum(len(node.parents) for node in nodes if node.id in line)
    assert sum(node.get("opacity") is None for node in marked(svg, "node")) == len(line)


# Composition


def test_bars_add_up_to_the_depth() -> None:
    rows = [Composition(g, {"SA-1": 4.0 + g, "GMemless": 8.0 - g}) for g in range(4)]
    bars = marked(composition_chart(rows, {"SA-1": "attention", "GMemless": "memoryless"}), "bar", "rect")
    assert len(bars) == 8
    heights: dict[str, float] = {}
    for bar in bars:
        heights[bar.get("x", "")] = heights.get(bar.get("x", ""), 0.0) + size_of(bar)[1]
    assert max(heights.values()) - min(heights.values()) < 0.3
