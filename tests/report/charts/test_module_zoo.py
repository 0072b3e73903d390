"""Zoos drawn: every module and node is there once, inside the sheet and beside the others; lines miss the boxes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.module_zoo.diagrams.graph import NodeMark, module_graph_diagram
from evodevo.module_zoo.diagrams.zoo import InputMark, ModuleMark, Stage, module_zoo_diagram
from evodevo.module_zoo.draw import module_routing_diagram
from evodevo.report.layered_layout import BoxSize, layered
from report.charts.drawn import SVG, boxes_inside, corner_of, marked, size_of, words_of

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


Graph = tuple[list[str], list[tuple[str, str]]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Names and edges without a cycle, in any order."""
    names = [f"n{number}" for number in range(draw(st.integers(1, 12)))]
    pairs = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=24)) if pairs else []
    return draw(st.permutations(names)), edges


# Layout


@given(graphs(), st.data())
@settings(max_examples=25, deadline=None)
def test_boxes_stand_apart_and_edges_lead_to_the_right_past_them(graph: Graph, data: st.DataObject) -> None:
    names, edges = graph
    side = st.floats(10, 80)
    sizes = {name: BoxSize(data.draw(side), data.draw(side)) for name in names}
    layout = layered(sizes, edges)
    assert set(layout.centres) == set(names)
    for name, (x, y) in layout.centres.items():
        wide, high = sizes[name].width, sizes[name].height
        assert wide / 2 - 1e-6 <= x <= layout.width - wide / 2 + 1e-6
        assert high / 2 - 1e-6 <= y <= layout.height - high / 2 + 1e-6
        for other, (u, v) in layout.centres.items():
            beside = abs(x - u) - (wide + sizes[other].width) / 2
            assert other >= name or max(beside, abs(y - v) - (high + sizes[other].height) / 2) > -1e-6
    for start, end in edges:
        xs = [layout.centres[start][0], *(x for x, _ in layout.routes[start, end]), layout.centres[end][0]]
        assert xs == sorted(xs)
    even = layered(dict.fromkeys(names, BoxSize(40, 20)), edges)
    for points in even.routes.values():
        for (left, y), (right, level) in zip(points[::2], points[1::2], strict=True):
            assert y == level, "a column is passed level"
            for x, middle in even.centres.values():
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
def test_every_node_is_drawn_once(graph: Graph, text: str, end: bool) -> None:
    names, edges = graph
    kinds = ["attention", "sum", "concat", "norm", text]
    marks = [NodeMark(name, kinds[place % 5], kinds[place % 5], text, end, text) for place, name in enumerate(names)]
    svg = module_graph_diagram(marks, edges, [text, text], text, text)
    boxes_inside(svg)
    assert sorted(group.get("data-id", "") for group in marked(svg, "node")) == sorted(names)
    assert len(marked(svg, "edge", "path")) == len(set(edges))


def test_a_module_that_is_off_does_not_count_and_a_graph_says_what_its_nodes_are() -> None:
    nodes = [NodeMark("in", "in", end=True), NodeMark("a", "attention", "attention", "4 heads"), NodeMark("s", "sum")]
    svg = module_graph_diagram(nodes, [("in", "a"), ("a", "s"), ("in", "s")], ["88 parameters"], "mine", "of mine")
    for word in ("mine", "of mine", "in", "attention", "4 heads", "+", "88 parameters"):
        assert word in words_of(svg)
    assert "no nodes" in words_of(module_graph_diagram([], []))
    svg = module_zoo_diagram([ModuleMark("a", "mlp", "memoryless", share=0.5, disabled=True), ModuleMark("b", "", "")])
    assert "1 module, side by side" in words_of(svg)
    assert "50 %" not in words_of(svg)
    assert "no modules" in words_of(module_zoo_diagram([]))


# The whole network


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
    boxes_inside(svg)
    cards = marked(svg, "module")
    assert len(cards) == min(len(modules), 48)
    assert len({corner_of(group.find(f"{SVG}rect")) for group in cards}) == len(cards)
    assert ("of 60 modules" in words_of(svg)) == (len(modules) == 60)


@pytest.mark.parametrize(("share", "filled"), [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0), (7.0, 1.0)])
def test_the_bar_of_a_card_is_the_share(share: float, filled: float) -> None:
    (card,) = marked(module_zoo_diagram([ModuleMark("a", "mlp", "memoryless", share=share, executed=0.25)]), "module")
    track, bar = card.findall(f"{SVG}rect")[1:]
    assert size_of(bar)[0] == pytest.approx(filled * size_of(track)[0], abs=0.06)
    assert "run on 25 %" in " ".join(text.text or "" for text in card.iter(f"{SVG}text"))


# Routing


def test_routing_by_class_has_one_cell_per_module_and_value() -> None:
    weights = [[0.9, 0.2], [0.1, None]]
    svg = module_routing_diagram(["a", "b"], ["no", "yes"], weights, [[1.0, 0.5], [0.25, None]], "answer")
    titles = [group.findtext(f"{SVG}title") for group in marked(svg, "cell")]
    assert len(titles) == 8
    assert "a, no: 0.9" in titles
    assert "b, no: 0.25" in titles
    assert "by answer" in words_of(svg)
    alone = module_routing_diagram(["a", "b"], ["no", "yes"], weights)
    assert len(marked(alone, "cell")) == 4
    boxes_inside(svg)
