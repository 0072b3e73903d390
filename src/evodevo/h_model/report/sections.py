"""Numbers on routing: activity of layers, changes over iterations and checkpoints, and facts that routes predict."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

import numpy as np

from evodevo.h_model.report.data import Doubles
from evodevo.h_model.report.view import RoutingView
from evodevo.report.charts.axes import Axis
from evodevo.report.charts.bars import Measure, bars_beside, histogram
from evodevo.report.charts.curves import Series, line_chart
from evodevo.report.charts.heat_map import HeatRows, heat_map
from evodevo.report.charts.numbers import show
from evodevo.report.html import cut, element, figure, paragraph, section, table


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
