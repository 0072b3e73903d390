"""Sharpening trains a model for the few connections with which it will answer (docs/spec/h_model.md#sharpening)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from evodevo.errors import UsageError
from evodevo.h_model.model import HModel
from evodevo.h_model.sharpening import sharpen
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.testing.networks import small_batch, small_model
from evodevo.training.loop import TrainingResult
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

TOP = InferenceStructure(mode="target_topm", m=1)


def phase(model: nn.Module, steps: int = 40, **options: Any) -> TrainingResult:
    """Learn 8 samples by heart."""
    batch = {name: tensor.numpy() for name, tensor in small_batch(count=8).items()}
    settings = TrainingSettings(
        budget=options.pop("budget", Budget(steps=steps)), optimizer=OptimizerSettings(learning_rate=1e-2), device="cpu"
    )
    options = {"inference": TOP, "seed": 0, "batch_at": lambda step: batch, "tokens_per_step": 8, **options}
    return sharpen(model, settings, **options)


def loss_of(model: HModel) -> float:
    with torch.no_grad():
        return float(model.eval().loss(small_batch(count=8)))


@pytest.mark.slow
def test_the_hard_model_learns_and_is_left_in_its_mode() -> None:
    model = small_model(hidden=[{"kind": "transformer", "heads": 2}] * 3)
    model.inference = TOP
    before = loss_of(model)
    assert phase(model).state == "finished"
    assert not model.sharpening
    assert model.inference == TOP
    assert loss_of(model) < 0.5 * before
    assert max(model.trace(small_batch()).called.sum(-1).ravel()) == 1


def test_what_it_minimises_is_the_loss_of_the_hard_model() -> None:
    model = small_model(alpha=0.7)
    model.inference = TOP
    hard = loss_of(model)
    result = phase(model, steps=1)
    assert result.curve[0][1] == pytest.approx(hard, rel=1e-5)
    assert model.alpha == 0.7, "it is left alone unless it is to end elsewhere"


def test_alpha_falls_geometrically_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = small_model(alpha=2.0), []
    original = model.core.begin

    def begin(*arguments: Any, **options: Any) -> Any:
        seen.append(model.alpha)
        return original(*arguments, **options)

    monkeypatch.setattr(model.core, "begin", begin)
    phase(model, steps=4, alpha_end=0.125)
    assert seen == pytest.approx([1.0, 0.5, 0.25, 0.125])
    assert model.alpha == pytest.approx(0.125)


def test_a_phase_that_fails_switches_the_soft_training_on_again() -> None:
    model = small_model()

    def broken(step: int) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        phase(model, batch_at=broken)
    assert not model.sharpening


def test_what_cannot_be_sharpened_is_refused() -> None:
    with pytest.raises(UsageError, match="no routing"):
        phase(nn.Linear(2, 2))
    with pytest.raises(UsageError, match="dense"):
        phase(small_model(), inference=InferenceStructure())
    with pytest.raises(UsageError, match=r"alpha can fall to 0\.1"):
        phase(small_model(), alpha_end=0.1, budget=Budget(tokens=100))
    with pytest.raises(UsageError, match="alpha can fall to 0"):
        phase(small_model(), alpha_end=0.0)
