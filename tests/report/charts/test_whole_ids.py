"""No drawing cuts an id: its label, in as many lines as it needs, joins to the whole of it."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ElementTree

import pytest

from evodevo.multitask.diagrams.multipath_model import multipath_model
from evodevo.multitask.diagrams.support_usage import SupportUse, support_usage
from evodevo.multitask.diagrams.system.frame import SystemFrame
from evodevo.multitask.diagrams.system.graph import system_graph
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.bars import Measure, bars_beside
from evodevo.report.charts.front import BaselinePoint, FrontPoint, front_chart
from evodevo.report.charts.heat_map import HeatRows, heat_map
from evodevo.report.charts.lineage import LineageNode, lineage_chart
from report.charts import sample_run, sample_system
from report.charts.drawn import SVG, boxes_inside, label_boxes, labels_inside, marked, text_of, texts_of, words_of

LENGTHS = (10, 24, 60, 120, 200)


def name_of(long: int, number: int = 0) -> str:
    """An id of this length that begins as others do, and ends as none does."""
    return ("cifar100.a_rather-long_name_of.a.task_" * 6)[: long - 4] + f"~{number:03}"


def long_frame(count: int, long: int) -> SystemFrame:
    return sample_system.frame(count, 2, names=tuple(name_of(long, number) for number in range(count)))


@pytest.mark.parametrize("long", LENGTHS)
@pytest.mark.parametrize("count", [3, 20, 60])
def test_feet_of_a_graph(count: int, long: int) -> None:
    """Level, turned, and turned in narrow columns."""
    frame = long_frame(count, long)
    svg = system_graph(frame, title=f"system {name_of(long)}", subtitle=name_of(long, 7))
    labels_inside(svg)
    feet = {foot.get("data-task"): "".join(map(text_of, foot.iter(f"{SVG}text"))) for foot in marked(svg, "foot")}
    for task in frame.tasks:
        assert feet[task].endswith(task)
    assert f"system {name_of(long)}" in texts_of(svg)
    assert name_of(long, 7) in texts_of(svg)


def test_level_names_of_a_graph_stay_in_their_columns_and_above_what_follows() -> None:
    svg = system_graph(long_frame(6, 200))
    feet = [list(foot.iter(f"{SVG}tspan")) for foot in marked(svg, "foot")]
    lowest = max(float(line.get("y", "")) for lines in feet for line in lines)
    facts = [text for text in ElementTree.fromstring(svg).iter(f"{SVG}text") if "components," in text_of(text)]
    assert float(facts[0].get("y", "")) >= lowest + 10


def test_words_on_the_rows_of_a_graph_and_names_of_the_withdrawn() -> None:
    frame = long_frame(4, 30)
    parts = {key: dataclasses.replace(part, role=(part.role * 9)[:100]) for key, part in frame.parts.items()}
    gone = tuple(name_of(200, number) for number in range(25))
    svg = system_graph(dataclasses.replace(frame, parts=parts, withdrawn=gone))
    labels_inside(svg)
    words = " ".join(texts_of(svg))
    assert {part.role for part in parts.values() if "router" not in part.role} - set(texts_of(svg)) <= {
        part.role for part in parts.values() if "connector" in part.role
    }
    joined = "".join(words.split())
    assert all(name in joined for name in gone[:20])
    assert "5 more" in words


@pytest.mark.parametrize("long", LENGTHS)
def test_a_multipath_model(long: int) -> None:
    frame = long_frame(5, long)
    model = frame.joined[0]
    parts = {
        key: dataclasses.replace(part, role=(part.role * 9)[: max(long // 2, 9)]) for key, part in frame.parts.items()
    }
    frame = dataclasses.replace(frame, parts=parts)
    svg = multipath_model(frame, model, title=model.path)
    labels_inside(svg)
    boxes_inside(svg)
    texts = texts_of(svg)
    assert model.path in texts
    assert any(text.startswith(f"{model.task}: validation") for text in texts)
    for stream in model.streams:
        assert stream.path in texts
        assert any(text.endswith(f": {stream.task}") for text in texts)
    for part in model.streams[0].parts:
        assert parts[part].role in texts


@pytest.mark.parametrize("long", LENGTHS)
@pytest.mark.parametrize("count", [2, 8, 60])
def test_rows_and_columns_of_a_heat_map_and_names_of_bars(count: int, long: int) -> None:
    rows, columns = ([name_of(long, number + at) for number in range(count)] for at in (0, 100))
    svg = heat_map([HeatRows("", rows, [[0.5] * count for _ in rows])], columns, "share")
    labels_inside(svg)
    boxes_inside(svg)
    texts = texts_of(svg)
    assert all(name in texts for name in (*rows, *columns))
    titles = [one.text or "" for one in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert f"{rows[0]}, {columns[1]}: 0.5" in titles
    bars = bars_beside(rows, [Measure("share", [0.5] * count)])
    labels_inside(bars)
    boxes_inside(bars)
    assert all(name in texts_of(bars) for name in rows)
    uses = support_usage([SupportUse(rows[0], columns[0], 1, 1)])
    assert {rows[0], columns[0]} <= set(texts_of(uses))


def test_rows_of_a_heat_map_do_not_overlap() -> None:
    names = [name_of(long, long) for long in (10, 200, 60, 12)]
    svg = heat_map([HeatRows("", names, [[0.1]] * 4)], ["x"], "share")
    cells = [cell.find(f"{SVG}rect") for cell in marked(svg, "cell")]
    spans = [(float(one.get("y", "")), float(one.get("height", ""))) for one in cells if one is not None]
    labels = [text for text in ElementTree.fromstring(svg).iter(f"{SVG}text") if text_of(text) in names]
    for (top, high), label in zip(spans, labels, strict=True):
        lines = [float(line.get("y", "")) for line in label.iter(f"{SVG}tspan")] or [float(label.get("y", ""))]
        assert top <= min(lines) - 7
        assert max(lines) <= top + high
    assert "share" in words_of(svg)


@pytest.mark.parametrize("long", LENGTHS)
@pytest.mark.parametrize("pitch", [0.0, 70.0])
def test_labels_of_a_lineage(long: int, pitch: float) -> None:
    """Each above its own marker, and beside or above all others."""
    nodes = [dataclasses.replace(one, label=name_of(long, at)) for at, one in enumerate(sample_run.nodes())]
    svg = lineage_chart(nodes, nodes[-1].id, pitch)
    labels_inside(svg)
    assert {one.label for one in nodes} <= set(texts_of(svg))
    boxes = label_boxes(svg)
    for name in (one.label for one in nodes):
        left, top, right, bottom = boxes.pop(name)
        assert all(left >= r or right <= ll or top >= b or bottom <= t for ll, t, r, b in boxes.values()), name


def test_one_long_label_widens_a_lineage_and_short_ones_leave_it() -> None:
    plain = lineage_chart([LineageNode("a", 0), LineageNode("b", 1, ("a",))])
    assert "<tspan" not in lineage_chart(sample_run.nodes())
    long = lineage_chart([LineageNode("a", 0, label=name_of(200)), LineageNode("b", 1, ("a",))])
    assert float(ElementTree.fromstring(long).get("height", "")) > float(
        ElementTree.fromstring(plain).get("height", "")
    )


@pytest.mark.parametrize("long", LENGTHS)
@pytest.mark.parametrize("names", [None, {"front": "finalist", "dominated": "random search"}])
def test_labels_of_a_front(long: int, names: dict | None) -> None:
    """Of points that have room for one, of all baselines, and of those that have no place in the plane."""
    x_axis, y_axis = Axis("cache", "bytes", minimise=True), Axis("test bits per byte", minimise=True)
    labels = [name_of(long, number) for number in range(3)]
    points = [FrontPoint(name, 1 + at, 3 - at, state="front", label=name) for at, name in enumerate(labels)]
    lost = [FrontPoint(name_of(long, number), None, None, state="failed") for number in range(50, 75)]
    places = [(1.0, 3.0), (3.0, 1.0), (3.0, 3.0), (1.0, 1.0), (2.0, 2.2)]
    baselines = [BaselinePoint(name_of(long, 100 + at), *place) for at, place in enumerate(places)]
    svg = front_chart([*points, *lost], x_axis, y_axis, baselines, names=names)
    labels_inside(svg)
    texts = texts_of(svg)
    assert {one.name for one in baselines} <= set(texts)
    assert not any("…" in text for text in texts)
    (left_out,) = (text for text in texts if "without either number" in text)
    assert all(one.id in left_out for one in lost[:20])
    assert left_out.endswith(" and 5 more")
    alone = front_chart(points[1:2], x_axis, y_axis, names=names)
    assert labels[1] in texts_of(alone)


def test_a_baseline_has_its_name_wherever_it_lies() -> None:
    axes = Axis("x"), Axis("y")
    for x in range(21):
        ends = [BaselinePoint("a", 0, 0), BaselinePoint("b", 20, 1)]
        svg = front_chart([], *axes, [*ends, BaselinePoint(name_of(200), x, 0.5)])
        assert {"a", "b", name_of(200)} <= set(texts_of(svg))
        labels_inside(svg)
