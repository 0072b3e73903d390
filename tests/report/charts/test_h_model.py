"""Drawings of H-Models and of their routing: all that is given is there, where it belongs; what is left out is said."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.errors import UsageError
from evodevo.h_model.diagrams.flow import flow_difference, mean_flow
from evodevo.h_model.diagrams.layout import Limits
from evodevo.h_model.diagrams.routing import routing_diagram, routing_difference
from evodevo.h_model.diagrams.structure import LayerMark, fold_layers, h_model_diagram
from evodevo.h_model.draw import h_model_drawing
from evodevo.h_model.spec import HModelStructure, preset
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.layers.liv import LIVLayer
from evodevo.operators.layers.lstm import LSTMLayer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.bars import Measure, bars_beside, histogram
from evodevo.report.charts.heat_map import HeatRows, heat_map
from evodevo.report.stack import stacked
from evodevo.testing.networks import CLASS, LABELS, TEXT, small_model
from fixtures.traces import chain_trace, classes_trace, random_trace, trace_of
from report.charts.drawn import SVG, boxes_inside, corner_of, marked, size_of, words_of

EVERYTHING = Limits(threshold=0.0, strongest=10**6)
MARKS = st.builds(
    LayerMark,
    st.text(max_size=30),
    st.sampled_from(["attention", "recurrence", "memoryless", "something new"]),
    st.text(max_size=30),
)


def drawn(svg: str) -> dict[tuple[str, str], float]:
    """Every line of a diagram: (source, target) -> weight."""
    lines = routes(svg)
    found = {(line.get("data-from", ""), line.get("data-to", "")): float(line.get("data-weight", "")) for line in lines}
    assert len(found) == len(lines)
    return found


def routes(svg: str) -> list[ElementTree.Element]:
    return marked(svg, "route", "line")


def test_every_connection_that_can_matter_is_one_line_from_column_to_column() -> None:
    trace = random_trace(3, iterations=3, hidden=2, inputs=2, outputs=1, seed=1)
    found = drawn(routing_diagram(mean_flow(trace), limits=EVERYTHING))
    wanted = {}
    for source, target in np.ndindex(2, 3):
        wanted[f"0.{source}", f"1.{2 + target}"] = trace.first[:, source, target].mean()
    for step, source, target in np.ndindex(3, 2, 3):
        if step < 2 or target == 2:  # hidden layers do not hear the last iteration
            wanted[f"{step + 1}.{2 + source}", f"{step + 2}.{2 + target}"] = trace.connections[
                :, step, source, target
            ].mean()
    assert found == pytest.approx(wanted, abs=5.1e-4)
    found = drawn(routing_diagram(mean_flow(chain_trace(hidden=4))))
    assert found == {("0.0", "1.1"): 1, ("1.1", "2.2"): 1, ("2.2", "3.3"): 1, ("3.3", "4.4"): 1, ("4.4", "5.5"): 1}
    svg = routing_diagram(mean_flow(random_trace(1, 3, 3)), limits=EVERYTHING)
    places: dict[str, tuple[str | None, str | None]] = {}
    for line in routes(svg):
        for end, x, y in (("data-from", "x1", "y1"), ("data-to", "x2", "y2")):
            place = (line.get(x), line.get(y))
            assert places.setdefault(line.get(end, ""), place) == place
    columns = {node.split(".")[0]: x for node, (x, _) in places.items()}
    assert sorted(columns, key=lambda column: float(columns[column] or 0)) == ["0", "1", "2", "3", "4"]
    assert len({y for _, y in places.values()}) == 5


def test_stronger_lines_are_wider_clearer_and_on_top() -> None:
    lines = routes(routing_diagram(mean_flow(random_trace(1, 2, 3))))
    for name in ("data-weight", "stroke-opacity", "stroke-width"):
        values = [float(line.get(name, "")) for line in lines]
        assert values == sorted(values)
        assert values[0] < values[-1]


@settings(max_examples=10, deadline=None)
@given(st.floats(0, 1), st.integers(1, 60), st.integers(0, 2**31))
def test_limits_hold_and_are_told(threshold: float, strongest: int, seed: int) -> None:
    flow = mean_flow(random_trace(1, 3, 4, seed=seed))
    every = drawn(routing_diagram(flow, limits=EVERYTHING))
    svg = routing_diagram(flow, limits=Limits(threshold, strongest))
    found = drawn(svg)
    strong = sorted((weight for weight in every.values() if weight > threshold + 1e-3), reverse=True)
    assert len(found) <= strongest
    assert all(weight >= threshold - 1e-3 for weight in found.values())
    assert sorted(found.values(), reverse=True)[: len(strong)] == strong[:strongest]
    if not found:
        assert f"None of {len(every)} connections" in words_of(svg)
    elif len(found) < len(every):
        assert re.search(rf"{len(found)} of {len(every)} connections", words_of(svg))


def test_nonsense_limits_are_refused() -> None:
    with pytest.raises(UsageError, match="threshold"):
        Limits(threshold=2)
    with pytest.raises(UsageError, match="at least 1"):
        Limits(strongest=0)


def test_layers_that_were_not_called_are_faint_and_named_and_the_drawing_has_a_label() -> None:
    svg = routing_diagram(mean_flow(chain_trace(hidden=4)), "German", "mean of 3")
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == "Routing: German. 5 connections drawn. mean of 3"
    nodes = {node.get("data-node"): node for node in root.iter(f"{SVG}g")}
    for column in range(1, 5):
        for row in range(1, 5):
            faint = [part for part in nodes[f"{column}.{row}"] if "stroke-faint" in part.get("class", "")]
            assert bool(faint) == (column != row)
            assert ("not called" in (nodes[f"{column}.{row}"].findtext(f"{SVG}title") or "")) == (column != row)
    assert "not called" in words_of(svg)


def test_the_halting_step_is_marked() -> None:
    trace = classes_trace(30)
    early = trace.select(np.flatnonzero(trace.steps == 3)[:1])
    assert "halts" in words_of(routing_diagram(mean_flow(early)))
    assert re.search(r"\d\d % halt", words_of(routing_diagram(mean_flow(trace))))
    assert "halt" not in words_of(routing_diagram(mean_flow(trace.select(trace.steps == 4))))


def test_a_difference_has_signs_in_colour_and_dash() -> None:
    trace = classes_trace(60)
    flows = [mean_flow(trace.select(trace.facts["language"] == value)) for value in (0, 2)]
    svg = routing_difference(flows[0], flows[1], ("de", "uk"))
    by_end = {line.get("data-to"): line for line in routes(svg) if line.get("data-from") == "0.0"}
    more, less = by_end["1.2"], by_end["1.4"]  # the layers of de and of uk
    assert more.get("stroke-dasharray") is None
    assert less.get("stroke-dasharray")
    assert more.get("class") != less.get("class")
    assert more.findtext(f"{SVG}title") == "input 0 → layer 0, t = 1: 0.900 more in de"
    assert "more in de" in words_of(svg)
    assert "more in uk" in words_of(svg)
    assert re.search(r"The strongest line is a difference of 0\.90\d\.", words_of(svg))
    assert {more.get("stroke-width"), less.get("stroke-width")} <= {"3.4", "3.5"}
    swapped = flow_difference(flows[1], flows[0])
    assert swapped.first == pytest.approx(-flow_difference(flows[0], flows[1]).first)


def test_only_equal_models_have_a_difference_and_to_itself_a_model_has_none() -> None:
    with pytest.raises(UsageError, match="one model"):
        flow_difference(mean_flow(random_trace(2, 2, 3)), mean_flow(random_trace(2, 2, 4)))
    flow = mean_flow(random_trace())
    assert not drawn(routing_difference(flow, flow, ("a", "b")))


def test_nothing_that_is_drawn_is_said_and_large_models_are_cut() -> None:
    direct = trace_of(np.full((2, 1, 3), 0.7), np.zeros((2, 0, 2, 3)))
    assert drawn(routing_diagram(mean_flow(direct))) == {("0.0", "1.3"): 0.7}
    assert "No sample" in words_of(routing_diagram(mean_flow(direct.select(np.arange(0)))))
    svg = routing_diagram(mean_flow(random_trace(1, 34, 42)))
    assert "The busiest 40 of 42 layers." in words_of(svg)
    assert "The first 32 of 34 iterations." in words_of(svg)
    assert len(drawn(svg)) == 240
    assert len(svg) < 700_000


def test_heat_maps_shade_by_value_and_name_their_cells() -> None:
    svg = heat_map(
        [HeatRows("de", ["a", "b"], [[0.0, 1.0], [0.5, float("nan")]])], ["t = 1", "t = 2"], "activity", 0, 1
    )
    cells = marked(svg, "cell")
    shades = [[part.get("fill-opacity") for part in cell if part.get("fill-opacity")] for cell in cells]
    assert [float(shade[0]) if shade else 0.0 for shade in shades] == pytest.approx([0, 0.58, 0.29, 0])
    titles = [cell.findtext(f"{SVG}title") for cell in cells]
    assert titles == ["de, a, t = 1: 0", "de, a, t = 2: 1", "de, b, t = 1: 0.5", "de, b, t = 2: –"]
    many = heat_map([HeatRows("", [str(n) for n in range(900)], [[0.1]] * 900)], ["x"], "y")
    assert "The first 400 of 900 rows" in words_of(many)


def test_bars_are_as_long_as_their_numbers() -> None:
    svg = bars_beside(["a", "b", "c"], [Measure("share", [0.5, 1.0, None], full=1.0), Measure("norm", [2, 8, 4])])
    long = [float(bar.get("width", "")) for bar in ElementTree.fromstring(svg).iter(f"{SVG}rect") if bar.get("rx")]
    assert long[0] * 2 == pytest.approx(long[1], abs=0.2)
    assert long[2] == 0
    assert long[3] * 4 == pytest.approx(long[4], abs=0.4)
    assert "–" in words_of(svg)
    tall = histogram([("0", 1.0), ("1", 3.0)], Axis("iteration"), Axis("share"))
    bars = [float(bar.get("height", "")) for bar in ElementTree.fromstring(tall).iter(f"{SVG}rect") if bar.get("rx")]
    assert bars[1] == pytest.approx(3 * bars[0], rel=0.01)


@pytest.mark.parametrize(
    "svg", [heat_map([], ["a"], "x"), bars_beside([], []), histogram([], Axis("depth"), Axis("share"))]
)
def test_nothing_to_show_is_said(svg: str) -> None:
    assert words_of(svg).startswith("No ")


def test_stacked_drawings_lie_below_each_other_with_one_style() -> None:
    parts = [routing_diagram(mean_flow(random_trace(2, 2, layers)), "<b>") for layers in (2, 4)]
    svg = stacked(parts, "both")
    root = ElementTree.fromstring(svg)
    inner = root.findall(f"{SVG}svg")
    heights = [float(ElementTree.fromstring(part).get("height", "")) for part in parts]
    assert [float(part.get("y", "")) for part in inner] == [0, heights[0] + 14]
    assert float(root.get("height", "")) == sum(heights) + 14
    assert len(list(root.iter(f"{SVG}style"))) == 1
    assert words_of(svg).count("<b>") == 2
    assert ElementTree.fromstring(stacked([], "none")) is not None


# Structures


@given(st.lists(MARKS, min_size=1, max_size=24), st.integers(0, 12), st.booleans(), st.text(max_size=200))
@settings(max_examples=25, deadline=None)
def test_every_layer_is_drawn_once_within_the_sheet(marks, iterations, ordered, fact) -> None:
    svg = h_model_diagram(marks, iterations, [fact, fact], title=fact, ordered=ordered)
    assert sum(int(group.get("data-count", "")) for group in marked(svg, "layer")) == len(marks)
    boxes_inside(svg)
    assert len(marked(svg, "loop", "path")) == (iterations > 1)


def test_equal_layers_are_one_box_and_boxes_do_not_overlap() -> None:
    a, b = LayerMark("a", "attention"), LayerMark("b", "memoryless")
    assert [(mark.name, mark.count) for mark in fold_layers([a, b, a, a])] == [("a", 3), ("b", 1)]
    folded = fold_layers([a, b, a, a], ordered=True)
    assert [(mark.name, mark.count) for mark in folded] == [("a", 1), ("b", 1), ("a", 2)]
    (large,) = marked(h_model_drawing(preset("full"), title="", subtitle=""), "layer")
    assert large.get("data-count") == "10"
    assert not marked(h_model_diagram([], 1), "layer")
    marks = [LayerMark(str(number), "attention") for number in range(11)]
    boxes = [group.findall(f"{SVG}rect")[-1] for group in marked(h_model_diagram(marks, 3), "layer")]
    assert len(boxes) == 11
    wide, high = size_of(boxes[0])
    for (x, y), (u, v) in itertools.combinations(map(corner_of, boxes), 2):
        assert abs(x - u) >= wide or abs(y - v) >= high


def test_a_structure_says_what_it_is() -> None:
    structure = HModelStructure(
        stream="paper",
        hidden=(TransformerLayer(), TransformerLayer(), LIVLayer(operator="Rec-1"), MLPLayer(width=32), LSTMLayer()),
        iterations=3,
        alpha=0.3,
        window=2,
        inference=InferenceStructure(mode="target_topm", m=2),
    )
    svg = h_model_drawing(structure, title="mine", subtitle="of the test")
    texts = words_of(svg)
    for words in ("mine", "of the test", "T = 3", "5 hidden layers, in order", "×2", "alpha 0.3", "width 32"):
        assert words in texts, words
    assert "answers target_topm, m = 2" in texts
    assert {"attention", "recurrence", "memoryless"} <= set(texts.split())


def test_layers_of_an_outputs_own_are_named() -> None:
    model = small_model((TEXT,), (CLASS, LABELS))
    assert "alone" not in words_of(h_model_drawing(model.structure, title="", subtitle=""))
    model.give("tags", [model.add_node(TransformerLayer(heads=2), enabled=True).place])
    svg = h_model_drawing(model.structure, title="", subtitle="")
    assert "tags alone: layers 3" in words_of(svg)
