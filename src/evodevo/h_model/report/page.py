"""The page on how an H-Model routes: one HTML file, complete without its script, at most ``LIMIT_BYTES`` long.

When it would be longer, fewer samples and pairs of classes are drawn, and a note on the page counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from evodevo.h_model.report.data import RoutingReport
from evodevo.h_model.report.pictures import class_section, pattern_section, sample_section
from evodevo.h_model.report.sections import layer_section, probe_section, time_section
from evodevo.h_model.report.view import RoutingDetail, RoutingView
from evodevo.report.charts.numbers import MISSING, show
from evodevo.report.html import cards, cut, element, navigation, page, paragraph, section

LIMIT_BYTES = 5_000_000
_DETAILS = (
    RoutingDetail(samples=24, classes=12, pairs=28, patterns=8, lines=200),
    RoutingDetail(samples=12, classes=8, pairs=15, patterns=6, lines=140),
    RoutingDetail(samples=6, classes=6, pairs=6, patterns=4, lines=90),
    RoutingDetail(samples=2, classes=3, pairs=3, patterns=2, lines=60),
)
_STYLE = """
.chooser>details>summary{padding:3px 0}
.scripted>details>summary{display:none}
.scripted>details[hidden]{display:none}
.controls{display:flex;flex-wrap:wrap;gap:8px 24px;margin:8px 0 12px;font-size:14px}
.controls label{display:flex;align-items:center;gap:6px}
select{font:inherit;color:var(--ink);background:var(--soft);border:1px solid var(--line);border-radius:6px;
padding:3px 6px;max-width:100%}
.patterns{display:grid;grid-template-columns:repeat(auto-fill,minmax(330px,1fr));gap:14px}
.patterns figure{margin:0;overflow-x:auto}
.maps{display:flex;flex-wrap:wrap;gap:4px 22px}
.maps figure{margin:0}
.route.off{display:none}
.following .route{opacity:.07}
.following .route.lit{opacity:1}
.node:focus{outline:2px solid var(--link)}
"""


def routing_page(report: RoutingReport) -> str:
    """The page as one string of HTML, at most ``LIMIT_BYTES`` long in UTF-8."""
    text = ""
    for level, detail in enumerate(_DETAILS):
        text = _html(RoutingView(report, detail, reduced=level > 0))
        if len(text.encode()) <= LIMIT_BYTES:
            break
    return text


def _html(view: RoutingView) -> str:
    sections = [part for build in _SECTIONS if (part := build(view)) is not None]
    nav = navigation(sections)
    title = cut(view.report.title)
    subtitle = paragraph(cut(view.report.subtitle, 300), classes="muted") if view.report.subtitle else None
    header = element("header", element("h1", title), subtitle, nav)
    footer = element("footer", paragraph("One file, no outside references. Made by evodevo."))
    script = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
    return page(title, header, element("main", *sections), footer, style=_STYLE, script=script)


def _summary(view: RoutingView) -> Element:
    report, trace = view.report, view.report.trace
    known = report.depth[np.isfinite(report.depth)]
    items = [
        (f"{trace.count:,}", "samples"),
        (f"{len(trace.hidden)} × {trace.iterations}", "layers × iterations"),
        (f"{report.paths:,}", f"hard paths; the first has {100 * report.main_path:.0f} %"),
        (str(len(report.patterns.shares)), "routing patterns"),
        (show(float(known.mean()), digits=3) if len(known) else MISSING, "mean depth used"),
        (f"{report.chain.likeness:.2f}", f"likeness to a chain (uniform {report.chain.uniform:.2f})"),
    ]
    if report.probes and report.probes[0].gain:
        gain = report.probes[0].gain[0]
        items.append((f"{gain:+.3f}", f"accuracy of {cut(report.probes[0].fact, 40)} from routes, over untrained"))
    words = (
        "A connection's weight is the share of a layer's message that another one receives. Inputs come first; in each "
        "iteration every layer that is called sends to the layers of the next one and to the outputs, which add "
        "up what they receive."
    )
    content: list[Element] = [cards(items), paragraph(words)]
    content += [paragraph(cut(note, 1000)) for note in list(report.notes)[:20]]
    order = " → ".join(cut(name, 40) for name in list(report.chain.order)[:40])
    if len(report.chain.order) > 1 and trace.iterations > 1:
        nearest = "the nearest" if report.chain.exact else "a near"
        content.append(paragraph(f"As a feed-forward stack, {nearest} order of the layers is {order}."))
    if view.reduced:
        remark = f"Fewer samples and classes are drawn, to keep this file under {LIMIT_BYTES // 1_000_000} MB."
        content.append(paragraph(remark, classes="muted"))
    return section("summary", "In one look", *content)


_SECTIONS: tuple[Callable[[RoutingView], Element | None], ...] = (
    _summary,
    class_section,
    sample_section,
    pattern_section,
    layer_section,
    time_section,
    probe_section,
)
