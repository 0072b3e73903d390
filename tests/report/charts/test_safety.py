"""Text stays text, drawings stand alone, labels stay inside, colours exist."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

import pytest

from evodevo.backbone.diagrams.composition import Composition, composition_chart
from evodevo.backbone.diagrams.genome import Arc, LivMark, backbone_diagram
from evodevo.backbone.diagrams.glyph_line import StripRow, genome_strip, population_strips
from evodevo.growth.diagrams.curve import EditMark, growth_curve
from evodevo.growth.diagrams.lanes import EventMark, Lane, Point
from evodevo.growth.diagrams.timeline import growth_timeline
from evodevo.h_model.diagrams.flow import mean_flow
from evodevo.h_model.diagrams.routing import routing_diagram, routing_difference
from evodevo.module_zoo.diagrams.graph import NodeMark, module_graph_diagram
from evodevo.module_zoo.diagrams.routing import module_routing_diagram
from evodevo.module_zoo.diagrams.zoo import InputMark, ModuleMark, Stage, module_zoo_diagram
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
from evodevo.report.palette import FAMILIES, roles
from evodevo.report.svg import clean, one_line, shorten, text_width
from fixtures.traces import random_trace

SVG = "{http://www.w3.org/2000/svg}"
ALLOWED = {"svg", "style", "g", "rect", "line", "path", "circle", "text", "title"}


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
        "strip": genome_strip(livs, arcs, text),
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
    "<script>alert(1)</script>",
    "</text><script>alert(1)</script>",
    "</title></svg><img src=x onerror=alert(1)>",
    '"><script>alert(1)</script>',
    "' onload='alert(1)",
    '" onmouseover="alert(1)',
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "javascript:alert(1)",
    "<a href=javascript:alert(1)>x</a>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "]]><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<!--<script>alert(1)</script>-->",
    "--><script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "<style>*{background:url(//evil.example)}</style>",
    "</style><script>alert(1)</script>",
    "<foreignObject><body onload=alert(1)></foreignObject>",
    "<use href='data:image/svg+xml,<svg onload=alert(1)>'/>",
    "<animate onbegin=alert(1) attributeName=x dur=1s>",
    "<math><mtext></mtext><script>alert(1)</script></math>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<form action=//evil.example><button>x</button></form>",
    "<!DOCTYPE x [<!ENTITY y SYSTEM 'file:///etc/passwd'>]>&y;",
    "{{constructor.constructor('alert(1)')()}}",
    "\x00<script>\x00alert(1)</script>",
    "\u202e<script>alert(1)</script>\ud800\ufffe",
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_text_becomes_markup(payload: str) -> None:
    plain = every_drawing("x")
    for name, svg in every_drawing(payload).items():
        root = ElementTree.fromstring(svg)
        for part in root.iter():
            assert part.tag.removeprefix(SVG) in ALLOWED, name
            assert not any(attribute.lower().startswith(("on", "href", "style", "xlink")) for attribute in part.attrib)
        # The same elements as with a harmless text, apart from labels that did not find room.
        shapes = [part.tag for part in root.iter() if part.tag != f"{SVG}text"]
        assert len(shapes) == pytest.approx(
            len([p for p in ElementTree.fromstring(plain[name]).iter() if p.tag != f"{SVG}text"]), abs=6
        )


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


def test_drawings_refer_to_nothing_outside_or_by_id() -> None:
    for name, svg in every_drawing("plain").items():
        assert "url(" not in svg, name
        assert set(re.findall(r"https?://[^\"']*", svg)) == {"http://www.w3.org/2000/svg"}, name
        assert not re.search(r"\s(id|style|href)=", svg), name


def test_every_class_has_a_colour() -> None:
    known = {f"{use}-{role}" for role in roles() for use in ("fill", "stroke")}
    for svg in every_drawing("plain").values():
        for part in ElementTree.fromstring(svg).iter():
            for name in part.get("class", "").split():
                if name.startswith(("fill-", "stroke-")):
                    assert name in known


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
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


def inside(svg: str) -> None:
    root = ElementTree.fromstring(svg)
    _, _, width, height = (float(part) for part in root.get("viewBox", "").split())
    for text in root.iter(f"{SVG}text"):
        size, x, y = (float(text.get(name, "")) for name in ("font-size", "x", "y"))
        wide = text_width(text.text or "", size, "mono" in text.get("class", ""))
        before = {"start": 0.0, "middle": wide / 2, "end": wide}[text.get("text-anchor", "start")]
        if text.get("transform"):  # turned a quarter: it reads upwards
            left, right, top, bottom = x - size, x + 0.3 * size, y - (wide - before), y + before
        else:
            left, right, top, bottom = x - before, x - before + wide, y - size, y + 0.3 * size
        assert left >= -1, text.text
        assert top >= -1, text.text
        assert right <= width + 1, text.text
        assert bottom <= height + 1, text.text


@pytest.mark.parametrize("text", ["K", "SA-1", "a rather long name of something", "W" * 300, "模型" * 90])
def test_labels_stay_within_the_view_box(text: str) -> None:
    for svg in every_drawing(text).values():
        inside(svg)


def test_labels_of_realistic_drawings_stay_within_the_view_box(sample) -> None:
    for seed in range(12):
        livs, feature, featurizer = sample.genome(seed, 24 + 24 * (seed % 2))
        inside(backbone_diagram(livs, feature, featurizer, [], "a3f29bc1", "1.712 bits per byte"))
    inside(lineage_chart(sample.nodes(), sample.nodes()[-1].id))
    values = [sample.scores(index, index // 10) for index in range(60)]
    points = [FrontPoint(str(i), size, quality, i // 10, "dominated") for i, (quality, size, _) in enumerate(values)]
    inside(front_chart(points, Axis("cache", "bytes"), Axis("quality", "bits per byte")))


@pytest.mark.parametrize("mono", [False, True])
def test_shorten_fits(mono: bool) -> None:
    cases: list[Callable[[], str]] = [lambda: "abc", lambda: "W" * 50, lambda: "模" * 40, lambda: "i" * 200]
    for case in cases:
        for width in (20.0, 60.0, 500.0):
            cut = shorten(case(), width, 10, mono)
            assert text_width(cut, 10, mono) <= width
            assert cut == case() or cut.endswith("…")
