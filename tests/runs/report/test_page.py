"""The report: complete, one file, safe, small, and never broken by what a run contains."""

from __future__ import annotations

import base64
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
from evodevo.runs.report import page as page_of_runs
from evodevo.runs.report.page import search_page
from evodevo.search.problem import Goal
from runs.report import sample_report as samples

VOID = {"meta", "br", "hr", "img", "input", "link", "base", "col", "embed", "source", "area", "wbr"}
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section", "footer", "div", "span"),
    *("h1", "h2", "h3", "p", "a", "b", "code", "pre", "figure", "figcaption", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "g", "rect", "line", "path", "circle", "text", "tspan"),
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


@pytest.fixture(scope="module")
def sample() -> samples.SampleRun:
    return samples.sample_run()


def build(run: samples.SampleRun) -> str:
    """The page on a run, with the parts of backbones."""
    return search_page(run, samples.SampleParts())


@pytest.fixture(scope="module")
def html(sample: Any) -> str:
    return build(sample)


def test_the_file_needs_nothing_from_outside_and_equal_runs_give_equal_bytes(sample: Any, html: str) -> None:
    assert build(sample) == html
    page = Page(html)
    assert not re.search(r"https?:|url\(|@import|<script|<link|<iframe|<img|<object|<embed", html, re.IGNORECASE)
    assert set(page.tags) <= ALLOWED
    links = [value for tag, name, value in page.attributes if name in ("href", "src")]
    assert links
    assert all(link.startswith("#") for link in links)
    targets = Counter(value for _, name, value in page.attributes if name == "id")
    assert {link[1:] for link in links} <= set(targets)
    assert max(targets.values()) == 1, "ids are unique"


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


def test_everything_of_the_run_is_on_the_page(sample: Any, html: str) -> None:
    page = Page(html)
    for individual in sample.individuals():
        assert individual.id[:8] in page.text
    for baseline in sample.baselines():
        assert baseline.name in page.text
    for word in (
        "54 of 60 runs stable (90 %)",
        "hypervolume",
        "backbone.small",
        "evodevo evolve backbone.small --seed 7",
        "50.0 minutes",
        "torch 2.11.0",
    ):
        assert word in page.text
    assert page.text.count("RuntimeError: loss is nan at step 12") >= 6
    assert "151.0 MB" in page.text
    assert "1.790 (1.770 to 1.820)" in page.text
    assert page.classes["curve"] == 60
    drawn = [one.genome for one in [*sample.front(), *sample.baselines()] if one.genome]
    assert page.classes["feature-arc"] == sum(len(b.feature_arcs) for b in drawn) > 0
    assert page.classes["featurizer-arc"] == sum(len(b.featurizer_arcs) for b in drawn) > 0
    assert page.classes["edge"] == sum(len(one.parents) for one in sample.individuals())


def test_the_reference_says_who_beats_it(sample: Any, html: str) -> None:
    values = [one.means["quality"] for one in [*sample.baselines(), *sample.front()]]
    page = Page(html)
    beaten = sum(value < 1.92 for value in values)
    assert f"{beaten} of {len(values)} models beat it" in page.text
    assert page.text.count("does not beat it") == len(values) - beaten
    assert "no token mixer in its second half" in page.text


def test_a_lead_over_a_baseline_is_judged_in_all_goals() -> None:
    goals = (Goal("loss"), Goal("accuracy", direction="maximise"))

    def words(loss: float | None, accuracy: float) -> str:
        best = samples.SampleIndividual("abcdefgh", 0, {"loss": loss, "accuracy": accuracy})
        base = samples.SampleIndividual("b", 0, {"loss": 1.0, "accuracy": 0.5}, name="base")
        if loss is None:
            best = samples.SampleIndividual("abcdefgh", 0, {"accuracy": accuracy})
        return Page(build(samples.SampleRun(goals, [best], ["abcdefgh"], [base]))).text

    assert "1 of 1 on the front is ahead of base in loss and accuracy: abcdefgh" in words(0.9, 0.5)
    assert "None on the front is ahead of base" in words(1.0, 0.5)
    assert "None on the front is ahead of base" in words(0.9, 0.4)
    assert "None on the front is ahead of base" in words(None, 0.9)


@pytest.mark.parametrize("bad", [math.nan, -math.inf, 1e308])
def test_any_number_survives_everywhere(sample: Any, bad: Any) -> None:
    changed = [
        replace(
            one,
            means=dict.fromkeys(one.means, bad) if number % 3 else one.means,
            spreads={"quality": (bad, 2.0)} if number % 2 else {},
            seconds=bad,
            points=[(float(x), bad) for x in range(3)],
        )
        for number, one in enumerate(sample.members)
    ]
    run = replace(
        sample,
        members=changed,
        volumes=[(0, bad), (1, 0.5), (2, bad)],
        drawn=[replace(sample.drawn[0], means={"quality": bad})],
        bigram=bad,
    )
    page = Page(build(run))
    assert not [
        value
        for _, name, value in page.attributes
        if name not in ("aria-label", "content") and re.search(r"\b(nan|inf)\b", value)
    ]


def test_an_empty_run_has_a_page() -> None:
    assert "No individual was evaluated" in Page(build(samples.SampleRun())).text
    page = Page(build(samples.SampleRun((Goal("quality"), Goal("cache", "bytes")))))
    assert "No individual has been scored yet" in page.text


def test_one_individual_one_goal_and_only_failures_have_pages(sample: Any) -> None:
    assert "1 on the front" in Page(build(replace(sample, members=sample.front()[:1]))).text
    page = Page(build(replace(sample, goals=sample.goals[:1])))
    assert "by generation of birth" in page.text
    assert page.classes["front-line"] == 0
    failed = [
        replace(one, failed=True, means={}, spreads={}, reason="memory", detail="", points=()) for one in sample.members
    ]
    page = Page(build(replace(sample, members=failed, best=(), volumes=())))
    assert "No evaluation succeeded" in page.text
    assert "60 of 60 evaluations failed" in page.text
    run = samples.SampleRun([Goal("q")], [samples.SampleIndividual(name, failed=True) for name in "ab"])
    assert "not finished 2" in Page(build(run)).text


@pytest.mark.slow
def test_a_large_run_stays_under_the_limit_and_says_what_was_left_out(
    sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_of_runs, "LIMIT_BYTES", 1_000_000)
    many = []
    for copy in range(5):
        for one in sample.members:
            curve = [(float(x), 2.0 + math.sin(x + copy)) for x in range(300)]
            many.append(replace(one, id=f"{copy:04d}{one.id}", detail="x" * 4000, points=curve))
    best = [one.id for one in many if one.id[4:] in sample.best]
    html = build(replace(sample, members=many, best=best))
    assert len(html.encode()) <= 1_000_000
    text = Page(html).text
    assert "Reduced to keep this file under 1 MB" in text
    assert re.search(r"first [\d,]+ of 300", text)


# Safety: every text of a run


PAYLOADS = (
    *(f"</{tag}><script>alert(1)</script>" for tag in ("title", "style", "textarea", "pre", "svg", "table")),
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
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
)


def poisoned(text: str) -> Any:
    """A run in which everything that is a text holds this one."""
    livs = [LivMark(text, "attention", False, text, text), LivMark(text, text, True, text, text)]
    arcs = [Arc(0, 1, text, text)]
    backbone = BackboneDrawing(livs, arcs, arcs, arcs, text, [text])
    common: dict[str, Any] = {"genome": backbone, "points": [(0, 2.0), (1, 1.0)]}
    common |= dict.fromkeys(("operation", "text", "remark", "name"), text)
    individual = samples.SampleIndividual
    members = [
        individual(text, 0, {text: 1.0, "quality": 2.0}, {text: (0.9, 1.1)}, **common),
        individual(text + "b", 1, {text: 2.0, "quality": 3.0}, parents=(text, text), **common),
        individual(text + "c", 1, {}, failed=True, reason=text, detail=text, **common),
    ]
    return samples.SampleRun(
        [Goal(text, text), Goal("quality", text)],
        members,
        [text],
        [individual("b", 0, {text: 1.0, "quality": 2.5}, {text: (0.5, 1.5)}, **common)],
        **dict.fromkeys(("id", "recipe", "state", "seed", "started"), text),
        finished=None,
        versions={text: text},
        settings={text: [text]},
        volumes=[(0, 1.0), (1, 2.0)],
        reference=(3.0, 3.0),
        population=[text],
        bigram=1.5,
    )


@pytest.fixture(scope="module")
def plain() -> Page:
    return Page(build(poisoned("plain")))


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_text_becomes_markup(payload: str, plain: Page) -> None:
    page = Page(build(poisoned(payload)))
    assert set(page.tags) <= ALLOWED
    for tag in ("script", "style", "section", "table", "tr", "td", "a", "details", "figure", "svg", "pre", "meta"):
        assert page.tags[tag] == plain.tags[tag], tag
    assert not [
        name for _, name, _ in page.attributes if name.startswith("on") or name in ("src", "style", "srcdoc", "action")
    ]
    assert all(value.startswith("#") for _, name, value in page.attributes if name == "href")
    assert {name for _, name, _ in page.attributes} <= {name for _, name, _ in plain.attributes}


def test_terminal_controls_and_direction_overrides_are_visible() -> None:
    html = build(poisoned("\x1b[31m\x9b\u202eabc\x07"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    assert "\\x1b[31m\\x9b\\u202eabc\\x07" in html
