"""Zoos drawn: every module and node is there once, inside the sheet and beside the others; lines miss the boxes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.module_zoo.diagrams.graph import NodeMark, module_graph_diagram
from evodevo.module_zoo.diagrams.routing import module_routing_diagram
from evodevo.module_zoo.diagrams.zoo import InputMark, ModuleMark, Stage, module_zoo_diagram
from evodevo.report.layered_layout import BoxSize, layered

SVG = "{http://www.w3.org/2000/svg}"
TEXT = st.text(max_size=30)
FAMILY = st.sampled_from(["attention", "recurrence", "memoryless", "something new"])
SHARE = st.none() | st.floats(allow_nan=True, allow_infinity=True)
MODULES = st.builds(
    ModuleMark,
    TEXT,
    TEXT,
    FAMILY,
    st.lists(TEXT, max_size=9),
    st.none() | st.integers(0, 10**12),
    SHARE,
    SHARE,
    st.booleans(),
)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    """Names and edges without a cycle, in any order."""
    names = [f"n{number}" for number in range(draw(st.integers(1, 12)))]
    pairs = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=24)) if pairs else []
    return draw(st.permutations(names)), edges


def groups(svg: str, name: str) -> list[ElementTree.Element]:
    return [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if group.get("class") == name]


def within_the_sheet(svg: str) -> None:
    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for rect in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.get(name, "")) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width + 0.11, rect.attrib
        assert 0 <= y <= y + h <= height + 0.11, rect.attrib


def words_of(svg: str) -> str:
    return " ".join(text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text"))


# Layout


@given(graphs(), st.data())
@settings(max_examples=25, deadline=None)
def test_boxes_stand_apart_and_edges_lead_to_the_right(graph: tuple[list[str], list[tuple[str, str]]], data) -> None:
    names, edges = graph
    side = st.floats(10, 80)
    sizes = {name: BoxSize(data.draw(side), data.draw(side)) for name in names}
    layout = layered(sizes, edges)
    assert set(layout.centres) == set(names)
    for name, (x, y) in layout.centres.items():
        assert sizes[name].width / 2 - 1e-6 <= x <= layout.width - sizes[name].width / 2 + 1e-6
        assert sizes[name].height / 2 - 1e-6 <= y <= layout.height - sizes[name].height / 2 + 1e-6
        for other, (u, v) in layout.centres.items():
            if other < name:
                apart = abs(x - u) - (sizes[name].width + sizes[other].width) / 2
                above = abs(y - v) - (sizes[name].height + sizes[other].height) / 2
                assert apart > -1e-6 or above > -1e-6
    for start, end in edges:
        xs = [layout.centres[start][0], *(x for x, _ in layout.routes[start, end]), layout.centres[end][0]]
        assert xs == sorted(xs)


@given(graphs())
@settings(max_examples=25, deadline=None)
def test_long_edges_pass_by_the_boxes(graph: tuple[list[str], list[tuple[str, str]]]) -> None:
    names, edges = graph
    layout = layered({name: BoxSize(40, 20) for name in names}, edges)
    for points in layout.routes.values():
        for (left, y), (right, level) in zip(points[::2], points[1::2], strict=True):
            assert y == level, "a column is passed level"
            for x, middle in layout.centres.values():
                assert not left <= x <= right or abs(middle - y) > 10, "through a box"


def test_a_residual_connection_leaves_its_column_to_the_boxes() -> None:
    sizes = {name: BoxSize(40, 20) for name in ("in", "a", "out")}
    layout = layered(sizes, [("in", "a"), ("a", "out"), ("in", "out")])
    assert layout.centres["in"][0] < layout.centres["a"][0] < layout.centres["out"][0]
    assert len(layout.routes["in", "out"]) == 2
    assert layout.routes["in", "a"] == ()


# One module


@given(graphs(), TEXT, st.booleans())
@settings(max_examples=15, deadline=None)
def test_every_node_is_drawn_once(graph: tuple[list[str], list[tuple[str, str]]], text: str, end: bool) -> None:
    names, edges = graph
    kinds = ["attention", "sum", "concat", "norm", text]
    marks = [NodeMark(name, kinds[place % 5], kinds[place % 5], text, end, text) for place, name in enumerate(names)]
    svg = module_graph_diagram(marks, edges, [text, text], text, text)
    within_the_sheet(svg)
    assert sorted(group.get("data-id", "") for group in groups(svg, "node")) == sorted(names)
    lines = [path for path in ElementTree.fromstring(svg).iter(f"{SVG}path") if "edge" in path.get("class", "")]
    assert len(lines) == len(set(edges))


def test_a_graph_says_what_its_nodes_are() -> None:
    nodes = [NodeMark("in", "in", end=True), NodeMark("a", "attention", "attention", "4 heads"), NodeMark("s", "sum")]
    svg = module_graph_diagram(nodes, [("in", "a"), ("a", "s"), ("in", "s")], ["88 parameters"], "mine", "of mine")
    for word in ("mine", "of mine", "in", "attention", "4 heads", "+", "88 parameters"):
        assert word in words_of(svg)
    assert "no nodes" in words_of(module_graph_diagram([], []))


# The whole network


@pytest.mark.slow
@given(
    st.lists(MODULES, min_size=1, max_size=60),
    st.lists(st.builds(InputMark, TEXT, TEXT), min_size=1, max_size=12),
    st.none() | st.builds(Stage, TEXT, TEXT),
    st.none() | st.builds(Stage, TEXT, TEXT),
    TEXT,
)
@settings(max_examples=15, deadline=None)
def test_every_module_has_a_card_within_the_sheet(modules, inputs, fusion, router, text) -> None:
    svg = module_zoo_diagram(modules, inputs, fusion, router, (text,), (text, text), text, text)
    within_the_sheet(svg)
    cards = groups(svg, "module")
    assert len(cards) == min(len(modules), 48)
    corners = {tuple(group.find(f"{SVG}rect").get(name) for name in ("x", "y")) for group in cards}  # type: ignore[union-attr]
    assert len(corners) == len(cards)
    assert ("of 60 modules" in words_of(svg)) == (len(modules) == 60)


@pytest.mark.parametrize(("share", "filled"), [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0), (7.0, 1.0)])
def test_the_bar_of_a_card_is_the_share(share: float, filled: float) -> None:
    (card,) = groups(module_zoo_diagram([ModuleMark("a", "mlp", "memoryless", share=share, executed=0.25)]), "module")
    track, bar = card.findall(f"{SVG}rect")[1:]
    assert float(bar.get("width", "")) == pytest.approx(filled * float(track.get("width", "")), abs=0.06)
    assert "run on 25 %" in " ".join(text.text or "" for text in card.iter(f"{SVG}text"))


def test_a_module_that_is_off_has_no_bar_and_does_not_count() -> None:
    svg = module_zoo_diagram([ModuleMark("a", "mlp", "memoryless", share=0.5, disabled=True), ModuleMark("b", "", "")])
    assert "1 module, side by side" in words_of(svg)
    assert "50 %" not in words_of(svg)
    assert "no modules" in words_of(module_zoo_diagram([]))


# Routing


def test_routing_by_class_has_one_cell_per_module_and_value() -> None:
    weights = [[0.9, 0.2], [0.1, None]]
    svg = module_routing_diagram(["a", "b"], ["no", "yes"], weights, [[1.0, 0.5], [0.25, None]], "answer")
    titles = [group.findtext(f"{SVG}title") for group in groups(svg, "cell")]
    assert len(titles) == 8
    assert "a, no: 0.9" in titles
    assert "b, no: 0.25" in titles
    assert "by answer" in words_of(svg)
    alone = module_routing_diagram(["a", "b"], ["no", "yes"], weights)
    assert len(groups(alone, "cell")) == 4
    within_the_sheet(svg)
