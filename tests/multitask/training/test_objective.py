"""The likelihood by which children are told apart: its temperature is fitted, so that scale counts nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.errors import UsageError
from evodevo.multitask.training.objective import check_objective, likelihood, share_of
from evodevo.objectives.answered import Answered


def drawn(seed: int, samples: int = 60, classes: int = 4, signal: float = 1.5) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    rng = np.random.default_rng(seed)
    targets = rng.integers(classes, size=samples)
    logits = rng.normal(size=(samples, classes)) + signal * np.eye(classes)[targets]
    return logits, targets


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.floats(1e-3, 1e3), st.floats(-5, 5))
def test_factors_and_shifts_of_logits_change_nothing(seed: int, factor: float, shift: float) -> None:
    logits, targets = drawn(seed)
    assert likelihood(factor * logits + shift, targets) == pytest.approx(likelihood(logits, targets), abs=2e-6)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_best_of_a_grid_of_temperatures(seed: int) -> None:
    logits, targets = drawn(seed)
    best = 0.0
    for slope in np.geomspace(1e-2, 1e2, 4001):
        scaled = slope * (logits - logits.max(1, keepdims=True))
        chosen = scaled[np.arange(len(targets)), targets] - np.log(np.exp(scaled).sum(1))
        best = max(best, math.exp(chosen.mean()))
    assert likelihood(logits, targets) == pytest.approx(best, abs=1e-5)


def test_its_ends() -> None:
    targets = np.asarray([0, 1, 2])
    assert likelihood(np.eye(3), targets) == 1.0, "all right, however little it believes so"
    assert likelihood(np.zeros((3, 3)), targets) == round(1 / 3, 6)
    assert likelihood(-np.eye(3), targets) == pytest.approx(1 / 3, abs=1e-3), "worse than chance is as good as chance"


def test_it_prefers_what_is_better_where_accuracy_sees_no_difference() -> None:
    logits, targets = drawn(0)
    better = logits + 0.02 * np.eye(4)[targets]
    right = [(one.argmax(1) == targets).mean() for one in (logits, better)]
    assert right[0] == right[1]
    assert likelihood(better, targets) > likelihood(logits, targets)


def test_an_agent_may_select_by_it() -> None:
    check_objective("likelihood")
    logits, targets = drawn(1)
    assert share_of("likelihood", Answered("class", logits, targets)) == likelihood(logits, targets)
    logits[0, 0] = np.nan
    assert share_of("likelihood", Answered("class", logits, targets)) == 0.0
    with pytest.raises(UsageError, match="accuracy, likelihood"):
        check_objective("log_loss")
