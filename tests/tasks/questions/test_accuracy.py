"""Accuracies: against counts by hand, and intervals against scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evodevo.tasks.questions.accuracy import Accuracy, Likelihood, credits, wilson_interval
from evodevo.tasks.questions.question import Option, Question, QuestionSet


@given(st.integers(0, 400), st.integers(0, 400))
def test_the_interval_is_wilsons(right: int, wrong: int) -> None:
    count = max(1, right + wrong)
    right = min(right, count)
    low, high = wilson_interval(right / count, count)
    other = stats.binomtest(right, count).proportion_ci(0.95, "wilson")
    assert low == pytest.approx(other.low, abs=1e-9)
    assert high == pytest.approx(other.high, abs=1e-9)
    assert low <= right / count <= high


def asked(*sizes: tuple[int, ...], answer: int = 0, name: str = "own") -> QuestionSet:
    questions = tuple(Question(tuple(Option("c", "x", size) for size in row), answer) for row in sizes)
    return QuestionSet(name, "file", "choice", questions)


def values(*numbers: float) -> list[Likelihood]:
    return [Likelihood(number, False) for number in numbers]


def test_acc_takes_the_likeliest_option_and_acc_norm_the_likeliest_per_byte() -> None:
    found = credits(asked((2, 8), (2, 8)), [values(-3.0, -4.0), values(-1.0, -6.0)])
    assert found["acc"].tolist() == [1.0, 1.0]
    assert found["acc_norm"].tolist() == [0.0, 1.0]  # -1.5 < -0.5, and -0.5 > -0.75


def test_a_model_that_knows_nothing_is_at_chance_wherever_the_answer_is() -> None:
    for answer in (0, 1, 2):
        same = values(-5.0, -5.0 - 1e-9, -5.0)
        assert credits(asked((4, 4, 4), answer=answer), [same])["acc"].tolist() == [pytest.approx(1 / 3)]
    nothing = values(math.nan, -1.0)
    assert credits(asked((1, 1), answer=1), [nothing])["acc"].tolist() == [0.0]


def test_a_continuation_is_right_where_it_would_be_written() -> None:
    words = QuestionSet("lambada", "file", "continuation", (Question((Option("c", " x", 1),), 0),) * 2)
    found = credits(words, [[Likelihood(-1.0, True)], [Likelihood(-0.5, False)]])
    assert set(found) == {"acc"}
    assert Accuracy.of(found["acc"]).value == 0.5


def test_the_metric_of_a_table() -> None:
    assert asked((1, 1), name="hellaswag").main_metric == asked((1, 1), name="arc_challenge").main_metric == "acc_norm"
    assert asked((1, 1), name="piqa").main_metric == "acc"
    assert asked((1, 1), (1, 1, 1, 1)).chance == pytest.approx(0.375)
    assert Accuracy.of(np.asarray([1.0, 0.0])).to_json()["count"] == 2
