"""Text stays text, drawings stand alone, labels stay inside, colours exist."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from evodevo.backbone.diagrams.composition import Composition, composition_chart
from evodevo.backbone.diagrams.genome import Arc, LivMark, backbone_diagram
from evodevo.backbone.diagrams.glyph_line import StripRow, population_strips
from evodevo.growth.diagrams.curve import EditMark, growth_curve
from evodevo.growth.diagrams.lanes import EventMark, Lane, Point
from evodevo.growth.diagrams.timeline import growth_timeline
from evodevo.h_model.diagrams.flow import mean_flow
from evodevo.h_model.diagrams.routing import routing_diagram, routing_difference
from evodevo.module_zoo.diagrams.graph import NodeMark, module_graph_diagram
from evodevo.module_zoo.diagrams.zoo import InputMark, ModuleMark, Stage, module_zoo_diagram
from evodevo.module_zoo.draw import module_routing_diagram
from evodevo.multitask.diagrams.multipath_model import multipath_model
from evodevo.multitask.diagrams.support_usage import SupportUse, support_usage
from evodevo.multitask.diagrams.system.cycles import CycleCurve, system_cycles
from evodevo.multitask.diagrams.system.frame import Joined, OfferedPath, PartMark, Stream, SystemFrame
from evodevo.multitask.diagrams.system.graph import system_graph
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.bars import Measure, bars_beside, histogram
from evodevo.report.charts.curves import Series, TrainingCurve, line_chart, training_curves
from evodevo.report.charts.front import BaselinePoint, FrontPoint, front_chart
from evodevo.report.charts.heat_map import HeatRows, heat_map
from evodevo.report.charts.lineage import LineageNode, lineage_chart
from evodevo.report.palette import FAMILIES, MODULE_COLOURS, TASK_COLOURS, module_role, roles
from evodevo.report.svg import clean, one_line, shorten, text_width
from fixtures.traces import random_trace
from report.charts import sample_run
from report.charts.drawn import SVG, labels_inside

ALLOWED = {"svg", "style", "g", "rect", "line", "path", "circle", "text", "tspan", "title"}


@functools.cache
def every_drawing(text: str) -> dict[str, str]:
    """All drawings with ``text`` in every field that takes text."""
    livs = [LivMark(text, family, bool(n % 2), text, text) for n, family in enumerate([*FAMILIES, text])]
    arcs = [Arc(0, 2, text, text), Arc(1, 3, text, text)]
    points = [
        FrontPoint(text, 1.0, 2.0, 0, "front", (0, 2), (1, 3), text, text),
        FrontPoint(text, 1.0, None, 1, "failed"),
    ]
    points += [FrontPoint(text, None, 2.0, 1, "failed"), FrontPoint(text, None, None, 1, "failed")]
    axis, other = Axis(text, text), Axis(text, "bytes", minimise=True)
    nodes = [LineageNode(text + "a", 0, label=text), LineageNode(text, 1, (text + "a",), text, "front", text, text)]
    nodes_of = [NodeMark("a", text, text, text, title=text), NodeMark("b", "sum"), NodeMark("c", text, end=True)]
    stage, modules = (
        Stage(text, text),
        [ModuleMark(text, text, text, [text], 12, 0.5, 0.5), ModuleMark(text, text, text)],
    )
    named = {"inputs": (text,), "hidden": (text, text), "outputs": (text,), "kinds": (text, "lstm")}
    flow, other_flow = (mean_flow(dataclasses.replace(random_trace(2, 2, 2, seed=n), **named)) for n in (0, 1))
    seen = [Point(1, 0.5, text), Point(2, None, text)]
    lanes = [
        Lane(text + "a", text, text, end=3, heir=text, points=seen, words=text),
        Lane(text, text, text, 3, birth=text, parents=[text + "a"], again=[4], words=text),
    ]
    parts = {text + end: PartMark(text + end, text + end, 3, text, end == "r") for end in ("", "r", "c")}
    streams = (Stream(text, text, (text,), None, 0.8), Stream(text, text + "2", (text, text + "r"), text + "c", None))
    model = Joined(text, text, text + "3", streams, text + "r", 0.5, 0.5)
    routes = (
        OfferedPath(text, text, text, (text,), 0.4, 0.3),
        OfferedPath(text, text, text + "r", (text + "r",), None, root=True),
    )
    system = SystemFrame(text, 3, text, (text,), routes, (model,), parts, (text,))
    return {
        "system": system_graph(system, title=text, subtitle=text, task=text),
        "multipath model": multipath_model(system, model, title=text, subtitle=text),
        "cycles": system_cycles(
            [CycleCurve(text, [[0.1, 0.2], [0.3, 0.4]])], [CycleCurve(text, [[1.0]])], references=[(text, 0.2)]
        ),
        "supports": support_usage([SupportUse(text, text, 2, 1)]),
        "backbone": backbone_diagram(livs, arcs, arcs, [Arc(0, 3, text, text)], text, text),
        "population": population_strips([StripRow(text, livs, arcs, text, text)], text),
        "front": front_chart(points, axis, other, [BaselinePoint(text, 1.5, 2.5, title=text)]),
        "curves": training_curves([TrainingCurve(text, [(0, 1), (1, 2)], "stable", True, text)], axis, other),
        "lines": line_chart([Series(text, [(0, 1.0)]), Series(text, [(0, 2.0)])], Axis(text), Axis(text)),
        "lineage": lineage_chart(nodes, text),
        "composition": composition_chart([Composition(0, {text: 2.0, "SA-1": 1.0})], {text: "attention"}),
        "routing": routing_diagram(flow, text, text),
        "routing difference": routing_difference(flow, other_flow, (text, text), text),
        "heat map": heat_map([HeatRows(text, [text], [[0.1, None]])], [text, text], text),
        "module graph": module_graph_diagram(nodes_of, [("a", "b"), ("b", "c"), ("a", "c")], [text], text, text),
        "module zoo": module_zoo_diagram(modules, [InputMark(text, text)], stage, stage, [text], [text], text, text),
        "module routing": module_routing_diagram([text], [text, text], [[0.1, None]], [[1.0, None]], text),
        "growth timeline": growth_timeline(lanes, [EventMark(1, 3, text)], 9, text, axis, text, text),
        "growth curve": growth_curve([Series(text, [(0, 2.0)])], [EditMark(1, 3, [text], text)], axis, other),
        "bars": bars_beside([text], [Measure(text, [1.0], text), Measure(text, [None])]),
        "histogram": histogram([(text, 1.0), ("b", 2.0)], axis, other),
    }


PAYLOADS = [
    "</text><script>alert(1)</script>",
    "</title></svg><img src=x onerror=alert(1)>",
    '"><script>alert(1)</script>',
    "' onload='alert(1)",
    '" onmouseover="alert(1)',
    "<a href=javascript:alert(1)>x</a>",
    "]]><script>alert(1)</script>",
    "<!--<script>alert(1)</script>-->",
    "&lt;script&gt;alert(1)&lt;/script&gt;&#60;img&#62;",
    "</style><style>*{background:url(//evil.example)}</style>",
    "<!DOCTYPE x [<!ENTITY y SYSTEM 'file:///etc/passwd'>]>&y;",
    "\x00<script>\x00alert(1)</script>",
    "\u202e<script>alert(1)</script>\ud800\ufffe",
]


def shapes(svg: str) -> int:
    """Number of elements without labels, which do not always find room or one line."""
    return sum(part.tag not in (f"{SVG}text", f"{SVG}tspan") for part in ElementTree.fromstring(svg).iter())


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_text_becomes_markup(payload: str) -> None:
    for name, svg in every_drawing(payload).items():
        for part in ElementTree.fromstring(svg).iter():
            assert part.tag.removeprefix(SVG) in ALLOWED, name
            assert not any(attribute.lower().startswith(("on", "href", "style", "xlink")) for attribute in part.attrib)
        assert shapes(svg) == pytest.approx(shapes(every_drawing("x")[name]), abs=6)


@pytest.mark.parametrize(
    "text", ["\x1b]52;c;aGk=\x07", "\x1b[31mred", "a\rb", "\x9b31m", "\x7f", "\u202eabc", "\u2066x\u2069"]
)
def test_control_characters_are_made_visible(text: str) -> None:
    for name, svg in every_drawing(text).items():
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", svg), name
    assert "\\x" in clean(text) or "\\u" in clean(text)


def test_clean_keeps_ordinary_text_and_cuts_long_text() -> None:
    assert clean("naïve 模型 µ\n\tline") == "naïve 模型 µ\n\tline"
    assert one_line("a\n\t b  c") == "a b c"
    assert len(clean("x" * 5000)) == 2000
    assert clean("x" * 5000).endswith("…")


def test_drawings_stand_alone_and_every_class_has_a_colour() -> None:
    known = {f"{use}-{role}" for role in roles() for use in ("fill", "stroke")}
    for name, svg in every_drawing("x").items():
        assert "url(" not in svg, name
        assert set(re.findall(r"https?://[^\"']*", svg)) == {"http://www.w3.org/2000/svg"}, name
        assert not re.search(r"\s(id|style|href)=", svg), name
        for part in ElementTree.fromstring(svg).iter():
            names = part.get("class", "").split()
            assert {one for one in names if one.startswith(("fill-", "stroke-"))} <= known, name


# Colours


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    low, high = sorted(float(linear(colour) @ (0.2126, 0.7152, 0.0722)) for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("shade", [0, 1])
def test_text_is_readable_in_light_and_dark(shade: int) -> None:
    """WCAG AA: 4.5 for text on the ground that it is written on."""
    palette = {role: pair[shade] for role, pair in roles().items()}
    for role in ("ink", "muted", "failed", *FAMILIES):
        assert contrast(palette[role], palette["paper"]) >= 4.5, role
    for family in FAMILIES:
        assert contrast(palette["ink"], palette[f"{family}-soft"]) >= 7
        assert contrast(palette["muted"], palette[f"{family}-soft"]) >= 4.5
    for group in range(8):
        assert contrast(palette["ink"], palette[f"group-{group}"]) >= 4.5


# Machado, Oliveira and Fernandes 2009, severity 1; the last is what most eyes see.
EYES = (
    ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
    ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
)
CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
OKLAB = (
    (0.2104542553, 0.793617785, -0.0040720468),
    (1.9779984951, -2.428592205, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.808675766),
)


@pytest.mark.parametrize("shade", [0, 1])
def test_colours_of_tasks_stay_apart_for_all_eyes_and_from_the_ground(shade: int) -> None:
    palette = {role: pair[shade] for role, pair in roles().items()}
    colours = [palette[f"task-{index}"] for index in range(TASK_COLOURS)]
    for eye in EYES:
        seen = [np.array(OKLAB) @ np.cbrt(CONES @ np.clip(eye @ linear(one), 0, 1)) for one in colours]
        assert all(math.dist(a, b) >= 0.12 for a, b in itertools.combinations(seen, 2))
    for one in colours:  # WCAG: 3 for what is drawn
        assert contrast(one, palette["paper"]) >= 2.99


@pytest.mark.parametrize("shade", [0, 1])
def test_no_two_modules_have_one_colour(shade: int) -> None:
    palette = {role: pair[shade] for role, pair in roles().items()}
    colours = [palette[module_role(index)] for index in range(MODULE_COLOURS)]
    seen = [np.array(OKLAB) @ np.cbrt(CONES @ linear(one)) for one in colours]
    assert all(math.dist(a, b) >= 0.12 for a, b in itertools.combinations(seen, 2))
    for one in colours:
        assert contrast(one, palette["paper"]) >= 2.99
    with pytest.raises(ValueError, match="none with the number"):
        module_role(MODULE_COLOURS)


# Sizes


@pytest.mark.parametrize("text", ["K", "SA-1", "a rather long name of something", "W" * 300, "模型" * 90])
def test_labels_stay_within_the_view_box(text: str) -> None:
    for svg in every_drawing(text).values():
        labels_inside(svg)


def test_labels_of_realistic_drawings_stay_within_the_view_box() -> None:
    for seed in range(4):
        livs, feature, featurizer = sample_run.genome(seed, 24 + 24 * (seed % 2))
        labels_inside(backbone_diagram(livs, feature, featurizer, [], "a3f29bc1", "1.712 bits per byte"))
    labels_inside(lineage_chart(sample_run.nodes(), sample_run.nodes()[-1].id))
    values = [sample_run.scores(index, index // 10) for index in range(60)]
    points = [FrontPoint(str(i), size, quality, i // 10, "dominated") for i, (quality, size, _) in enumerate(values)]
    labels_inside(front_chart(points, Axis("cache", "bytes"), Axis("quality", "bits per byte")))


@pytest.mark.parametrize("mono", [False, True])
@pytest.mark.parametrize("text", ["abc", "W" * 50, "模" * 40, "i" * 200])
def test_shorten_fits(text: str, mono: bool) -> None:
    for width in (20.0, 60.0, 500.0):
        cut = shorten(text, width, 10, mono)
        assert text_width(cut, 10, mono) <= width
        assert cut == text or cut.endswith("…")
