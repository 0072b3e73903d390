"""Informed draws: nobody is given up, success and likeness raise a weight, and without either all are alike."""

from __future__ import annotations

import pytest

from evodevo.errors import UsageError
from evodevo.multitask.search.sampler import (
    Evidence,
    Record,
    SamplerSettings,
    agent_weights,
    component_similarity,
    draw,
    records,
)
from evodevo.randomness import generator

AGENTS = ["Vit~a", "Vit~b", "Vit~c"]
INFORMED = SamplerSettings(kind="informed")


def test_nothing_known_is_uniform() -> None:
    assert set(agent_weights(AGENTS, SamplerSettings(), Evidence(similarity={"Vit~a": 0.0})).values()) == {1.0}
    assert agent_weights(AGENTS, INFORMED, Evidence()) == pytest.approx(dict.fromkeys(AGENTS, 1 / 3))
    nobody = Evidence(similarity=dict.fromkeys(AGENTS, 0.0))
    assert set(agent_weights(AGENTS, INFORMED, nobody).values()) == {1.0}


def test_success_and_similarity_raise_a_weight_and_nobody_is_given_up() -> None:
    history = [(("Vit~a",), True), (("Vit~a", "Vit~b"), True), (("Vit~b", "Vit~c"), False), (("Vit~c",), False)]
    known = Evidence(records(history), {"Vit~a": 0.5, "Vit~b": 0.5, "Vit~c": 0.5})
    assert known.records == {"Vit~a": Record(2, 2), "Vit~b": Record(2, 1), "Vit~c": Record(2, 0)}
    weights = agent_weights(AGENTS, INFORMED, known)
    assert weights["Vit~a"] > weights["Vit~b"] > weights["Vit~c"] >= 0.25 / 3
    assert sum(weights.values()) == pytest.approx(1)
    # 3/4, 2/4 and 1/4, of which they share three quarters of the draws.
    assert weights["Vit~a"] == pytest.approx(0.25 / 3 + 0.75 / 2)
    nearer = agent_weights(AGENTS, INFORMED, Evidence(known.records, {**known.similarity, "Vit~c": 1.0}))
    assert nearer["Vit~c"] > weights["Vit~c"]


def test_an_unknown_similarity_counts_as_the_usual_one() -> None:
    weights = agent_weights(AGENTS, INFORMED, Evidence(similarity={"Vit~a": 0.2, "Vit~b": 0.6}))
    assert weights["Vit~a"] < weights["Vit~c"] < weights["Vit~b"]
    with pytest.raises(UsageError, match="similarity"):
        agent_weights(AGENTS, INFORMED, Evidence(similarity={"Vit~a": 1.5}))


def test_paths_are_as_near_as_the_parameters_they_share() -> None:
    one, other = {"R:0": 80, "A:0": 10}, {"R:0": 80, "B:0": 30}
    assert component_similarity(one, other) == component_similarity(other, one) == 80 / 120
    assert component_similarity(one, one) == 1
    assert component_similarity(one, {"B:0": 5}) == 0
    assert component_similarity({}, {}) == 0


def test_draws_follow_their_weights() -> None:
    rng = generator(1, "draws")
    weights = {"a": 1.0, "b": 3.0}
    drawn = [draw(["a", "b", "b"], weights, rng) for _ in range(7_000)]
    shares = [sum(place == index for place, _ in drawn) / len(drawn) for index in range(3)]
    assert shares == pytest.approx([1 / 7, 3 / 7, 3 / 7], abs=0.02)
    assert all(probability == pytest.approx((1 / 7, 3 / 7, 3 / 7)[place]) for place, probability in drawn)
