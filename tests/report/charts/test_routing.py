"""Routing diagrams draw the weights that they are given, where they belong, and say what they leave out."""

from __future__ import annotations

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
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.bars import Measure, bars_beside, histogram
from evodevo.report.charts.heat_map import HeatRows, heat_map
from evodevo.report.stack import stacked
from fixtures.traces import chain_trace, classes_trace, random_trace, trace_of

SVG = "{http://www.w3.org/2000/svg}"
EVERYTHING = Limits(threshold=0.0, strongest=10**6)


def drawn(svg: str) -> dict[tuple[str, str], float]:
    """Every line of a diagram: (source, target) -> weight."""
    lines = [line for line in ElementTree.fromstring(svg).iter(f"{SVG}line") if "route" in line.get("class", "")]
    found = {(line.get("data-from", ""), line.get("data-to", "")): float(line.get("data-weight", "")) for line in lines}
    assert len(found) == len(lines)
    return found


def words(svg: str) -> str:
    return " ".join(text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text"))


def test_every_connection_that_can_matter_is_one_line_of_its_weight() -> None:
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


def test_lines_go_from_column_to_column_and_row_to_row() -> None:
    svg = routing_diagram(mean_flow(random_trace(1, 3, 3)), limits=EVERYTHING)
    places: dict[str, tuple[str | None, str | None]] = {}
    for line in ElementTree.fromstring(svg).iter(f"{SVG}line"):
        if "route" in line.get("class", ""):
            for end, x, y in (("data-from", "x1", "y1"), ("data-to", "x2", "y2")):
                place = (line.get(x), line.get(y))
                assert places.setdefault(line.get(end, ""), place) == place
    columns = {node.split(".")[0]: x for node, (x, _) in places.items()}
    assert sorted(columns, key=lambda column: float(columns[column] or 0)) == ["0", "1", "2", "3", "4"]
    assert len({y for _, y in places.values()}) == 5


def test_stronger_lines_are_wider_clearer_and_on_top() -> None:
    svg = routing_diagram(mean_flow(random_trace(1, 2, 3)))
    lines = [line for line in ElementTree.fromstring(svg).iter(f"{SVG}line") if "route" in line.get("class", "")]
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
        assert f"None of {len(every)} connections" in words(svg)
    elif len(found) < len(every):
        assert re.search(rf"{len(found)} of {len(every)} connections", words(svg))


def test_nonsense_limits_are_refused() -> None:
    with pytest.raises(UsageError, match="threshold"):
        Limits(threshold=2)
    with pytest.raises(UsageError, match="at least 1"):
        Limits(strongest=0)


def test_a_chain_is_a_chain() -> None:
    found = drawn(routing_diagram(mean_flow(chain_trace(hidden=4))))
    assert found == {("0.0", "1.1"): 1, ("1.1", "2.2"): 1, ("2.2", "3.3"): 1, ("3.3", "4.4"): 1, ("4.4", "5.5"): 1}


def test_layers_that_were_not_called_are_faint_and_named() -> None:
    svg = routing_diagram(mean_flow(chain_trace(hidden=4)))
    nodes = {node.get("data-node"): node for node in ElementTree.fromstring(svg).iter(f"{SVG}g")}
    for column in range(1, 5):
        for row in range(1, 5):
            faint = [part for part in nodes[f"{column}.{row}"] if "stroke-faint" in part.get("class", "")]
            assert bool(faint) == (column != row)
            assert ("not called" in (nodes[f"{column}.{row}"].findtext(f"{SVG}title") or "")) == (column != row)
    assert "not called" in words(svg)


def test_the_halting_step_is_marked() -> None:
    trace = classes_trace(30)
    early = trace.select(np.flatnonzero(trace.steps == 3)[:1])
    assert "halts" in words(routing_diagram(mean_flow(early)))
    assert re.search(r"\d\d % halt", words(routing_diagram(mean_flow(trace))))
    assert "halt" not in words(routing_diagram(mean_flow(trace.select(trace.steps == 4))))


def test_a_difference_has_signs_in_colour_and_dash() -> None:
    trace = classes_trace(60)
    flows = [mean_flow(trace.select(trace.facts["language"] == value)) for value in (0, 2)]
    svg = routing_difference(flows[0], flows[1], ("de", "uk"))
    by_end = {
        line.get("data-to"): line
        for line in ElementTree.fromstring(svg).iter(f"{SVG}line")
        if line.get("data-from") == "0.0"
    }
    more, less = by_end["1.2"], by_end["1.4"]  # the layers of de and of uk
    assert more.get("stroke-dasharray") is None
    assert less.get("stroke-dasharray")
    assert more.get("class") != less.get("class")
    assert more.findtext(f"{SVG}title") == "input 0 → layer 0, t = 1: 0.900 more in de"
    assert "more in de" in words(svg)
    assert "more in uk" in words(svg)
    assert re.search(r"The strongest line is a difference of 0\.90\d\.", words(svg))
    assert {more.get("stroke-width"), less.get("stroke-width")} <= {"3.4", "3.5"}
    swapped = flow_difference(flows[1], flows[0])
    assert swapped.first == pytest.approx(-flow_difference(flows[0], flows[1]).first)


def test_only_equal_models_have_a_difference() -> None:
    with pytest.raises(UsageError, match="one model"):
        flow_difference(mean_flow(random_trace(2, 2, 3)), mean_flow(random_trace(2, 2, 4)))


def test_a_difference_of_a_model_to_itself_has_no_lines() -> None:
    flow = mean_flow(random_trace())
    assert not drawn(routing_difference(flow, flow, ("a", "b")))


def test_no_iterations_and_no_samples_are_drawn_too() -> None:
    direct = trace_of(np.full((2, 1, 3), 0.7), np.zeros((2, 0, 2, 3)))
    assert drawn(routing_diagram(mean_flow(direct))) == {("0.0", "1.3"): 0.7}
    assert "No sample" in words(routing_diagram(mean_flow(direct.select(np.arange(0)))))


def test_large_models_are_cut_and_say_so() -> None:
    svg = routing_diagram(mean_flow(random_trace(1, 40, 60)))
    assert "The busiest 40 of 60 layers." in words(svg)
    assert "The first 32 of 40 iterations." in words(svg)
    assert len(drawn(svg)) == 240
    assert len(svg) < 700_000


def test_the_label_is_for_people_who_cannot_see_it() -> None:
    root = ElementTree.fromstring(routing_diagram(mean_flow(chain_trace()), "German", "mean of 3"))
    assert root.get("role") == "img"
    assert root.get("aria-label") == "Routing: German. 5 connections drawn. mean of 3"


def test_heat_maps_shade_by_value_and_name_their_cells() -> None:
    svg = heat_map(
        [HeatRows("de", ["a", "b"], [[0.0, 1.0], [0.5, float("nan")]])], ["t = 1", "t = 2"], "activity", 0, 1
    )
    cells = [part for part in ElementTree.fromstring(svg).iter(f"{SVG}g") if part.get("class") == "cell"]
    shades = [[part.get("fill-opacity") for part in cell if part.get("fill-opacity")] for cell in cells]
    assert [float(shade[0]) if shade else 0.0 for shade in shades] == pytest.approx([0, 0.58, 0.29, 0])
    titles = [cell.findtext(f"{SVG}title") for cell in cells]
    assert titles == ["de, a, t = 1: 0", "de, a, t = 2: 1", "de, b, t = 1: 0.5", "de, b, t = 2: –"]
    many = heat_map([HeatRows("", [str(n) for n in range(900)], [[0.1]] * 900)], ["x"], "y")
    assert "The first 400 of 900 rows" in words(many)


def test_bars_are_as_long_as_their_numbers() -> None:
    svg = bars_beside(["a", "b", "c"], [Measure("share", [0.5, 1.0, None], full=1.0), Measure("norm", [2, 8, 4])])
    long = [float(bar.get("width", "")) for bar in ElementTree.fromstring(svg).iter(f"{SVG}rect") if bar.get("rx")]
    assert long[0] * 2 == pytest.approx(long[1], abs=0.2)
    assert long[2] == 0
    assert long[3] * 4 == pytest.approx(long[4], abs=0.4)
    assert "–" in words(svg)
    tall = histogram([("0", 1.0), ("1", 3.0)], Axis("iteration"), Axis("share"))
    bars = [float(bar.get("height", "")) for bar in ElementTree.fromstring(tall).iter(f"{SVG}rect") if bar.get("rx")]
    assert bars[1] == pytest.approx(3 * bars[0], rel=0.01)


@pytest.mark.parametrize(
    "svg", [heat_map([], ["a"], "x"), bars_beside([], []), histogram([], Axis("depth"), Axis("share"))]
)
def test_nothing_to_show_is_said(svg: str) -> None:
    assert words(svg).startswith("No ")


def test_stacked_drawings_lie_below_each_other_with_one_style() -> None:
    parts = [routing_diagram(mean_flow(random_trace(2, 2, layers)), "<b>") for layers in (2, 4)]
    svg = stacked(parts, "both")
    root = ElementTree.fromstring(svg)
    inner = root.findall(f"{SVG}svg")
    heights = [float(ElementTree.fromstring(part).get("height", "")) for part in parts]
    assert [float(part.get("y", "")) for part in inner] == [0, heights[0] + 14]
    assert float(root.get("height", "")) == sum(heights) + 14
    assert len(list(root.iter(f"{SVG}style"))) == 1
    assert words(svg).count("<b>") == 2
    assert ElementTree.fromstring(stacked([], "none")) is not None
