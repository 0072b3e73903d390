"""Budgets and settings: what is refused, and that no torch is needed to say so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from evodevo.errors import UsageError
from evodevo.settings import validate
from evodevo.training.settings import TrainingSettings, paper_training


def test_what_makes_no_sense_is_refused() -> None:
    for values, message in (
        ({"budget": {}}, "at least one of tokens, steps, seconds"),
        ({}, "budget"),
        ({"budget": {"tokens": -1}}, "budget.tokens"),
        ({"budget": {"steps": 0}}, "budget.steps"),
        ({"budget": {"seconds": -0.5}}, "budget.seconds"),
        ({"budget": {"steps": 1.5}}, "budget.steps"),
        ({"budget": {"step": 1}}, "did you mean 'steps'"),
        ({"budget": {"steps": 1}, "optimizer": {"warmup": 1.0}}, "optimizer.warmup"),
        ({"budget": {"steps": 1}, "optimizer": {"learning_rate": 0}}, "optimizer.learning_rate"),
        ({"budget": {"steps": 1}, "device": "tpu"}, "device"),
        ({"budget": {"steps": 1}, "precision": "float16"}, "precision"),
        ({"budget": {"steps": 1}, "batch_size": 0}, "batch_size"),
    ):
        with pytest.raises(UsageError, match=message):
            validate(TrainingSettings, values, what="training")
    for budget in ({"tokens": 5}, {"steps": 5}, {"seconds": 0.5}, {"tokens": 5, "steps": 5, "seconds": 5}):
        assert validate(TrainingSettings, {"budget": budget}, what="training").optimizer.weight_decay == 0.1


def test_the_papers_training_is_what_its_section_4_1_states() -> None:
    settings = paper_training(3201)
    assert settings.batch_size == 32
    assert settings.budget.steps == 25 * 101, "25 epochs of 101 batches"
    rates = settings.optimizer
    assert (rates.learning_rate, rates.beta1, rates.beta2, rates.weight_decay) == (5e-5, 0.9, 0.999, 0.01)
    assert (rates.warmup, rates.floor) == (0.1, 0.0)
    assert paper_training(10, epochs=2).budget.steps == 2


def test_settings_load_no_torch() -> None:
    code = "import sys, evodevo.training.settings; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
