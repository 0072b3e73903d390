"""The summary holds what the single analyses say, and its JSON is JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from evodevo.errors import UsageError
from evodevo.h_model.trace import chains, clusters, measures
from evodevo.h_model.trace.probe import route_probe
from evodevo.h_model.trace.specialisation import class_activity
from evodevo.h_model.trace.summary import report_json, routing_report
from fixtures.traces import chain_trace, classes_trace, random_trace, trace_of


def test_the_summary_is_that_of_the_single_analyses() -> None:
    trace = classes_trace(45)
    report = routing_report(trace, "Routing", fact="language", seed=3)
    assert report.activity == pytest.approx(measures.activity(trace).mean(axis=0))
    assert report.chain.likeness == chains.nearest_chain(trace).likeness
    assert (report.patterns.labels == clusters.routing_patterns(trace, seed=3).labels).all()
    assert [each.name for each in report.classes] == ["de", "en", "uk"]
    assert report.classes[1].shares == pytest.approx(class_activity(trace, "language").specialisation()[1])
    assert report.classes[1].depth == pytest.approx(measures.depth_used(trace)[report.classes[1].places].mean())
    assert [value for _, value in report.information.strongest] == sorted(
        (value for _, value in report.information.strongest), reverse=True
    )
    # The input tells the layer of the language that the sample is in that language.
    assert "input 0 → layer 0, input step" in [name for name, _ in report.information.strongest]


def test_without_a_fact_nothing_is_said_of_classes() -> None:
    report = routing_report(random_trace(), "Routing")
    assert (report.classes, report.information, report.class_index, report.patterns.agreement) == ([], None, None, None)


def test_json_round_trips_and_has_no_nan() -> None:
    silent = trace_of(np.zeros((2, 1, 3)), np.zeros((2, 2, 2, 3)))
    trace = classes_trace(40, ("de", "en"))
    probe = route_probe(trace, "language", untrained=trace)
    for report in (
        routing_report(silent, "Silence"),
        routing_report(chain_trace(), "Chain"),
        routing_report(trace, "Classes", fact="language", probes=[probe], checkpoints=[(0, trace), (9, trace)]),
    ):
        found = report_json(report)
        assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["probes"][0]["gain_over_untrained"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert found["drift"] == [{"step": 0, "change": 0.0, "to_last": 0.0}, {"step": 9, "change": 0.0, "to_last": 0.0}]
    assert np.shape(found["connections"]) == (4, 3, 5)
    assert report_json(routing_report(silent, "Silence"))["route_entropy_nats"] == [None, None, None]
    assert math.isclose(report_json(routing_report(chain_trace(), "Chain"))["depth_mean"], 4)


def test_an_unknown_fact_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown fact 'tongue'"):
        routing_report(classes_trace(12), "Routing", fact="tongue")
