"""Measurements of a worker for a protocol: a trained network on the test split, pace and memory of a training."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evodevo import canonical
from evodevo.execution.base import Report
from evodevo.experiments.downstream.evaluate import evaluate_tasks
from evodevo.experiments.peak_memory import forget_peak, peak_bytes
from evodevo.experiments.trials import Trial
from evodevo.networks.build import build_network
from evodevo.networks.saved import load_network
from evodevo.settings import validate
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.text.language import LanguageSettings, LanguageTask
from evodevo.training import held_out, optimizers
from evodevo.training.precision import Precision, decide
from evodevo.training.settings import TrainingSettings

PACED_STEPS = 4
ROWS = 32
"""Windows at a time where the test split is read."""


def evaluate_test(payload: bytes, report: Report) -> bytes:
    """A trained network on the test split: ``loss``, ``perplexity``, ``bits_per_byte``, ``tokens``; see ``HeldOut``.
    And on files of questions: ``accuracies``, set -> percent in its main metric."""
    data = canonical.loads(payload, what="a test")
    task = _task(data)
    precision = decide(data["device"], data["precision"])
    network, _ = load_network(FolderPool(Path(data["blobs"])), data["weights"])
    places = task.spread("test", data["tokens"])
    measured = held_out.evaluate(
        network.to(precision.device),
        (task.fetch("test", places[start : start + ROWS]) for start in range(0, len(places), ROWS)),
        tokens=len(places) * task.context_length,
        predicted_bytes=task.predicted_bytes("test", places),
        precision=precision,
    )
    asked = evaluate_tasks(
        network, task.tokenizer, data["tasks"], context_length=max(2, task.context_length), device=data["device"]
    )
    accuracies = {name: 100 * found.score.value for name, found in asked.items()}
    return canonical.dumps({**asdict(measured), "accuracies": accuracies}).encode()


def measure_pace(payload: bytes, report: Report) -> bytes:
    """A few steps of a training: ``seconds`` of one, ``begin`` (until the first), ``bytes`` beside the weights,
    ``base`` (before there was a network) and ``tokens`` of a step."""
    began = time.perf_counter()
    data = canonical.loads(payload, what="a pace")
    arm = validate(Trial, data["arm"], what="an arm")
    training = validate(TrainingSettings, data["training"], what="training settings")
    task, precision = _task(data), decide(training.device, training.precision)
    base = _held(precision)
    network = build_network(arm.network, task.inputs, task.outputs, data["seed"]).to(precision.device).train()
    optimizer = optimizers.build(network, training.optimizer)
    times = []
    begin = time.perf_counter() - began
    for step in range(PACED_STEPS):
        before = time.perf_counter()
        placed = precision.place(task.batch("train", data["seed"], step, data["samples"]))
        with precision.autocast():
            network.loss(placed).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        _wait(precision)
        times.append(time.perf_counter() - before)
    # Weights, their gradients and two moments.
    own = 16 * sum(parameter.numel() for parameter in network.parameters())
    answer = {
        "seconds": min(times[1:]),
        "begin": begin,
        "base": base,
        "bytes": max(0, peak_bytes(precision) - base - own),
        "tokens": data["samples"] * task.context_length,
    }
    return canonical.dumps(answer).encode()


def _task(data: dict[str, Any]) -> LanguageTask:
    settings = validate(LanguageSettings, data["language"], what="settings of the text")
    folder = data["cache_folder"]
    return LanguageTask.open(settings, None if folder is None else Path(folder), data["task_key"])


def _held(precision: Precision) -> int:
    """Bytes held now, before a network is there."""
    forget_peak(precision)
    return peak_bytes(precision)


def _wait(precision: Precision) -> None:
    if precision.device.type == "cuda":
        import torch

        torch.cuda.synchronize(precision.device)
