"""The page on a system: complete without its script, safe, small, and true to what it is made from."""

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

import pytest

from evodevo.multitask.diagrams.support_usage import SupportUse
from evodevo.multitask.diagrams.system.cycles import CycleCurve
from evodevo.multitask.diagrams.system.frame import SystemFrame
from evodevo.multitask.report.data import AccuracyCurve, AgentChildren, SystemReport, TaskParameters
from evodevo.multitask.report.page import LIMIT_BYTES, system_page
from evodevo.multitask.transfer.table import TransferRow, TransferTable
from evodevo.report.charts.heat_map import HeatRows
from evodevo.report.word_tables import TextTable
from report.charts import sample_system


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


def frames(count: int, tasks: int, models: int) -> list[SystemFrame]:
    whole = sample_system.frame(tasks, models)
    return [dataclasses.replace(whole, seq=n, label=f"state {n}", joined=whole.joined[:n]) for n in range(1, count + 1)]


def report(text: str = "zoo", count: int = 4, tasks: int = 5, models: int = 2) -> SystemReport:
    arms = [CycleCurve(text, [[0.5, 0.6], [0.7, 0.8]])]
    child = ("7", "0", "61.0", "0.6000", "0.5900", text, "hp:opt_lr", f"kept: {text}")
    columns = ("child", "cycle", "validation %", "score", "bar", "parent", "changes", "why")
    return SystemReport(
        text,
        text,
        [("3", text)],
        [text],
        frames(count, tasks, models),
        count + 3,
        TextTable(("task", "validation %"), [(text, "61.0")], text),
        TextTable(("agent", "state"), [(text, text)], text),
        [TaskParameters(text, 12, 345)],
        HeatRows(text, [text], [[1, None]]),
        [text, text],
        [AccuracyCurve(text, text, arms, [CycleCurve(text, [[0.4, 0.5]])])],
        [SupportUse(text, text + "b", 4, 2, True, 0.25)],
        {text: probes(text)},
        [AgentChildren(text, "1 kept", TextTable(columns, [child], texts=("parent", "changes", "why")))],
        [("seed", text)],
        {"system": text},
    )


def probes(text: str) -> TransferTable:
    rows = [TransferRow(path=f"{text}/{n}", loss=0.5 + n, accuracy=0.8, width=4, seconds=0.1) for n in range(2)]
    return TransferTable(view=1, samples=90, prior=1.0, rows=tuple(rows))


def test_probes_are_shares_of_the_uncertainty_and_numbers() -> None:
    some = {f"ConvSmall~{name}": probes("ConvSmall~root_model~checkpoint") for name in ("a", "b")}
    page = Page(system_page(dataclasses.replace(report(), probes=some)))
    assert "Probes" in page.text
    assert "0.50" in page.text, "1 - 0.5 / 1.0"
    assert "1.500" in page.text, "the log-loss of the second one, which is worse than knowing nothing"


@pytest.fixture(scope="module")
def html() -> str:
    return system_page(report())


def test_the_policy_allows_our_style_and_script_by_hash_and_nothing_else(html: str) -> None:
    page = Page(html)
    (policy,) = (value for tag, name, value in page.attributes if name == "content" and "default-src" in value)
    hashes = {
        kind: "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for kind, text in page.raw.items()
    }
    assert f"style-src '{hashes['style']}'" in policy
    assert f"script-src '{hashes['script']}'" in policy
    assert not [name for _, name, _ in page.attributes if name == "style" or name.startswith("on")]
    assert not re.search(r"https?:|url\(|@import|<link|<iframe|<img|<object|<embed", html, re.IGNORECASE)


def test_every_section_is_there_and_links_lead_somewhere(html: str) -> None:
    page = Page(html)
    ids = Counter(value for _, name, value in page.attributes if name == "id")
    sections = {"summary", "graph", "tasks", "parameters", "cycles", "transfer", "multipath", "supports", "children"}
    sections |= {"facts"}
    assert set(ids) == sections
    assert max(ids.values()) == 1
    assert {value for _, name, value in page.attributes if name == "href"} == {f"#{name}" for name in ids}


def test_every_state_is_there_without_a_script_and_the_last_is_open(html: str) -> None:
    page = Page(html)
    states = [one for one in page.summaries if one.startswith("publication ")]
    assert states == [f"publication {n}: state {n}" for n in range(1, 5)]
    assert "4 of 7 states." in page.text
    assert 'data-label="state"' in html
    slides = html[html.index('class="slides"') : html.index("The paths in words")]
    assert re.findall(r"<details( open=\"open\")?><summary>publication", slides) == ["", "", "", ' open="open"']


def test_the_numbers_are_on_the_page(html: str) -> None:
    text = Page(html).text
    for words in ("61.0", "0.5900", "kept: zoo", "hp:opt_lr", "345", "0.250"):
        assert words in text
    assert "Mean weights over the test samples" in text


def test_a_young_system_has_a_page() -> None:
    empty = SystemReport("zoo", "", [], [], [], 0, TextTable(("task",), []), TextTable(("agent",), []))
    page = Page(system_page(empty))
    ids = {value for _, name, value in page.attributes if name == "id"}
    assert ids == {"summary", "tasks", "facts"}
    assert page.tags["script"] == 1


@pytest.mark.parametrize("long", [10, 80, 200])
def test_ids_are_never_cut(long: int) -> None:
    """Each id differs from the others at its end alone."""
    start = ("Multi.some_rather-long_name_" * 9)[: long - 2]
    name = {key: start + key for key in ("Aa", "Bb", "Cc", "Dd", "Ee", "Ff", "Gg", "Hh", "Ii", "Jj")}
    whole = report(start)
    page = Page(
        system_page(
            dataclasses.replace(
                whole,
                notes=[", ".join(f"{start}{number:02}" for number in range(40))],
                tasks=TextTable(("task", "answered by"), [(name["Aa"], name["Bb"])], ids=("answered by",)),
                parameters=[TaskParameters(name["Cc"], 12, 345)],
                courses=[AccuracyCurve(name["Dd"], "x", [CycleCurve(name["Ee"], [[0.5, 0.6]])], [])],
                supports=[SupportUse(name["Ff"], name["Gg"], 4, 2, True, 0.25)],
                probes={name["Hh"]: probes(name["Ii"])},
                facts=[("roots", ", ".join([start] * 5 + [name["Jj"]]))],
            )
        )
    )
    cells = {text.strip() for text in page.texts}
    assert set(name.values()) - {name["Ii"], name["Jj"]} <= cells
    assert {f"{name['Ii']}/0", f"{name['Ii']}/1"} <= cells
    assert name["Jj"] in page.text
    assert f"{start}39" in page.text


@pytest.mark.slow
def test_many_tasks_and_states_stay_under_the_limit_and_say_so() -> None:
    html = system_page(report(count=30, tasks=80, models=30))
    assert len(html.encode()) <= LIMIT_BYTES
    assert re.search(r"\d+ of 33 states\.", html)
    assert re.search(r"The first \d+ of 30 models", html)


@pytest.mark.parametrize(
    "payload", ["<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "\x1b[31m\u202e"]
)
def test_no_text_becomes_markup(payload: str) -> None:
    page = Page(system_page(report(payload)))
    assert page.tags["script"] == 1
    assert page.tags["img"] == 0
    assert "alert" not in page.raw["script"]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page.text)


@pytest.mark.slow
def test_the_script_runs_in_a_browser(html: str, tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium to run the page's script in")
    path = tmp_path / "page.html"
    path.write_text(html, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run([browser, *options, path.as_uri()], capture_output=True, text=True, timeout=120)
    assert done.stdout.count('class="controls"') == 1
    assert len(re.findall(r'<details open="[^"]*" hidden="">', done.stdout)) == 3


SCRIPT = """
const fs = require("fs"), assert = require("assert");
class Node {
  constructor() {
    Object.assign(this, { children: [], dataset: {}, on: {}, hidden: false, names: new Set(), found: {} });
    const names = this.names;
    this.classList = { add: (x) => names.add(x), contains: (x) => names.has(x),
      toggle: (x, on) => on ? names.add(x) : names.delete(x) }; }
  append(...all) { this.children.push(...all); }
  prepend(...all) { this.children.unshift(...all); }
  removeAttribute() {}
  setAttribute() {}
  addEventListener(event, work) { this.on[event] = work; }
  querySelector(what) { return this.found[what]; }
  querySelectorAll(what) { return this.found[what] || []; }
  closest() { return this.drawing; }
}
const frames = [0, 1, 2].map((n) => { const made = new Node(), words = new Node();
  words.textContent = "state " + n; made.found.summary = words; return made; });
const slides = new Node(), drawing = new Node();
slides.found[":scope > details"] = frames;
const routes = ["a", "b"].map((task) => { const made = new Node(); made.dataset.task = task; made.drawing = drawing;
  return made; });
drawing.found[".route"] = routes;
global.document = {
  querySelectorAll: (what) => what === ".slides" ? [slides] : routes, createElement: () => new Node() };
let tick = null;
global.setInterval = (work) => { tick = work; return 1; };
global.clearInterval = () => { tick = null; };
eval(fs.readFileSync(process.argv[1], "utf8"));
const [label, play] = slides.children[0].children, [, range, , words] = label.children;
const hidden = () => frames.map((one) => one.hidden).join();
assert.equal(hidden(), "true,true,false"); assert.equal(words.textContent, "state 2");
range.value = 1; range.on.input(); assert.equal(hidden(), "true,false,true");
play.on.click(); assert.equal(play.textContent, "stop"); tick(); assert.equal(hidden(), "true,true,false");
tick(); assert.equal(tick, null); assert.equal(play.textContent, "play");
play.on.click(); assert.equal(hidden(), "false,true,true"); play.on.click(); assert.equal(tick, null);
routes[0].on.pointerenter();
assert(routes[0].names.has("lit") && !routes[1].names.has("lit") && drawing.names.has("following"));
routes[0].on.pointerleave(); assert(!drawing.names.has("following"));
"""


def test_the_slider_shows_one_state_and_lines_can_be_followed() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to run the page's script in")
    script = Path(system_page.__code__.co_filename).with_name("page.js")
    done = subprocess.run([node, "-e", SCRIPT, str(script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
