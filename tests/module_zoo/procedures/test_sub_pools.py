"""The policy goes towards what pays, its gradient is that of its probability, and it goes on where it was."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.module_zoo.procedures.sub_pools import SubPoolPolicy
from evodevo.randomness import generator

IDS = ("a", "b", "c", "d", "e")


def policy(size: int = 1, rate: float = 0.1) -> SubPoolPolicy:
    return SubPoolPolicy(IDS, size, rate, 0.9)


def log_probability(logits: np.ndarray, drawn: tuple[int, ...]) -> float:
    left, total = list(range(len(logits))), 0.0
    for place in drawn:
        total += logits[place] - math.log(sum(math.exp(logits[one]) for one in left))
        left.remove(place)
    return total


@pytest.mark.parametrize("size", [1, 2])
def test_on_a_bandit_it_learns_what_pays(size: int) -> None:
    learner = policy(size)
    for number in range(300):
        drawn = learner.draw(generator(0, number))
        noise = generator(1, number).normal() * 0.1
        learner.learn(drawn, 0.5 * (2 in drawn) + 0.5 * (size > 1 and 4 in drawn) + noise)
    chances = learner.probabilities()
    wanted = {"c"} if size == 1 else {"c", "e"}
    assert sum(chances[name] for name in wanted) > 0.9


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=5, max_size=5), st.permutations(range(5)), st.integers(1, 5))
def test_the_gradient_is_that_of_the_probability(logits: list[float], order: list[int], size: int) -> None:
    learner, drawn = policy(size), tuple(order[:size])
    learner.logits = np.asarray(logits)
    step = 1e-5
    for place in range(5):
        up, down = learner.logits.copy(), learner.logits.copy()
        up[place] += step
        down[place] -= step
        slope = (log_probability(up, drawn) - log_probability(down, drawn)) / (2 * step)
        assert learner.gradient(drawn)[place] == pytest.approx(slope, abs=1e-6)


def test_draws_have_the_probabilities_of_their_logits() -> None:
    learner = policy(2)
    learner.logits = np.asarray([1.0, 0.0, -1.0, 0.5, 0.0])
    count = 20_000
    rng = np.random.default_rng(0)
    drawn = [learner.draw(rng) for _ in range(count)]
    for pair in permutations(range(5), 2):
        share = sum(one == pair for one in drawn) / count
        assert share == pytest.approx(math.exp(log_probability(learner.logits, pair)), abs=0.012)
    assert learner.names((3, 0)) == ("a", "d"), "in the order of the pool"


def test_it_goes_on_where_it_was() -> None:
    whole, part = policy(2), policy(2)
    for number in range(20):
        if number == 9:
            part = SubPoolPolicy(IDS, 2, 0.1, 0.9, part.to_json())
        for one in (whole, part):
            drawn = one.draw(generator(3, number))
            one.learn(drawn, math.nan if number == 4 else float(sum(drawn)))
    assert whole.to_json() == part.to_json()
    assert whole.decisions == 20

    equal = policy(2)
    for number in range(50):
        equal.learn(equal.draw(generator(0, number)), 0.7)
    assert equal.logits.tolist() == [0.0] * 5, "equal rewards teach nothing"
