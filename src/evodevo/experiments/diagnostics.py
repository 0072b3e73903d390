"""Measurements inside a trained network, as numbers for tables: routes, gradients, leaks of the future."""

from __future__ import annotations

import math
from typing import Any

import torch

from evodevo.experiments.flop_counter import cuda_devices, look_at_step
from evodevo.experiments.measure import places
from evodevo.experiments.settings import NetworkEvaluationSettings
from evodevo.networks.base import Batch, Network
from evodevo.tasks.base import SampleTask
from evodevo.training.precision import Precision

_LOOKED_AT = 32
DRAWN = 0
"""Seed of what the networks draw while their gradients are looked at."""


def look_inside(
    network: Network, before: Network, task: SampleTask, settings: NetworkEvaluationSettings, precision: Precision
) -> dict[str, Any]:
    """Facts of a trained network.

    Args:
        network: the trained network.
        before: the same before its training.
        task, settings, precision: task, settings and precision of the evaluation.

    Returns:
        ``inside``: name -> number; ``gradient_norms``: "before" and "after" -> part -> norm, on one validation batch;
        and further facts of ``Network.diagnose`` (``routing`` of a zoo).
    """
    chosen = places(task, "validation", _LOOKED_AT)
    batch = precision.place(task.fetch("validation", chosen))
    assert isinstance(batch, dict), "the batch is a mapping"
    numbers: dict[str, float] = {}
    if any(spec.kind == "tokens" for spec in network.output_specs):
        numbers["leak"] = leak(network, batch)
    diagnosis = network.diagnose(before, task, precision, fact=settings.routes)
    numbers |= diagnosis.numbers
    norms = {"before": gradient_norms(before, batch), "after": gradient_norms(network, batch)}
    return {
        "inside": {k: v for k, v in numbers.items() if math.isfinite(v)},
        "gradient_norms": norms,
        **diagnosis.facts,
    }


def leak(network: Network, batch: Batch) -> float:
    """Largest change of the answers before a position when that position's token is changed: 0 is causal.

    Every output of kind tokens is tested at a third and at two thirds of its input's length.
    """
    was_training = network.training
    network.eval()
    worst = 0.0
    with torch.no_grad():
        answers = network(batch)
        for spec in network.output_specs:
            if spec.kind != "tokens":
                continue
            length = batch[spec.of].shape[1]
            vocabulary = next(source.vocabulary for source in network.input_specs if source.name == spec.of)
            for position in sorted({length // 3, 2 * length // 3} - {0}):
                tokens = batch[spec.of].clone()
                tokens[:, position] = (tokens[:, position] + 1) % vocabulary
                changed = network({**batch, spec.of: tokens})
                moved = changed[spec.name][:, :position] - answers[spec.name][:, :position]
                worst = max(worst, float(moved.abs().max()))
    network.train(was_training)
    return worst


def gradient_norms(network: Network, batch: Batch) -> dict[str, float]:
    """Norms of the gradient by part; dropout is drawn alike, so that the same run has the same."""
    with torch.random.fork_rng(cuda_devices(batch)):
        torch.manual_seed(DRAWN)
        norms = look_at_step(network, batch).gradient_norms
    return {part: norm for part, norm in norms.items() if math.isfinite(norm)}
