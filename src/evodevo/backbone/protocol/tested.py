"""Measurements of a worker for a protocol: a trained network on the test split, pace and memory of a training."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from evodevo import canonical
from evodevo.backbone.protocol.devices import DeviceProfile, profile_of
from evodevo.backbone.protocol.roofline import CountedStep, calibrate, count_step
from evodevo.execution.base import Report
from evodevo.experiments.downstream.evaluate import evaluate_tasks
from evodevo.experiments.peak_memory import forget_peak, peak_bytes
from evodevo.experiments.trials import Trial
from evodevo.networks.build import build_network
from evodevo.networks.saved import load_network
from evodevo.settings import validate
from evodevo.storage.pools import pool_at
from evodevo.tasks.text.language import LanguageSettings, LanguageTask
from evodevo.training import held_out, optimizers
from evodevo.training.economy import USABLE, free_on
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
    network, _ = load_network(pool_at(data["blobs"]), data["weights"])
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
    ``base`` (before there was a network) and ``tokens`` of a step.

    Where the training's own step is too large for that (``whole``), seconds and tokens are those of its batch, timed by
    a roofline whose peaks and efficiency are measured here, and ``memory`` is what its training takes, counted. With a
    ``profile`` nothing is measured.
    """
    began = time.perf_counter()
    data = canonical.loads(payload, what="a pace")
    arm = validate(Trial, data["arm"], what="an arm")
    training = validate(TrainingSettings, data["training"], what="training settings")
    task = _task(data)
    if data["profile"] is not None:
        profile = profile_of(data["profile"])
        whole, _ = _whole_step(data, arm, training, task, profile.memory)
        answer = {"seconds": _batch_seconds(whole, training, profile), "memory": whole.memory, "begin": 0.0, "bytes": 0}
        return canonical.dumps({**answer, "base": 0, "tokens": _whole_tokens(data, training)}).encode()
    precision = decide(training.device, training.precision)
    step: CountedStep | None = None
    recompute = training.checkpointing == "blocks"
    if data["whole"] is not None:
        step, recompute = _whole_step(data, arm, training, task, free_on(precision.device))
        began = time.perf_counter()
    base = _held(precision)
    network = build_network(arm.network, task.inputs, task.outputs, data["seed"]).to(precision.device).train()
    network.loss_tokens, network.checkpointing = training.loss_tokens, recompute  # type: ignore[assignment]
    optimizer = optimizers.build(network, training.optimizer)
    times = []
    begin = time.perf_counter() - began
    for number in range(PACED_STEPS):
        before = time.perf_counter()
        placed = precision.place(task.batch("train", data["seed"], number, data["samples"]))
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
    if step is not None:
        profile = calibrate(precision.device, precision.autocast_dtype or torch.float32)
        small = count_step(
            arm.network,
            task.inputs,
            task.outputs,
            training,
            samples=data["samples"],
            length=task.context_length,
            recompute=recompute,
        )
        slowness = min(times[1:]) / (small.seconds(profile) + small.update_seconds(profile))
        answer |= {
            "seconds": slowness * _batch_seconds(step, training, profile),
            "tokens": _whole_tokens(data, training),
            "memory": step.memory,
        }
    return canonical.dumps(answer).encode()


def _whole_step(
    data: dict[str, Any], arm: Trial, training: TrainingSettings, task: LanguageTask, free: int | None
) -> tuple[CountedStep, bool]:
    """One part of the training's own batch, and whether its activations are computed again."""
    together = free if data["memory_bytes"] is None else data["memory_bytes"]
    available = None if together is None else together / training.replicas

    def counted(recompute: bool) -> CountedStep:
        inputs = tuple(replace(spec, length=data["whole"]["length"]) for spec in task.inputs)
        return count_step(arm.network, inputs, task.outputs, training, **data["whole"], recompute=recompute)

    recompute = training.checkpointing == "blocks"
    step = counted(recompute)
    if training.checkpointing == "auto" and available is not None and step.memory > USABLE * available:
        return counted(True), True
    return step, recompute


def _batch_seconds(step: CountedStep, training: TrainingSettings, profile: DeviceProfile) -> float:
    return training.parts * step.seconds(profile) + step.update_seconds(profile)


def _whole_tokens(data: dict[str, Any], training: TrainingSettings) -> int:
    return int(training.parts * data["whole"]["samples"] * data["whole"]["length"])


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
        torch.cuda.synchronize(precision.device)
