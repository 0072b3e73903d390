"""What an experiment will take, and what is said of budgets that are too small."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from evodevo.errors import UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.experiments.forecast import Forecast, Pace, forecast
from evodevo.experiments.problem import NetworkProblem
from evodevo.testing.small_networks import h_model, problem, transformer


def foreseen(given: NetworkProblem, *arms: Any) -> Forecast:
    with SerialExecutor() as executor:
        return forecast(arms, given, executor, 0)


def test_less_than_an_epoch_is_said_once_for_all_who_have_it() -> None:
    found = foreseen(problem(), h_model(), transformer(), transformer(seed=1))
    (sentence,) = found.warnings
    assert sentence.startswith("H-Model, Tr(I+H+O): the budget holds about 64 of 400 training samples, 0.16 epochs")
    assert found.to_json()["warnings"] == [sentence]
    assert found.trainings == 3


def test_an_epoch_and_more_needs_no_words_and_less_than_one_batch_is_refused() -> None:
    for limits in ({"steps": 50}, {"tokens": 400}, {"seconds": 3600.0}):
        assert foreseen(problem(), h_model(training={"budget": limits})).warnings == ()
    with pytest.raises(UsageError, match="a budget of 3 samples is less than one batch of 8"):
        foreseen(problem(), h_model(training={"budget": {"tokens": 3}}))


def test_what_would_take_more_than_a_twentieth_of_the_steps_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def noted(kinds: dict[str, Any], *rest: Any) -> dict[str, Pace]:
        measured.append(len(kinds))
        return {}

    monkeypatch.setattr(sys.modules[forecast.__module__], "_measure", noted)
    for steps, arms, wanted in ((79, 1, []), (80, 1, [1]), (40, 2, [1])):
        measured.clear()
        trainings = [h_model(seed=seed, training={"budget": {"steps": steps}}) for seed in range(arms)]
        assert foreseen(problem(), *trainings).expected_seconds is None
        assert measured == wanted, "arms that differ in their seed alone are measured once"
    # Whether a budget of time or FLOPs holds a step follows from the pace alone, however few steps are allowed beside.
    for budget in ({"seconds": 9.0}, {"steps": 1, "flops": 1e6}):
        measured.clear()
        foreseen(problem(), h_model(training={"budget": budget}), transformer(training={"budget": {"steps": 1}}))
        assert measured == [2]


def test_seconds_are_turned_into_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[forecast.__module__]
    monkeypatch.setattr(module, "_measure", lambda kinds, *rest: dict.fromkeys(kinds, Pace(0.1, 0.0)))
    (sentence,) = foreseen(problem(), h_model(training={"budget": {"seconds": 2.05}})).warnings
    assert "about 160 of 400 training samples, 0.4 epochs" in sentence
    with pytest.raises(UsageError, match=r"0\.05 s is less than one step of H-Model, which takes 0\.1 s"):
        foreseen(problem(), h_model(training={"budget": {"seconds": 0.05}}))


def test_budgets_of_time_are_added_up_over_arms_and_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    clocked = {"training": {"budget": {"seconds": 600.0}}}
    arms = [h_model(**clocked, seed=seed) for seed in range(3)]
    foretold = foreseen(problem({"validation_samples": 1, "test_samples": 1, "curve_samples": 1}), *arms)
    assert foretold.expected_seconds == pytest.approx(1800, abs=60)
    monkeypatch.setattr(sys.modules[forecast.__module__], "_measure", lambda *given: {})
    assert foreseen(problem(), *arms).expected_seconds == 1800
    assert foreseen(problem(), *arms, h_model()).expected_seconds is None


def test_flops_are_turned_into_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[forecast.__module__]
    given = problem({"training": {"budget": {"steps": None, "flops": 1e6}}})
    monkeypatch.setattr(module, "_measure", lambda kinds, *rest: dict.fromkeys(kinds, Pace(0.5, 1.0, 1e5)))
    told = forecast([h_model()], given, SerialExecutor(), 0)
    assert told.expected_seconds is not None
    assert told.expected_seconds >= 1.0 + 10 * 0.5
    monkeypatch.setattr(module, "_measure", lambda kinds, *rest: dict.fromkeys(kinds, Pace(0.5, 1.0, 1e7)))
    with pytest.raises(UsageError, match="less than one step"):
        forecast([h_model()], given, SerialExecutor(), 0)
