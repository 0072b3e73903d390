"""The page on routing: complete without its script, safe, small, true to the trace."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from evodevo.h_model.report import page as routing_module
from evodevo.h_model.report.data import RoutingReport
from evodevo.h_model.report.page import LIMIT_BYTES, routing_page
from evodevo.h_model.trace.probe import route_probe
from evodevo.h_model.trace.summary import routing_report
from fixtures.traces import chain_trace, classes_trace, random_trace, trace_of

LANGUAGES = ("ar", "de", "en")


class Page(HTMLParser):
    """Tags, attributes, texts; the style sheet and the script apart."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.raw = {"style": "", "script": ""}
        self.texts: list[str] = []
        self.summaries: list[str] = []
        self.current = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.current = tag
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.current = ""

    def handle_data(self, data: str) -> None:
        if self.current in self.raw:
            self.raw[self.current] += data
        else:
            self.texts.append(data)
            if self.current == "summary":
                self.summaries.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(scope="module")
def report() -> RoutingReport:
    trace = classes_trace(60, LANGUAGES, noise=0.05)
    untrained = random_trace(60, 4, 4, inputs=2, outputs=2)
    probe = route_probe(trace, "language", untrained=untrained)
    checkpoints = [(0, untrained), (100, classes_trace(60, LANGUAGES, noise=0.2)), (200, trace)]
    return routing_report(
        trace,
        "Routing of a3f29bc1",
        fact="language",
        gradient_norms=np.array([0.1, 0.2, 0.3, 0.4]),
        probes=[probe],
        checkpoints=checkpoints,
    )


@pytest.fixture(scope="module")
def html(report: RoutingReport) -> str:
    return routing_page(report)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


@pytest.mark.slow
def test_the_policy_allows_our_style_and_script_by_hash_and_nothing_else(html: str, page: Page) -> None:
    (policy,) = (
        value for tag, name, value in page.attributes if tag == "meta" and name == "content" and "default-src" in value
    )
    hashes = {
        kind: "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for kind, text in page.raw.items()
    }
    assert policy == (
        f"default-src 'none'; style-src '{hashes['style']}'; base-uri 'none'; form-action 'none'; "
        f"script-src '{hashes['script']}'"
    )
    assert (page.tags["style"], page.tags["script"]) == (1, 1)
    assert not [name for _, name, _ in page.attributes if name == "style" or name.startswith("on")]
    assert not re.search(r"https?:|url\(|@import|<link|<iframe|<img|<object|<embed", html, re.IGNORECASE)
    assert html.index("Content-Security-Policy") < html.index("<style") < html.index("<script")


def test_the_script_is_a_constant(page: Page) -> None:
    other = routing_page(routing_report(chain_trace(), "Other"))
    assert page.raw["script"] == Page(other).raw["script"] != ""


def test_links_lead_somewhere_and_ids_are_unique(page: Page) -> None:
    ids = Counter(value for _, name, value in page.attributes if name == "id")
    assert set(ids) == {"summary", "means", "samples", "patterns", "layers", "time", "telling"}
    assert max(ids.values()) == 1
    assert {value for _, name, value in page.attributes if name == "href"} == {f"#{name}" for name in ids}


def test_every_class_pair_and_chosen_sample_can_be_chosen_without_a_script(page: Page) -> None:
    summaries = page.summaries
    for wanted in ("all 60 samples", "ar (20 samples)", "ar minus de", "ar minus en", "de minus en", "sample 0 (ar)"):
        assert wanted in summaries
    assert sum(text.startswith("sample ") for text in summaries) == 24


def test_the_numbers_of_the_report_are_on_the_page(report: RoutingReport, page: Page) -> None:
    (best, _), *_ = report.information.strongest if report.information else [("", 0.0)]
    for words in (
        "sentence 0 in ar", f"{report.chain.likeness:.2f}", f"k-means finds {len(report.patterns.shares)} patterns",
        "Gain over the untrained model: +", "routes, shuffled labels", "Drift over training", "gradient norm",
        "Halting", best,
    ):  # fmt: skip
        assert words in page.text


@pytest.mark.parametrize(
    "trace",
    [
        chain_trace(),
        random_trace(1),
        trace_of(np.full((2, 1, 3), 0.7), np.zeros((2, 0, 2, 3))),
        trace_of(np.zeros((2, 1, 3)), np.zeros((2, 2, 2, 3))),
        chain_trace().select(np.arange(0)),
    ],
    ids=["chain", "one sample", "no iterations", "silence", "no samples"],
)
def test_unusual_traces_have_pages(trace) -> None:
    text = Page(routing_page(routing_report(trace, "Routing"))).text
    assert "In one look" in text
    assert "nan" not in text.lower().replace("finance", "")


@pytest.mark.slow
def test_a_large_trace_stays_under_the_limit_and_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing_module, "LIMIT_BYTES", LIMIT_BYTES // 10)
    trace = random_trace(8, 4, 9, inputs=2, outputs=3)
    many = dataclasses.replace(trace, facts={"digit": np.arange(8) % 6})
    html = routing_page(routing_report(many, "Large", fact="digit"))
    assert LIMIT_BYTES // 40 < len(html.encode()) <= LIMIT_BYTES // 10
    assert "Fewer samples and classes are drawn" in html


def test_no_text_becomes_markup() -> None:
    payload = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\u202e"
    trace = classes_trace(12, LANGUAGES)
    hostile = dataclasses.replace(
        trace,
        inputs=(payload,) * 2,
        hidden=(payload,) * 4,
        outputs=(payload,) * 2,
        kinds=(payload,) * 4,
        facts={payload: trace.facts["language"]},
        names={payload: (payload, payload + "b", payload + "c")},
        samples=[{payload: payload}] * 12,
    )
    found = Page(routing_page(routing_report(hostile, payload, fact=payload, subtitle=payload, notes=[payload])))
    assert (found.tags["script"], found.tags["img"]) == (1, 0)
    assert "alert" not in found.raw["script"]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", found.text)


@pytest.mark.slow
def test_the_script_runs_in_a_browser(html: str, tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium to run the page's script in")
    path = tmp_path / "page.html"
    path.write_text(html, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run([browser, *options, path.as_uri()], capture_output=True, text=True, timeout=120)
    assert done.stdout.count('class="controls"') == 3
    assert len(re.findall(r'<details open="" hidden="">', done.stdout)) > 20
