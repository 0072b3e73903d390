"""The held-out loss against the mean over single tokens."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from evodevo.training.held_out import evaluate
from evodevo.training.precision import decide

CPU = decide("cpu")


@pytest.mark.parametrize("batch_size", [1, 4, 7, 100])
def test_it_is_the_mean_over_all_predicted_tokens(tiny: Any, batch_at: Any, batch_size: int) -> None:
    model = tiny()
    windows = np.concatenate([batch_at(step) for step in range(4)])[:13]
    batches = [windows[start : start + batch_size] for start in range(0, 13, batch_size)]
    found = evaluate(model, batches, tokens=13 * 6, predicted_bytes=200.0, precision=CPU)
    batch = torch.from_numpy(windows)
    with torch.no_grad():
        logits = model.eval()(batch[:, :-1]).flatten(0, 1)
    expected = functional.cross_entropy(logits, batch[:, 1:].flatten()).item()
    assert (found.state, found.tokens) == ("ok", 13 * 6)
    assert found.loss == pytest.approx(expected, rel=1e-6)
    assert found.perplexity == pytest.approx(math.exp(expected), rel=1e-5)
    assert found.bits_per_byte == pytest.approx(expected * 78 / 200 / math.log(2), rel=1e-5)


def test_the_mode_of_the_model_and_its_gradients_are_left_alone(tiny: Any, batch_at: Any) -> None:
    for training in (True, False):
        model = tiny(dropout=0.5).train(training)
        first = evaluate(model, [batch_at(0)], tokens=24, precision=CPU)
        assert first == evaluate(model, [batch_at(0)], tokens=24, precision=CPU)  # no dropout
        assert model.training is training
        assert all(parameter.grad is None for parameter in model.parameters())
        assert first.bits_per_byte is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e4])
def test_a_lost_model_has_a_state_and_no_numbers(tiny: Any, batch_at: Any, bad: float) -> None:
    found = evaluate(
        tiny(), [batch_at(0)], tokens=24, loss_function=lambda model, batch: torch.tensor(bad), precision=CPU
    )
    assert (found.state, found.loss, found.perplexity, found.bits_per_byte) == ("nan", None, None, None)
    assert evaluate(tiny(), [], tokens=0, precision=CPU).state == "nan", "no windows"
