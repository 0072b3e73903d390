"""The parts of a report page: elements, tables, figures, the page itself.

A page is an element tree until the very end, so that text cannot become markup. It has one style sheet and at most
one script, a file of ours, allowed by their hashes in the content security policy; everything else (other scripts,
pictures, fonts, frames, requests) is forbidden.
"""

from __future__ import annotations

import base64
import hashlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from evodevo.report.palette import STYLE as DIAGRAM_STYLE
from evodevo.report.svg import SVG_NAMESPACE, clean, one_line

Content = Element | str | None

_LONG = 60
"""A cell of more characters is wrapped anywhere, as ids need it that have no spaces."""
_PAGE_STYLE = """
:root{--paper:#fff;--page:#f3f4f6;--ink:#1b1f24;--muted:#59636e;--line:#e1e5ea;--soft:#f6f7f9;--link:#0068a5;
--bad:#b0005b;--good:#007a5a;color-scheme:light dark}
@media screen and (prefers-color-scheme:dark){:root{--paper:#14171c;--page:#0d0f12;--ink:#e8eaed;--muted:#9aa4af;
--line:#2d333b;--soft:#1b1f26;--link:#56b4e9;--bad:#ff7ab8;--good:#35c79a}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);line-height:1.5;font-size:15px;
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
main,header,footer{max-width:1080px;margin:0 auto;padding:0 16px}
header{padding-top:28px}
h1{font-size:26px;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:19px;margin:0 0 6px}
h3{font-size:15px;margin:18px 0 6px}
p{margin:6px 0 10px;max-width:76ch;overflow-wrap:anywhere}
a{color:var(--link)}
nav{margin:10px 0 18px}
nav a{margin-right:16px;white-space:nowrap}
section{background:var(--paper);border:1px solid var(--line);border-radius:10px;padding:18px 20px;margin:0 0 18px}
.muted,figcaption,caption,footer{color:var(--muted)}
figcaption,caption{font-size:13px;text-align:left;max-width:86ch}
caption{padding-bottom:6px}
.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}
.scroll{overflow-x:auto;max-width:100%}
.cards{display:flex;flex-wrap:wrap;gap:10px;margin:12px 0}
.card{background:var(--soft);border:1px solid var(--line);border-radius:8px;padding:8px 14px;min-width:128px}
.card b{display:block;font-size:20px;font-variant-numeric:tabular-nums}
.card span{font-size:13px;color:var(--muted)}
table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{padding:4px 12px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line);
overflow-wrap:break-word;min-width:56px;max-width:460px}
td:last-child:not(.number){min-width:190px}
th{font-weight:600}
td details{margin:0}
td code{overflow-wrap:break-word}
tbody th{white-space:nowrap}
tbody .long{white-space:normal;overflow-wrap:anywhere;min-width:260px}
thead th{color:var(--muted);white-space:nowrap}
.number{text-align:right}
td.number{white-space:nowrap}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12.5px;
overflow-wrap:anywhere}
pre{white-space:pre-wrap;background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:10px;
max-height:420px;overflow:auto}
figure{margin:10px 0 16px}
svg.diagram{display:block}
.wide svg.diagram{width:100%;height:auto;max-width:980px}
details{margin:6px 0}
summary{cursor:pointer;color:var(--link)}
.genomes{display:grid;grid-template-columns:repeat(auto-fill,minmax(330px,1fr));gap:18px;align-items:start}
.genome{border:1px solid var(--line);border-radius:8px;padding:10px;overflow-x:auto}
.genome svg.diagram{margin:0 auto}
.genome p{font-size:13.5px}
.fits svg.diagram{max-width:100%;height:auto}
@media print{body{background:#fff}section{break-inside:avoid-page;border:0}}
"""
STYLE = _PAGE_STYLE.strip() + "\n" + DIAGRAM_STYLE


def element(tag: str, *content: Content, classes: str = "", **attributes: str) -> Element:
    """``<tag class=…>`` holding texts and elements in order; None is left out. All text is cleaned and escaped."""
    made = Element(tag, {**({"class": classes} if classes else {}), **{k: clean(v) for k, v in attributes.items()}})
    add(made, *content)
    return made


def add(parent: Element, *content: Content) -> None:
    """Appends texts and elements to ``parent``."""
    for item in content:
        if item is None:
            continue
        if isinstance(item, Element):
            parent.append(item)
        elif len(parent):
            parent[-1].tail = (parent[-1].tail or "") + clean(item, 100_000)
        else:
            parent.text = (parent.text or "") + clean(item, 100_000)


def paragraph(*content: Content, classes: str = "") -> Element:
    return element("p", *content, classes=classes)


def section(anchor: str, heading: str, *content: Content) -> Element:
    """A card of the page; ``anchor`` is its place for links within the page."""
    return element("section", element("h2", heading), *content, id=anchor)


def navigation(sections: Iterable[Element]) -> Element:
    """Links to sections of the page, by their headings."""
    nav = element("nav")
    for part in sections:
        add(nav, element("a", part[0].text, href=f"#{part.get('id')}"), " ")
    return nav


def details(summary: str, *content: Content) -> Element:
    """Content that is hidden until a reader opens it; works without a script."""
    return element("details", element("summary", summary), *content)


def table(
    headings: Sequence[str], rows: Iterable[Sequence[Content]], numeric: Iterable[int] = (), caption: str = ""
) -> Element:
    """A table whose first column names its rows; the columns ``numeric`` (0-based) are set flush right."""
    right = frozenset(numeric)

    def cell(tag: str, column: int, content: Content, scope: str = "") -> Element:
        long = isinstance(content, str) and len(content) > _LONG
        made = element(tag, content, classes=" ".join(["number"] * (column in right) + ["long"] * long))
        if scope:
            made.set("scope", scope)
        return made

    head = element("thead", element("tr", *(cell("th", index, text, "col") for index, text in enumerate(headings))))
    body = element("tbody")
    for row in rows:
        cells = [cell("td" if index else "th", index, item, "" if index else "row") for index, item in enumerate(row)]
        body.append(element("tr", *cells))
    whole = element("table", element("caption", caption) if caption else None, head, body)
    return element("div", whole, classes="scroll")


def drawing(svg: str) -> Element:
    """An SVG string of ``evodevo.report.charts`` as part of the page, whose style sheet holds that of the drawings."""
    root = ElementTree.fromstring(svg)
    for part in root.iter():
        part.tag = part.tag.removeprefix(f"{{{SVG_NAMESPACE}}}")
    for style in root.findall("style"):
        root.remove(style)
    return root


def figure(svg: str, caption: str, alternative: Element | None = None, classes: str = "wide") -> Element:
    """A drawing with its caption and, folded away, the same numbers as a table."""
    return element(
        "figure",
        element("div", drawing(svg), classes=f"scroll {classes}"),
        element("figcaption", caption) if caption else None,
        details("The numbers as a table", alternative) if alternative is not None else None,
    )


def cards(items: Iterable[tuple[str, str]]) -> Element:
    """Key numbers: (value, what it is)."""
    return element(
        "div",
        *(element("div", element("b", value), element("span", words), classes="card") for value, words in items),
        classes="cards",
    )


def page(title: str, *body: Element, style: str = "", script: str = "") -> str:
    """The whole file.

    Args:
        title: title of the page.
        body: its parts in order.
        style: rules besides those of all pages.
        script: a script of ours, constant text that holds nothing of a run; it is placed at the end of the page.
    """
    rules = STYLE + ("\n" + style.strip() if style else "")
    policy = f"default-src 'none'; style-src '{_hash(rules)}'; base-uri 'none'; form-action 'none'"
    if script:
        policy += f"; script-src '{_hash(script)}'"
    sheet, code = Element("style"), Element("script")
    sheet.text, code.text = rules, script
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", **{"http-equiv": "Content-Security-Policy", "content": policy}),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        sheet,
    )
    root = element("html", head, element("body", *body, code if script else None), lang="en")
    return "<!DOCTYPE html>\n" + ElementTree.tostring(root, encoding="unicode", method="html") + "\n"


def _hash(text: str) -> str:
    """Source expression of a style sheet or script in a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def cut(text: object, limit: int = 120) -> str:
    """``text`` on one line, at most ``limit`` characters long."""
    return one_line(text, limit)
