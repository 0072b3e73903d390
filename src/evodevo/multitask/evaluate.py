"""Evaluation of one path of a multitask system in a worker: build it, train its own components, measure, keep.

Source: docs/spec/munet.md#training. Only components that the request lets learn are trained, and they are new blobs
afterwards: no component that another path uses is ever written. Which samples are right is kept in bits, so that paths
can be compared in pairs later.

Shapes: B samples of a batch, P paths of a multipath model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path as Folder
from typing import Any

import numpy as np
import torch
import torch._dynamo
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.execution.base import Report
from evodevo.experiments.correct_bits import pack
from evodevo.multitask.evaluate_settings import PathRequest, answered, read_request
from evodevo.multitask.paths.built import BuiltPath, Places
from evodevo.multitask.paths.frozen import route
from evodevo.multitask.paths.kinds import KINDS
from evodevo.multitask.paths.weights import count_parameters
from evodevo.multitask.problem import EVALS, IMPROVED, SIZES
from evodevo.multitask.recorded import ACCURACY, QUALITY
from evodevo.multitask.training import objective
from evodevo.multitask.training.training import PathResult, Samples, quality, train_path
from evodevo.multitask.training.values import data_values, optimizer_settings
from evodevo.search.problem import Outcome
from evodevo.storage.pools import pool_at
from evodevo.tasks.base import Split
from evodevo.tasks.multitask.batches import BatchPlan, training_places
from evodevo.tasks.multitask.task import MultitaskTask
from evodevo.training.parts import save_part
from evodevo.training.precision import Precision, decide

_MEASURED = 256


def evaluate_path(payload: bytes, report: Report) -> bytes:
    """Train a child: ``PathRequest`` -> an answer as ``multitask.problem.ChildProblem.read`` takes it.

    Live messages: {"step", "steps"} after each validation.
    """
    return answered(lambda: _train(read_request(payload), report))


def evaluate_root(payload: bytes, report: Report) -> bytes:
    """Make a root that answers no task: all its components, at random or from a checkpoint."""
    return answered(lambda: _make_root(read_request(payload)))


def measure_path(payload: bytes, report: Report) -> bytes:
    """The exact accuracy of a path on all of a split, and the further facts of ``exact_answers``; nothing is
    trained."""
    return answered(lambda: _measure(read_request(payload)))


def open_path(request: PathRequest) -> tuple[BuiltPath, MultitaskTask, Precision]:
    """A path with its weights and its task.

    Raises:
        UsageError: the task has other classes than the path answers.
        DataError: data that cannot be used, or a component that does not fit.
        NotFoundError, StoreDamagedError, UnsafeFileError: a component is gone or damaged.
    """
    cache = None if request.cache is None else Folder(request.cache)
    task = MultitaskTask.open(request.task_settings, cache, request.task_key)
    if request.path.classes != task.classes:
        raise UsageError(
            f"the path {request.path.id} answers {request.path.classes} classes; the task {request.task!r} has"
            f" {task.classes}."
        )
    precision = decide(request.training.device, request.training.precision)
    built = KINDS.get(request.path.kind).build(request, pool_at(request.blobs), task, precision)
    return built, task, precision


def labelled(
    built: BuiltPath, task: MultitaskTask, split: Split, request: PathRequest, precision: Precision
) -> Callable[[Places, int | None], Samples]:
    """Function from places in a split and the training step, None without random changes, to inputs and classes."""
    read = built.reader(task, split, data_values(request.path.hparams), request.seed)
    labels = torch.from_numpy(task.labels(split)).to(precision.device)
    return lambda places, step: (read(places, step), labels[places])


def validated(
    built: BuiltPath, task: MultitaskTask, plan: BatchPlan, request: PathRequest, precision: Precision
) -> Callable[[], float]:
    """Function that returns the quality of a path on the validation split, 0 to 1, by the objective of the request."""
    read, size = labelled(built, task, "validation", request, precision), plan.validation_batch

    def judged() -> float:
        places = (np.arange(number * size, (number + 1) * size) for number in range(plan.validation_batches))
        batches = (read(one, None) for one in places)
        return quality(request.training.objective, built.model, batches, precision)

    return judged


def _train(request: PathRequest, report: Report) -> Outcome:
    built, task, precision = open_path(request)
    plan = request.training.plan(task.count("train"), task.count("validation"), request.task_settings.batch)
    train = labelled(built, task, "train", request, precision)
    learners = {role: built.components[role] for role in request.trained}
    result = train_path(
        built.model,
        learners,
        lambda step: train(training_places(task.count("train"), request.seed, step, plan.batch), step),
        validated(built, task, plan, request, precision),
        plan,
        request.training,
        optimizer_settings(request.path.hparams),
        bar=request.bar,
        precision=precision,
        seed=request.seed,
        factors=built.factors,
        on_validation=lambda step, steps: report({"step": step, "steps": steps}),
    )
    facts: dict[str, Any] = {
        "flops": built.flops,
        "parameters": built.parameters,
        "trainable": sum(map(count_parameters, learners.values())),
        "validation_samples": plan.validation_samples,
        **course_of(request, result, plan.batch),
    }
    if not result.evals or (result.state == "diverged" and result.kept is None):
        return Outcome("diverged", detail=facts["explanation"], extra=facts)
    facts |= {EVALS: list(result.evals), IMPROVED: result.kept is not None}
    return outcome_of(request, learners if result.kept is not None else {}, facts)


def course_of(request: PathRequest, result: PathResult, batch: int) -> dict[str, Any]:
    """Facts about the course of a training, for the answer; ``batch`` is the number of samples of a step."""
    return {
        "steps": result.steps,
        "samples": result.samples,
        "losses": list(result.losses),
        "state": result.state,
        "kept": result.kept,
        "batch": batch,
        "explanation": _explained(request, result),
    }


def _explained(request: PathRequest, result: PathResult) -> str:
    """Why the child is kept or not, for people."""
    name = request.training.objective
    measure = "accuracies" if name == objective.ACCURACY else f"qualities by {name}"
    validations = ", ".join(f"{value:.4f}" for value in result.evals) or "none"
    bar = "no bar" if request.bar is None else f"a bar of {request.bar:.4f}"
    ended = f"; diverged after {result.steps} steps" if result.state == "diverged" else ""
    looks = "kept what it begins with" if request.training.first_look and result.kept == 0 and result.steps else ""
    outcome = "kept none" if result.kept is None else looks or f"kept look {result.kept + 1}"
    return f"{measure} {validations} against {bar}: {outcome}{ended}"


def _make_root(request: PathRequest) -> Outcome:
    if request.root is None:
        raise UsageError("a root needs its origin.")
    pool = pool_at(request.blobs)
    parts = KINDS.get(request.path.kind).single().make_root(request, pool)
    facts = {EVALS: [], IMPROVED: True, "explanation": f"a root: {request.root}"}
    return outcome_of(request, parts, facts)


def outcome_of(request: PathRequest, parts: Mapping[str, nn.Module], facts: dict[str, Any]) -> Outcome:
    """The outcome of a child; the weights of its new components (role -> component) go into the pool."""
    pool = pool_at(request.blobs)
    return Outcome(
        scores={QUALITY: max(facts[EVALS])} if facts[EVALS] else {},
        extra={**facts, SIZES: {role: count_parameters(part) for role, part in parts.items()}},
        blobs={role: save_part(pool, part.state_dict()) for role, part in parts.items()},
    )


def _measure(request: PathRequest) -> Outcome:
    built, task, precision = open_path(request)
    read = built.reader(task, request.split, data_values({}), request.seed)
    labels = torch.from_numpy(task.labels(request.split)).to(precision.device)

    def batches() -> Iterator[tuple[Any, Tensor]]:
        for start in range(0, len(labels), _MEASURED):
            places = np.arange(start, min(start + _MEASURED, len(labels)))
            yield read(places, None), labels[places]

    facts = exact_answers(built.model, batches(), precision)
    return Outcome(scores={ACCURACY: facts.pop("accuracy")}, extra=facts)


@torch.no_grad()
def exact_answers(model: nn.Module, batches: Iterable[tuple[Any, Tensor]], precision: Precision) -> dict[str, Any]:
    """Accuracy over all samples, and which of them are right.

    Args:
        model: inputs -> logits (B, classes).
        batches: inputs and classes (B,); they may differ in size.
        precision: device and number format.

    Returns:
        ``accuracy``, ``samples``, ``right`` (see ``experiments.correct_bits.pack``), ``answers`` (SHA-256 of the chosen
        classes: equal where two paths answer alike), and of a multipath model ``weights``: (P,) the router's, mean over
        samples.
    """
    model.eval()
    chosen: list[Tensor] = []
    wanted: list[Tensor] = []
    weights: list[Tensor] = []
    for inputs, classes in batches:
        with precision.autocast():
            routed = route(model, inputs)
        if routed.weights is not None:
            weights.append(routed.weights.double().sum(0).cpu())
        chosen.append(routed.logits.argmax(1).cpu())
        wanted.append(classes.cpu())
    answers, targets = torch.cat(chosen).numpy(), torch.cat(wanted).numpy()
    right = answers == targets
    facts: dict[str, Any] = {
        "accuracy": float(right.mean()),
        "samples": len(right),
        "right": pack(right.astype(np.float64)),
        "answers": hashlib.sha256(answers.astype("<i8").tobytes()).hexdigest(),
    }
    if weights:
        facts["weights"] = (torch.stack(weights).sum(0) / len(right)).tolist()
    return facts
