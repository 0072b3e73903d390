"""Specialisation, mutual information, patterns: against scikit-learn and traces with a known structure."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, mutual_info_score, silhouette_score

from evodevo.errors import UsageError
from evodevo.h_model.trace import clusters, specialisation
from evodevo.h_model.trace.measures import activity, hard_routes
from fixtures.traces import chain_trace, classes_trace, random_trace


@pytest.fixture(scope="module")
def trace():
    return classes_trace(60)


def test_class_activity_is_the_mean_over_the_class(trace) -> None:
    found = specialisation.class_activity(trace, "language")
    assert found.names == ("de", "en", "uk")
    assert found.counts == (20, 20, 20)
    for value in range(3):
        assert found.mean[value] == pytest.approx(activity(trace)[trace.facts["language"] == value].mean(axis=0))


def test_a_layer_that_serves_one_class_is_specialised_and_a_shared_one_is_not(trace) -> None:
    found = specialisation.class_activity(trace, "language")
    matrix, index = found.specialisation(), found.index()
    assert matrix.sum(axis=0) == pytest.approx(np.ones(4))
    assert matrix.argmax(axis=0)[:3].tolist() == [0, 1, 2]
    assert matrix[2, 2] == pytest.approx(1)  # the others never call it
    assert index[2] == pytest.approx(1)
    assert index[3] < 0.02
    assert index[0] > 0.3


def test_samples_without_a_value_are_left_out(trace) -> None:
    values = trace.facts["language"].copy()
    values[values == 1] = -1
    partly = dataclasses.replace(trace, facts={"language": values})
    assert specialisation.class_activity(partly, "language").names == ("de", "uk")
    with pytest.raises(UsageError, match="no sample of this trace"):
        specialisation.class_activity(dataclasses.replace(trace, facts={"language": values * 0 - 1}), "language")
    with pytest.raises(UsageError, match=r"unknown fact 'langage'.*Did you mean 'language'"):
        specialisation.class_activity(trace, "langage")
    unnamed = dataclasses.replace(trace, names={})
    assert specialisation.class_activity(unnamed, "language").names == ("0", "1", "2")


def test_mutual_information_is_that_of_scikit_learn() -> None:
    trace = dataclasses.replace(
        random_trace(80, 2, 3, outputs=2, seed=1), facts={"digit": np.random.default_rng(5).integers(0, 4, 80)}
    )
    found = specialisation.route_information(trace, "digit")
    every = np.concatenate([found.first.reshape(-1), found.connections.reshape(-1)])
    for column, value in zip(hard_routes(trace).T, every, strict=True):
        assert value == pytest.approx(mutual_info_score(trace.facts["digit"], column), abs=1e-9)
    assert every.max() < 3 * found.chance
    assert abs(found.paths) < 0.2


def test_routes_that_follow_the_class_tell_it(trace) -> None:
    found = specialisation.route_information(trace, "language")
    # A yes or no that is true for one class of three.
    assert found.first[0, 0] == pytest.approx(-(math.log(1 / 3) / 3 + math.log(2 / 3) * 2 / 3))
    assert found.ceiling == pytest.approx(math.log(3))
    assert found.first[0, 0] > 4 * found.chance
    assert found.paths > 0.5


def test_patterns_find_the_classes(trace) -> None:
    patterns = clusters.routing_patterns(dataclasses.replace(trace, steps=trace.steps * 0 + 4), seed=1)
    assert clusters.agreement(patterns, trace, "language") > 0.5
    assert patterns.shares.sum() == pytest.approx(1)
    assert (np.diff(patterns.shares) <= 0).all()
    assert patterns.silhouettes[patterns.count] == max(patterns.silhouettes.values())
    assert clusters.agreement(patterns, trace, "language") == pytest.approx(
        adjusted_rand_score(trace.facts["language"], patterns.labels)
    )
    assert patterns.silhouettes[patterns.count] == pytest.approx(silhouette_score(trace.routes(), patterns.labels))
    again = clusters.routing_patterns(dataclasses.replace(trace, steps=trace.steps * 0 + 4), seed=1)
    assert (again.labels == patterns.labels).all(), "the same for the same seed"
    for place in range(patterns.count):
        assert patterns.centres[place] == pytest.approx(trace.routes()[patterns.labels == place].mean(axis=0), abs=1e-6)


def test_a_stable_architecture_is_one_pattern_whatever_the_noise() -> None:
    assert clusters.routing_patterns(chain_trace(samples=9)).count == 1
    for noise in (1e-4, 0.1):
        trace = classes_trace(40, ["de"], noise=noise)
        assert clusters.routing_patterns(trace.select(trace.steps == 4)).count == 1
    assert clusters.routing_patterns(chain_trace().select(np.arange(0))).count == 0
    for samples in (1, 2, 3):
        patterns = clusters.routing_patterns(random_trace(samples))
        assert len(patterns.labels) == samples
        assert patterns.shares.sum() == pytest.approx(1)
