"""Summary of a routing trace: all measures that a page shows and ``--json`` prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from evodevo.h_model.report.data import (
    ChainSummary,
    ClassInformation,
    ClassRouting,
    DriftPoint,
    PatternSummary,
    ProbeSummary,
    RoutingReport,
)
from evodevo.h_model.trace.chains import nearest_chain
from evodevo.h_model.trace.clusters import agreement, routing_patterns
from evodevo.h_model.trace.measures import (
    Doubles,
    activity,
    depth_used,
    hard_paths,
    output_mass,
    route_drift,
    route_entropy,
    self_loops,
)
from evodevo.h_model.trace.probe import RouteProbe
from evodevo.h_model.trace.spec import RoutingTrace
from evodevo.h_model.trace.specialisation import class_activity, known_samples, route_information

_STRONGEST = 16


def routing_report(
    trace: RoutingTrace,
    title: str,
    *,
    fact: str = "",
    subtitle: str = "",
    gradient_norms: Doubles | None = None,
    probes: Sequence[RouteProbe] = (),
    checkpoints: Sequence[tuple[int, RoutingTrace]] = (),
    notes: Sequence[str] = (),
    seed: int = 0,
) -> RoutingReport:
    """Compute all measures of a trace.

    Args:
        trace: Trace of the samples.
        title, subtitle: Texts of the page.
        fact: Fact that classifies the samples, one of ``trace.facts``; none where empty.
        gradient_norms: Norm of the loss' gradient by each hidden layer's parameters, (H,).
        probes: Results of ``route_probe``.
        checkpoints: (step, trace of the same samples) in order, for the drift.
        notes: Remarks at the top.
        seed: Seed of k-means and shuffles.

    Raises:
        UsageError: An unknown fact, or checkpoints of another model.
    """
    paths, chain = hard_paths(trace), nearest_chain(trace)
    hidden = len(trace.hidden)
    patterns = routing_patterns(trace, seed=seed)
    classes = class_routing(trace, fact) if fact else []
    drift = route_drift([given for _, given in checkpoints]) if checkpoints else None
    steps = [step for step, _ in checkpoints]
    return RoutingReport(
        title=title,
        subtitle=subtitle,
        trace=trace,
        fact=fact,
        activity=_mean(activity(trace)),
        self_loops=self_loops(trace),
        entropy=route_entropy(trace),
        mass=_mean(output_mass(trace)),
        depth=depth_used(trace),
        paths=paths.count,
        effective_paths=paths.effective,
        main_path=float(paths.shares.max(initial=0.0)),
        chain=ChainSummary(
            [trace.hidden[layer] for layer in chain.order],
            chain.likeness,
            math.sqrt(max(hidden - 1, 0)) / max(hidden, 1),
            chain.exact,
        ),
        patterns=PatternSummary(
            patterns.labels,
            [float(share) for share in patterns.shares],
            dict(patterns.silhouettes),
            agreement(patterns, trace, fact) if fact else None,
        ),
        classes=classes,
        class_index=class_activity(trace, fact).index() if fact else None,
        gradient_norms=gradient_norms,
        information=_information(trace, fact, seed) if fact else None,
        probes=[summary for probe in probes for summary in _probe_summaries(probe)],
        drift=[DriftPoint(*values) for values in zip(steps, drift.step, drift.to_last, strict=True)] if drift else [],
        notes=notes,
    )


def _mean(values: Doubles) -> Doubles:
    """Mean over samples without those where the value is nan."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    mean: Doubles = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return mean


def class_routing(trace: RoutingTrace, fact: str) -> list[ClassRouting]:
    """Routing of the samples of each value of a fact. Raises as ``specialisation.known_samples``."""
    active, places = class_activity(trace, fact), known_samples(trace, fact)
    values, depth = trace.facts[fact][places], depth_used(trace)[places]
    shares = active.specialisation()
    each = zip(np.unique(values), active.names, active.mean, shares, strict=True)
    return [
        ClassRouting(name, places[values == value], mean, share, float(_mean(depth[values == value])))
        for value, name, mean, share in each
    ]


def _information(trace: RoutingTrace, fact: str, seed: int) -> ClassInformation:
    information = route_information(trace, fact, seed=seed)
    targets = [*trace.hidden, *trace.outputs]
    named = [
        (f"{trace.inputs[source]} → {targets[target]}, input step", float(information.first[source, target]))
        for source, target in np.ndindex(information.first.shape)
    ]
    named += [
        (
            f"{trace.hidden[source]} → {targets[target]}, t = {step + 1}",
            float(information.connections[step, source, target]),
        )
        for step, source, target in np.ndindex(information.connections.shape)
    ]
    named.sort(key=lambda pair: -pair[1])
    return ClassInformation(named[:_STRONGEST], information.chance, information.ceiling, information.paths)


def _probe_summaries(probe: RouteProbe) -> list[ProbeSummary]:
    gain = (probe.gain.value, probe.gain.low, probe.gain.high) if probe.gain else None
    own = ProbeSummary(probe.fact, probe.samples, len(probe.classes), probe.rows(), gain)
    return [own, *(summary for part in probe.scripts.values() for summary in _probe_summaries(part))]


def report_json(report: RoutingReport) -> dict[str, Any]:
    """The numbers of a report as JSON values; undefined ones are null. Connections are means over samples."""
    trace = report.trace
    return {
        "title": report.title,
        "samples": trace.count,
        "iterations": trace.iterations,
        "inputs": list(trace.inputs),
        "hidden": list(trace.hidden),
        "outputs": list(trace.outputs),
        "first": _plain(_mean(trace.first.astype(np.float64))),
        "connections": _plain(_mean(trace.connections.astype(np.float64))),
        "activity": _plain(report.activity),
        "self_loops": _plain(report.self_loops),
        "gradient_norms": _plain(report.gradient_norms),
        "route_entropy_nats": _plain(report.entropy),
        "output_mass": _plain(report.mass),
        "depth_mean": _plain(_mean(report.depth)),
        "paths": {"count": report.paths, "effective": report.effective_paths, "main": report.main_path},
        "chain": {"order": list(report.chain.order), "likeness": report.chain.likeness, "exact": report.chain.exact},
        "patterns": {
            "shares": list(report.patterns.shares),
            "silhouettes": {str(count): value for count, value in report.patterns.silhouettes.items()},
            "adjusted_rand_index": report.patterns.agreement,
        },
        "fact": report.fact,
        "classes": [
            {
                "name": each.name,
                "samples": len(each.places),
                "activity": _plain(each.activity),
                "specialisation": _plain(each.shares),
                "depth_mean": _plain(np.float64(each.depth)),
            }
            for each in report.classes
        ],
        "specialisation_index": _plain(report.class_index),
        "information": report.information
        and {
            "strongest": [{"connection": name, "nats": value} for name, value in report.information.strongest],
            "chance_nats": report.information.chance,
            "ceiling_nats": report.information.ceiling,
            "paths_adjusted": report.information.paths,
        },
        "probes": [
            {
                "fact": each.fact,
                "samples": each.samples,
                "classes": each.classes,
                "accuracy": dict(each.rows),
                "gain_over_untrained": each.gain and dict(zip(("value", "low", "high"), each.gain, strict=True)),
            }
            for each in report.probes
        ],
        "drift": [{"step": at.step, "change": at.change, "to_last": at.to_last} for at in report.drift],
    }


def _plain(values: Any) -> Any:
    """Arrays as nested lists, with null for what is not finite."""
    if values is None:
        return None
    if isinstance(values, np.ndarray) and values.ndim:
        return [_plain(value) for value in values]
    return float(values) if np.isfinite(values) else None
