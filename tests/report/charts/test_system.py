"""Systems: every fact has its mark, marks do not lie on each other, texts stay inside, colours stay apart."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

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
from evodevo.report.palette import TASK_COLOURS, roles
from evodevo.report.svg import text_width

SVG = "{http://www.w3.org/2000/svg}"


def sample_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "diagrams_sample_system", Path(__file__).with_name("sample_system.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SAMPLE = sample_module()


def marks(svg: str, name: str) -> list[ElementTree.Element]:
    return [one for one in ElementTree.fromstring(svg).iter(f"{SVG}g") if name in one.get("class", "").split()]


def inside(svg: str) -> None:
    root = ElementTree.fromstring(svg)
    _, _, width, height = (float(part) for part in root.get("viewBox", "").split())
    for text in root.iter(f"{SVG}text"):
        size, x, y = (float(text.get(name, "")) for name in ("font-size", "x", "y"))
        wide = text_width(text.text or "", size)
        before = {"start": 0.0, "middle": wide / 2, "end": wide}[text.get("text-anchor", "start")]
        turned = bool(text.get("transform"))
        box = (x - size, y - wide + before, x, y + before) if turned else (x - before, y - size, x - before + wide, y)
        assert box[0] >= -1, text.text
        assert box[1] >= -1, text.text
        assert box[2] <= width + 1, text.text
        assert box[3] <= height + 1, text.text


@pytest.mark.parametrize(("count", "models"), [(1, 0), (2, 1), (3, 3), (30, 5), (100, 30)])
def test_a_graph_has_every_task_component_and_model(count: int, models: int) -> None:
    frame = SAMPLE.frame(count, models)
    svg = system_graph(frame, title="Zoo", subtitle=frame.label)
    inside(svg)
    assert {one.get("data-task") for one in marks(svg, "route")} >= set(frame.tasks)
    drawn = {one.get("data-part") for one in marks(svg, "node")} - {None}
    routers = {one.router for one in frame.joined}
    assert drawn == set(frame.parts) - routers, "every component has one box; a router's box is its model's"
    assert len([one for one in marks(svg, "node") if one.get("data-part")]) == len(drawn)
    assert {one.get("data-model") for one in marks(svg, "multipath")} == {one.path for one in frame.joined}
    assert len(marks(svg, "stream")) == sum(len(one.streams) for one in frame.joined)


@pytest.mark.parametrize("count", [3, 30, 100])
def test_boxes_of_a_row_do_not_touch_and_lines_enter_where_their_lanes_are(count: int) -> None:
    frame = SAMPLE.frame(count, 3)
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
    late, early = SAMPLE.frame(6, 2), SAMPLE.frame(6, 0)
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


@pytest.mark.slow
def test_rows_of_paths_of_different_depth() -> None:
    rows = role_rows([["e", "b0", "norm"], ["e", "norm", "head"], ["e", "b0", "b1", "norm", "head"]])
    assert rows == {"e": 0, "b0": 1, "b1": 2, "norm": 3, "head": 4}
    deep = [f"b{n}" for n in range(3000)]
    assert role_rows([deep])["b2999"] == 2999


def test_one_task_can_be_drawn_strong() -> None:
    frame = SAMPLE.frame(5, 5)
    svg = system_graph(frame, task="task_2")
    for one in marks(svg, "route"):
        faint = one.find(f"{SVG}path").get("stroke-opacity") == "0.25"  # type: ignore[union-attr]
        assert faint == (one.get("data-task") != "task_2")


@pytest.mark.parametrize("weights", [True, False])
def test_a_multipath_model_shows_its_paths_connectors_and_weights(weights: bool) -> None:
    frame = SAMPLE.frame(4, 1, weights=weights)
    model = frame.joined[0]
    svg = multipath_model(frame, model, title=model.path)
    inside(svg)
    trained = [one.get("data-part") for one in marks(svg, "trained")]
    assert set(trained) == {model.router, *(one.connector for one in model.streams[1:])}
    frozen = {one.get("data-part") for one in marks(svg, "node")} - set(trained) - {None}
    heads = {one for stream in model.streams[1:] for one in stream.parts if frame.parts[one].role == "head"}
    assert frozen == {part for one in model.streams for part in one.parts} - heads, "supports are headless"
    said = re.findall(r'data-weight="([0-9.]+)"', svg)
    assert said == (["0.800", "0.100", "0.100"] if weights else ["1.000"] * 3)
    assert ("0.80" in svg) == weights


def test_deep_paths_are_folded() -> None:
    frame = SAMPLE.frame(2, 1)
    main = frame.joined[0].streams[0]
    extra = {f"x:{n}": dataclasses.replace(frame.parts[main.parts[0]], id=f"x:{n}", role=f"b{n}") for n in range(60)}
    long = dataclasses.replace(main, parts=(*main.parts[:-1], *extra, main.parts[-1]))
    model = dataclasses.replace(frame.joined[0], streams=(long, *frame.joined[0].streams[1:]))
    svg = multipath_model(dataclasses.replace(frame, parts={**frame.parts, **extra}), model)
    inside(svg)
    assert "more …" in svg
    assert len(marks(svg, "node")) < 40


def test_no_path_yet_says_so() -> None:
    nothing = SystemFrame("zoo", 0, "", ("a",), (), (), {})
    assert "no path yet" in system_graph(nothing)
    assert "0 tasks answered" in outline(nothing)


def test_the_outline_says_what_the_graph_shows() -> None:
    frame = SAMPLE.frame(6, 2)
    text = outline(frame)
    for one in frame.routes:
        assert one.path in text
    for model in frame.joined:
        assert all(stream.path in text for stream in model.streams)
    assert "withdrawn: Vit~gone" in text


def test_means_have_standard_errors_of_those_that_reached_a_cycle() -> None:
    found = means([[0.5, 0.7, None], [0.7, 0.9], [0.6]])
    assert [(one.cycle, one.count) for one in found] == [(1, 3), (2, 2)]
    assert found[0].mean == pytest.approx(0.6)
    assert found[0].error == pytest.approx(0.1 / math.sqrt(3))
    assert found[1].error == pytest.approx(math.sqrt(0.02) / math.sqrt(2))
    assert means([[0.5]])[0].error is None


def test_cycles_have_a_band_where_there_are_several_and_none_for_one() -> None:
    many = [CycleCurve("full", [[0.5, 0.6, 0.7], [0.6, 0.65, 0.8]]), CycleCurve("no router", [[0.4, 0.5, 0.5]])]
    svg = cycle_chart(many, references=[("singlepath", 0.55)])
    inside(svg)
    root = ElementTree.fromstring(svg)
    classes = [one.get("class", "").split() for one in root.iter()]
    assert sum("band" in one for one in classes) == 1
    assert sum("line" in one for one in classes) == 2
    assert sum("reference" in one for one in classes) == 1
    assert len(list(root.iter(f"{SVG}circle"))) == 6
    assert "standard error over 2 systems" in svg
    both = system_cycles(many, [CycleCurve("full", [[0.5]])])
    inside(both)
    assert both.count("over cycles") >= 2
    assert "was recorded" in cycle_chart([CycleCurve("x", [[None]])])


def test_support_usage_counts() -> None:
    uses = [SupportUse("a", "b", 4, 1), SupportUse("a", "c", 2, 0), SupportUse("b", "c", 1, 1, True, 0.2)]
    svg = support_usage(uses)
    inside(svg)
    titles = [one.text or "" for one in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert "children asked for, a, b: 4" in titles
    assert "children kept, a, b: 1" in titles
    assert "yet" in support_usage([])


# Machado, Oliveira and Fernandes 2009, severity 1; the last is what most eyes see.
EYES = (
    ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
    ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
)


def linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def oklab(light: list[float]) -> tuple[float, ...]:
    r, g, b = (min(max(one, 0.0), 1.0) for one in light)
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    middle = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.793617785 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.428592205 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.808675766 * short,
    )


@pytest.mark.parametrize("shade", [0, 1])
def test_colours_of_tasks_stay_apart_for_all_eyes_and_from_the_ground(shade: int) -> None:
    palette = {role: pair[shade] for role, pair in roles().items()}
    colours = [palette[f"task-{index}"] for index in range(TASK_COLOURS)]
    for eye in EYES:
        seen = [oklab([sum(w * x for w, x in zip(row, linear(one), strict=True)) for row in eye]) for one in colours]
        for a, b in itertools.combinations(seen, 2):
            assert math.dist(a, b) >= 0.12

    def luminance(colour: str) -> float:
        return sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))

    for one in colours:  # WCAG: 3 for what is drawn
        low, high = sorted((luminance(one), luminance(palette["paper"])))
        assert (high + 0.05) / (low + 0.05) >= 2.99
