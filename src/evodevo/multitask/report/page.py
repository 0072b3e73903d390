"""The page on a multitask system: one HTML file, complete without its script, at most ``LIMIT_BYTES`` long.

When it would be longer, fewer states of the graph are drawn and lists are cut, and a note on the page states it.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

from evodevo.multitask.diagrams.system.graph import system_graph
from evodevo.multitask.report.data import SystemReport
from evodevo.multitask.report.sections import SECTIONS, SystemDetail
from evodevo.report.html import element, navigation, page, paragraph
from evodevo.report.palette import STYLE
from evodevo.report.svg import whole

LIMIT_BYTES = 5_000_000
_DETAILS = (
    SystemDetail(frames=40, models=24, arms=16, children=1500),
    SystemDetail(frames=24, models=16, arms=16, children=800),
    SystemDetail(frames=14, models=12, arms=16, children=500),
    SystemDetail(frames=8, models=8, arms=12, children=300),
    SystemDetail(frames=4, models=4, arms=12, children=200),
    SystemDetail(frames=2, models=2, arms=8, children=100),
)
_STYLE = """
.slides>details>summary{padding:3px 0}
.scripted>details>summary{display:none}
.scripted>details[hidden]{display:none}
.controls{display:flex;flex-wrap:wrap;gap:8px 24px;margin:8px 0 12px;font-size:14px;align-items:center}
.controls label{display:flex;align-items:center;gap:10px;flex-wrap:wrap}
.controls input{width:min(420px,60vw)}
button{font:inherit;color:var(--ink);background:var(--soft);border:1px solid var(--line);border-radius:6px;
padding:3px 12px}
.following .route{opacity:.12}
.following .route.lit{opacity:1}
.foot:focus{outline:2px solid var(--link)}
"""


def system_page(data: SystemReport) -> str:
    """The page as one string of HTML, at most ``LIMIT_BYTES`` long in UTF-8."""
    text = ""
    # The bytes of the last graph determine how many fit, so that a large system is not drawn three times.
    drawn = len(system_graph(data.frames[-1])) - len(STYLE) if data.frames else 0
    fitting = [detail for detail in _DETAILS[:-1] if min(detail.frames, len(data.frames)) * drawn <= 0.8 * LIMIT_BYTES]
    for detail in (*fitting, _DETAILS[-1]):
        text = _html(data, detail)
        if len(text.encode()) <= LIMIT_BYTES:
            break
    return text


def _html(data: SystemReport, detail: SystemDetail) -> str:
    sections: list[Element] = [part for build in SECTIONS if (part := build(data, detail)) is not None]
    nav = navigation(sections)
    title = f"System {whole(data.name)}"
    header = element("header", element("h1", title), paragraph(whole(data.subtitle), classes="muted"), nav)
    footer = element("footer", paragraph("One file, no outside references. Made by evodevo."))
    script = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
    return page(title, header, element("main", *sections), footer, style=_STYLE, script=script)
