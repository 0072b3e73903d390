"""Systems: every fact has its mark, marks do not lie on each other, texts stay inside."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.multitask.diagrams.multipath_model import multipath_model
from evodevo.multitask.diagrams.support_usage import SupportUse, support_usage
from evodevo.multitask.diagrams.system.cycles import CycleCurve, cycle_chart, means, system_cycles
from evodevo.multitask.diagrams.system.frame import SystemFrame
from evodevo.multitask.diagrams.system.graph import system_graph
from evodevo.multitask.diagrams.system.layout import Measures, plan, role_rows, spread
from evodevo.multitask.diagrams.system.outline import outline
from report.charts.drawn import SVG, labels_inside, marked
from report.charts.sample_system import frame as system_frame


@pytest.mark.parametrize(("count", "models"), [(1, 0), (2, 1), (3, 3), (100, 30)])
def test_a_graph_has_every_task_component_and_model(count: int, models: int) -> None:
    frame = system_frame(count, models)
    svg = system_graph(frame, title="Zoo", subtitle=frame.label)
    labels_inside(svg)
    assert {one.get("data-task") for one in marked(svg, "route")} >= set(frame.tasks)
    drawn = {one.get("data-part") for one in marked(svg, "node")} - {None}
    routers = {one.router for one in frame.joined}
    assert drawn == set(frame.parts) - routers, "every component has one box; a router's box is its model's"
    assert len([one for one in marked(svg, "node") if one.get("data-part")]) == len(drawn)
    assert {one.get("data-model") for one in marked(svg, "multipath")} == {one.path for one in frame.joined}
    assert len(marked(svg, "stream")) == sum(len(one.streams) for one in frame.joined)


@pytest.mark.parametrize("count", [3, 100])
def test_boxes_of_a_row_do_not_touch_and_lines_enter_where_their_lanes_are(count: int) -> None:
    frame = system_frame(count, 3)
    layout = plan(frame, [frame], Measures(34, 30, 120, 90))
    rows: dict[float, list[tuple[float, float]]] = {}
    for node in layout.nodes.values():
        rows.setdefault(node.y, []).append((node.x - node.width / 2, node.x + node.width / 2))
    for boxes in rows.values():
        for (_, right), (left, _) in itertools.pairwise(sorted(boxes)):
            assert left >= right + 7.9
    for line in layout.lines:
        heights = [y for _, y in layout.stops[line.key]]
        assert heights == sorted(heights, reverse=True), "upwards, from the task to its head"
        for part in line.parts:
            node = layout.nodes[part]
            assert abs(node.lanes[line.key] - node.x) <= node.width / 2
            assert any(math.dist(one, (node.lanes[line.key], node.y - 9)) < 1e-6 for one in layout.stops[line.key])


def test_frames_that_share_their_columns_keep_them() -> None:
    late, early = system_frame(6, 2), system_frame(6, 0)
    early = dataclasses.replace(early, routes=early.routes[:3])
    sizes = Measures(60, 30, 120, 90)
    first, second = (plan(one, [early, late], sizes) for one in (early, late))
    distances = [{name: x - plan_.columns["task_1"] for name, x in plan_.columns.items()} for plan_ in (first, second)]
    assert distances[0] == pytest.approx(distances[1])
    assert set(first.rows) == set(second.rows)


@given(st.lists(st.tuples(st.floats(-500, 500), st.floats(1, 90)), min_size=1, max_size=12))
@settings(max_examples=25, deadline=None)
def test_boxes_are_spread_no_more_than_they_must(boxes: list[tuple[float, float]]) -> None:
    boxes.sort()
    wanted, widths = [one for one, _ in boxes], [one for _, one in boxes]
    places = spread(wanted, widths, 4)
    for (a, x), (b, y) in itertools.pairwise(zip(widths, places, strict=True)):
        assert y - x >= (a + b) / 2 + 4 - 1e-6
    free = all(y - x >= (a + b) / 2 + 4 for (a, x), (b, y) in itertools.pairwise(zip(widths, wanted, strict=True)))
    assert not free or places == pytest.approx(wanted)
    assert math.fsum(places) == pytest.approx(math.fsum(wanted), abs=1e-6), "least squares move the middle nowhere"


@given(st.lists(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=6), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_rows_follow_the_first_path_and_leave_no_role_out(paths: list[list[str]]) -> None:
    rows = role_rows(paths)
    assert set(rows) == {role for path in paths for role in path}
    first = [rows[role] for role in dict.fromkeys(paths[0])]
    assert first == sorted(set(first))


def test_rows_of_paths_of_different_depth() -> None:
    rows = role_rows([["e", "b0", "norm"], ["e", "norm", "head"], ["e", "b0", "b1", "norm", "head"]])
    assert rows == {"e": 0, "b0": 1, "b1": 2, "norm": 3, "head": 4}
    assert role_rows([[f"b{n}" for n in range(1500)]])["b1499"] == 1499, "deeper than Python's stack"


@pytest.mark.parametrize("name", ["cmaterdb_devanagari", "omniglot_small1", "handwrittenletters", "digits"])
def test_a_task_s_name_is_not_cut_where_two_lines_hold_it(name: str) -> None:
    frame = system_frame(8, 0, names=("task_1", name))
    svg = system_graph(frame)
    labels_inside(svg)
    (foot,) = [one for one in marked(svg, "foot") if one.get("data-task") == name]
    _, text = foot.findall(f"{SVG}text")
    lines = [line.text or "" for line in text.findall(f"{SVG}tspan")] or [text.text]
    assert "".join(lines) == name
    assert len(lines) == 1 + (len(name) > 12)
    assert len(lines) == 1 or "_" not in name or lines[0].endswith("_")


def test_one_task_can_be_drawn_strong() -> None:
    frame = system_frame(5, 5)
    svg = system_graph(frame, task="task_2")
    for one in marked(svg, "route"):
        faint = one.find(f"{SVG}path").get("stroke-opacity") == "0.25"
        assert faint == (one.get("data-task") != "task_2")


@pytest.mark.parametrize("weights", [True, False])
def test_a_multipath_model_shows_its_paths_connectors_and_weights(weights: bool) -> None:
    frame = system_frame(4, 1, weights=weights)
    model = frame.joined[0]
    svg = multipath_model(frame, model, title=model.path)
    labels_inside(svg)
    trained = [one.get("data-part") for one in marked(svg, "trained")]
    assert set(trained) == {model.router, *(one.connector for one in model.streams[1:])}
    frozen = {one.get("data-part") for one in marked(svg, "node")} - set(trained) - {None}
    heads = {one for stream in model.streams[1:] for one in stream.parts if frame.parts[one].role == "head"}
    assert frozen == {part for one in model.streams for part in one.parts} - heads, "supports are headless"
    said = re.findall(r'data-weight="([0-9.]+)"', svg)
    assert said == (["0.800", "0.100", "0.100"] if weights else ["1.000"] * 3)
    assert ("0.80" in svg) == weights


def test_deep_paths_are_folded_and_no_path_yet_says_so() -> None:
    frame = system_frame(2, 1)
    main = frame.joined[0].streams[0]
    extra = {f"x:{n}": dataclasses.replace(frame.parts[main.parts[0]], id=f"x:{n}", role=f"b{n}") for n in range(60)}
    long = dataclasses.replace(main, parts=(*main.parts[:-1], *extra, main.parts[-1]))
    model = dataclasses.replace(frame.joined[0], streams=(long, *frame.joined[0].streams[1:]))
    svg = multipath_model(dataclasses.replace(frame, parts={**frame.parts, **extra}), model)
    labels_inside(svg)
    assert "more …" in svg
    assert len(marked(svg, "node")) < 40
    nothing = SystemFrame("zoo", 0, "", ("a",), (), (), {})
    assert "no path yet" in system_graph(nothing)
    assert "0 tasks answered" in outline(nothing)


def test_the_outline_says_what_the_graph_shows_and_support_usage_counts() -> None:
    frame = system_frame(6, 2)
    text = outline(frame)
    for one in frame.routes:
        assert one.path in text
    for model in frame.joined:
        assert all(stream.path in text for stream in model.streams)
    assert "withdrawn: Vit~gone" in text
    uses = [SupportUse("a", "b", 4, 1), SupportUse("a", "c", 2, 0), SupportUse("b", "c", 1, 1, True, 0.2)]
    svg = support_usage(uses)
    labels_inside(svg)
    titles = [one.text or "" for one in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert "children asked for, a, b: 4" in titles
    assert "children kept, a, b: 1" in titles
    assert "yet" in support_usage([])


def test_cycles_have_means_and_bands_where_there_are_several() -> None:
    found = means([[0.5, 0.7, None], [0.7, 0.9], [0.6]])
    assert [(one.cycle, one.count) for one in found] == [(1, 3), (2, 2)]
    assert found[0].mean == pytest.approx(0.6)
    assert found[0].error == pytest.approx(0.1 / math.sqrt(3))
    assert found[1].error == pytest.approx(math.sqrt(0.02) / math.sqrt(2))
    assert means([[0.5]])[0].error is None
    many = [CycleCurve("full", [[0.5, 0.6, 0.7], [0.6, 0.65, 0.8]]), CycleCurve("no router", [[0.4, 0.5, 0.5]])]
    svg = cycle_chart(many, references=[("singlepath", 0.55)])
    labels_inside(svg)
    root = ElementTree.fromstring(svg)
    classes = Counter(name for one in root.iter() for name in one.get("class", "").split())
    assert (classes["band"], classes["line"], classes["reference"]) == (1, 2, 1)
    assert len(list(root.iter(f"{SVG}circle"))) == 6
    assert "standard error over 2 systems" in svg
    both = system_cycles(many, [CycleCurve("full", [[0.5]])])
    labels_inside(both)
    assert both.count("over cycles") >= 2
    assert "was recorded" in cycle_chart([CycleCurve("x", [[None]])])
