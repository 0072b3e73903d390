"""Trainings of backbones that grow, of a size that is trained in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.experiments.trials import Trial
from evodevo.growth.backbone.arms import GrowingBackbone
from evodevo.runs.archive import Run
from evodevo.runs.train import experiment
from evodevo.search.problem import Outcome
from evodevo.settings import validate

LENGTH, BATCH = 16, 4
"""Tokens of a window of the task, and windows in a batch."""


def problem(
    text: Path, flops: float, blobs: Path | None = None, arms: tuple[Trial, ...] = (), **training: Any
) -> NetworkProblem:
    """Trainings with a budget of so many FLOPs; ``training`` has other settings of theirs."""
    values = {
        "task": "language",
        "task_settings": {"data": str(text), "context_length": LENGTH},
        "training": {"budget": {"flops": flops}, "batch_size": BATCH, "device": "cpu", "report_every": 1} | training,
        "validation_samples": 8,
        "test_samples": 8,
        "curve_points": 4,
        "curve_samples": 4,
        "trace_samples": 0,
    }
    return NetworkProblem(
        lambda arm: arm, validate(NetworkEvaluationSettings, values, what="settings"), blobs, arms=arms
    )


def trial(start: GrowingBackbone) -> Trial:
    """The arm that grows."""
    variant = start.grown()
    return Trial(
        name=variant.name,
        network=variant.network,
        learning_rate=1e-2,
        procedure=variant.procedure,
        options=variant.options,
    )


def evaluate(of: NetworkProblem, arm: Trial, resume: str | None = None, report: Any = None) -> Outcome:
    """The outcome of a training, from a checkpoint on where one is given."""
    outcome = of.read(evaluate_network(of.payload(arm, 5, resume), report or (lambda message: None)))
    assert outcome.reason is None, outcome.detail
    return outcome


def small_run(start: GrowingBackbone, novel: Path, store: Path, flops: float) -> Run:
    """A run of ``backbone.growing`` with so many FLOPs a training."""
    small = {
        "task_settings": {"data": str(novel), "context_length": LENGTH},
        "training": {"budget": {"flops": flops}, "batch_size": BATCH},
        "validation_samples": 8,
        "test_samples": 8,
        "curve_samples": 4,
    }
    overrides = {
        "backbone": start.model_dump(mode="json"),
        "evaluation": small,
        "execution": {"executor": "serial"},
    }
    return experiment("backbone.growing", overrides=overrides, store=store)
