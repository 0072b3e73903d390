"""The page on how an H-Model routes: one HTML file, complete without its script, at most ``LIMIT_BYTES`` long.

When it would be longer, fewer samples and pairs of classes are drawn, and a note on the page counts them. Its numbers:
activity of layers, changes over iterations and checkpoints, and facts that routes predict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from evodevo.h_model.report.data import Doubles, RoutingReport
from evodevo.h_model.report.pictures import class_section, pattern_section, sample_section
from evodevo.h_model.report.view import RoutingDetail, RoutingView
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.bars import Measure, bars_beside, histogram
from evodevo.report.charts.curves import Series, line_chart
from evodevo.report.charts.heat_map import HeatRows, heat_map
from evodevo.report.charts.numbers import MISSING, show
from evodevo.report.html import cards, cut, element, figure, navigation, page, paragraph, section, table


def layer_section(view: RoutingView) -> Element | None:
    """Activity per class, specialisation, self-loops beside gradient norms."""
    report, trace = view.report, view.report.trace
    if not trace.iterations:
        return None
    columns = [f"t = {step + 1}" for step in range(trace.iterations)]
    groups = [HeatRows("all samples", trace.hidden, _rows(report.activity.T))]
    groups += [HeatRows(cut(each.name, 60), trace.hidden, _rows(each.activity.T)) for each in view.classes]
    maps = element("div", classes="maps")
    for group in groups:
        maps.append(figure(heat_map([group], columns, "activity", 0.0, 1.0), "", classes="fits"))
    words = (
        "How active each layer is in each iteration: min(1, inflow), what the inflow gate lets through; 0 where it was "
        "not called."
    )
    content = [element("h3", "Activity"), paragraph(words), maps]
    if len(view.classes) > 1:
        names = [cut(each.name, 60) for each in view.classes]
        shares = HeatRows("", names, [_numbers(each.shares) for each in view.classes])
        rows = [shares]
        if report.class_index is not None:
            rows.append(HeatRows("specialisation index", ["index"], [_numbers(report.class_index)]))
        svg = heat_map(rows, trace.hidden, "share of a layer's activity that goes to a class", 0.0, 1.0)
        caption = (
            f"All classes counted alike: {1 / len(report.classes):.2f} everywhere where layers serve all alike. The "
            "index is 0 for such a layer and 1 for one that serves one class only."
        )
        content += [element("h3", "Specialisation"), figure(svg, caption, classes="fits")]
    measures = [Measure("self-loop share", _numbers(report.self_loops), full=1.0)]
    caption = "Of a layer's messages to hidden layers, the share that goes to itself."
    if report.gradient_norms is not None:
        measures.append(Measure("gradient norm", _numbers(report.gradient_norms)))
        caption += " Beside it the norm of the loss' gradient by its parameters: do self-connected layers learn?"
    content += [element("h3", "Self-loops"), figure(bars_beside(trace.hidden, measures), caption, classes="fits")]
    return section("layers", "Layers", *content)


def time_section(view: RoutingView) -> Element:
    """Entropy, depth and halting over iterations, drift over checkpoints."""
    report, trace = view.report, view.report.trace
    steps = [str(step) for step in range(trace.iterations + 1)]
    content: list[Element] = []
    points = [(float(step), _number(value)) for step, value in enumerate(report.entropy)]
    axis = Axis("iteration (0: input step)")
    svg = line_chart([Series("entropy", points)], axis, Axis("route entropy", "nats"), include_zero=True)
    most = np.log(max(len(trace.hidden) + len(trace.outputs), 1))
    caption = (
        "Entropy of the targets of a source, mean over sources and samples: 0 for one target, at most "
        f"{most:.2f} nats (ln N); in the last iteration only outputs receive messages."
    )
    rows = [[step, show(value)] for step, (_, value) in zip(steps, points, strict=True)]
    content.append(figure(svg, caption, table(["iteration", "entropy (nats)"], rows, (0, 1))))
    mass = [(step, _number(value) or 0.0) for step, value in zip(steps, report.mass, strict=True)]
    svg = histogram(mass, Axis("iteration (0: input step)"), Axis("share of the messages to outputs"))
    caption = "Iterations of the messages to outputs: the depth that is used."
    depths = [[cut(each.name, 60), str(len(each.places)), show(each.depth, digits=3)] for each in view.classes]
    numbers = table(["class", "samples", "mean depth"], depths, (1, 2)) if depths else None
    content += [element("h3", "Depth used"), figure(svg, caption, numbers, classes="fits")]
    halted = np.bincount(np.clip(trace.steps, 0, trace.iterations), minlength=trace.iterations + 1)
    if halted[:-1].any():
        counts = [(step, float(count)) for step, count in zip(steps, halted, strict=True)]
        svg = histogram(counts, Axis("iterations run"), Axis("samples"))
        content += [element("h3", "Halting"), figure(svg, "After how many iterations samples halt.", classes="fits")]
    if len(report.drift) > 1:
        series = [
            Series("change", [(at.step, at.change) for at in list(report.drift)[1:]]),
            Series("to the last", [(at.step, at.to_last) for at in report.drift]),
        ]
        svg = line_chart(series, Axis("step"), Axis("mean change of weights"), include_zero=True, whole_x=False)
        rows = [[f"{at.step:g}", show(at.change), show(at.to_last)] for at in report.drift]
        numbers = table(["step", "change", "to the last"], rows, (0, 1, 2))
        caption = "Routes of the same samples over checkpoints: change since the one before, and what is left to go."
        content += [element("h3", "Drift over training"), figure(svg, caption, numbers)]
    return section("time", "Over iterations and training", *content)


def probe_section(view: RoutingView) -> Element | None:
    """Facts about the classes that hard routes and a linear probe predict."""
    report = view.report
    content: list[Element] = []
    if report.information:
        words = (
            f"Whole hard paths and {cut(report.fact, 40)} have an adjusted mutual information of "
            f"{report.information.paths:.2f} (0 by chance, 1 if either gives the other). A single connection, above or "
            f"below 0.5, can tell {min(report.information.ceiling, np.log(2)):.2f} nats; with shuffled classes the "
            f"best one reaches {report.information.chance:.3f}."
        )
        above = [pair for pair in report.information.strongest if pair[1] > report.information.chance]
        rows = [[cut(name, 160), f"{value:.3f}"] for name, value in above]
        none = paragraph("No single connection predicts more than that.")
        content += [paragraph(words), table(["connection", "nats"], rows, (1,)) if rows else none]
    for probe in list(report.probes)[:20]:
        words = f"{probe.samples:,} samples, {probe.classes} classes, logistic regression, cross-validated."
        rows = [[cut(name, 60), f"{accuracy:.3f}"] for name, accuracy in probe.rows]
        verdict = paragraph("No untrained model to compare with: the accuracy alone says little.", classes="muted")
        if probe.gain:
            value, low, high = probe.gain
            shown = f"Gain over the untrained model: {value:+.3f} (95 % interval {low:+.3f} to {high:+.3f})."
            verdict = paragraph(element("span", shown, classes="good" if low > 0 else "bad"))
        heading = element("h3", f"A linear probe for {cut(probe.fact, 80)}")
        content += [heading, paragraph(words), table(["reads", "accuracy"], rows, (1,)), verdict]
    return section("telling", "What the routes tell", *content) if content else None


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _numbers(values: Doubles) -> list[float | None]:
    return [_number(value) for value in values]


def _rows(values: Doubles) -> Sequence[Sequence[float | None]]:
    return [_numbers(row) for row in values]


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
