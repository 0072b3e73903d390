"""Evaluation of one path of a multitask system in a worker: build it, train its own components, measure, keep.

Source: docs/spec/munet.md#training. Only components that the request lets learn are trained, and they are new blobs
afterwards: no component that another path uses is ever written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path as Folder
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evodevo import canonical
from evodevo.errors import DiskFullError, NotFoundError, StoreDamagedError, UnsafeFileError, UsageError
from evodevo.execution.base import Report
from evodevo.multitask.evaluate_settings import PathRequest, failed, read_request
from evodevo.multitask.exact_answers import exact_answers
from evodevo.multitask.paths.built import BuiltPath, Places
from evodevo.multitask.paths.kinds import KINDS
from evodevo.multitask.paths.weights import count_parameters, save_state
from evodevo.multitask.training.training import PathResult, Samples, train_path
from evodevo.multitask.training.values import data_values, optimizer_settings
from evodevo.search.problem import DAMAGED, DISK_FULL
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.base import Split
from evodevo.tasks.multitask.batches import training_places
from evodevo.tasks.multitask.task import MultitaskTask
from evodevo.training.precision import Precision, decide

_MEASURED = 256


def evaluate_path(payload: bytes, report: Report) -> bytes:
    """Train a child: ``PathRequest`` -> reason, detail, evals, quality, improved, components, and facts.

    Live messages: {"step", "steps"} after each validation.
    """
    return _answered(payload, lambda request: _train(request, report))


def evaluate_root(payload: bytes, report: Report) -> bytes:
    """Make a root that answers no task: all its components, at random or from a checkpoint."""
    return _answered(payload, _make_root)


def measure_path(payload: bytes, report: Report) -> bytes:
    """The exact accuracy of a path on all of a split, and the further facts of ``exact_answers``; nothing is
    trained."""
    return _answered(payload, _measure)


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
    built = KINDS.get(request.path.kind).build(request, FolderPool(Folder(request.blobs)), task, precision)
    return built, task, precision


def _answered(payload: bytes, work: Callable[[PathRequest], dict[str, Any]]) -> bytes:
    begin = time.perf_counter()
    try:
        answer = work(read_request(payload))
    except DiskFullError as error:
        answer = failed(DISK_FULL, str(error))
    except (NotFoundError, StoreDamagedError, UnsafeFileError) as error:
        answer = failed(DAMAGED, str(error))
    return canonical.dumps({**answer, "seconds": time.perf_counter() - begin}).encode()


def _train(request: PathRequest, report: Report) -> dict[str, Any]:
    built, task, precision = open_path(request)
    plan = request.training.plan(task.count("train"), task.count("validation"), request.task_settings.batch)
    values, size = data_values(request.path.hparams), plan.validation_batch

    def samples(split: Split) -> Callable[[Places, int | None], Samples]:
        read = built.reader(task, split, values, request.seed)
        labels = torch.from_numpy(task.labels(split)).to(precision.device)
        return lambda places, step: (read(places, step), labels[places])

    train, validation = samples("train"), samples("validation")
    learners = {role: built.components[role] for role in request.trained}
    result = train_path(
        built.model,
        learners,
        lambda step: train(training_places(task.count("train"), request.seed, step, plan.batch), step),
        lambda number: validation(np.arange(number * size, (number + 1) * size), None),
        plan,
        request.training,
        optimizer_settings(request.path.hparams),
        bar=request.bar,
        precision=precision,
        seed=request.seed,
        factors=built.factors,
        tell=lambda step, steps: report({"step": step, "steps": steps}),
    )
    facts: dict[str, Any] = {
        "flops": built.flops,
        "parameters": built.parameters,
        "trainable": sum(map(count_parameters, learners.values())),
        "steps": result.steps,
        "samples": result.samples,
        "losses": list(result.losses),
        "state": result.state,
        "kept": result.kept,
        "batch": plan.batch,
        "validation_samples": plan.validation_samples,
        "explanation": _explained(request, result),
    }
    if not result.evals or (result.state == "diverged" and result.kept is None):
        return failed("diverged", facts["explanation"], **facts)
    pool = FolderPool(Folder(request.blobs))
    components = {
        role: {"digest": save_state(pool, state), "parameters": count_parameters(learners[role])}
        for role, state in result.weights.items()
    }
    return {
        "reason": None,
        "detail": "",
        "evals": list(result.evals),
        "quality": result.quality,
        "improved": result.kept is not None,
        "components": components,
        **facts,
    }


def _explained(request: PathRequest, result: PathResult) -> str:
    """Why the child is kept or not, for people."""
    looks = ", ".join(f"{value:.4f}" for value in result.evals) or "none"
    bar = "no bar" if request.bar is None else f"a bar of {request.bar:.4f}"
    ended = f"; diverged after {result.steps} steps" if result.state == "diverged" else ""
    fate = "kept none" if result.kept is None else f"kept look {result.kept + 1}"
    return f"accuracies {looks} against {bar}: {fate}{ended}"


def _make_root(request: PathRequest) -> dict[str, Any]:
    if request.root is None:
        raise UsageError("a root needs its origin.")
    pool = FolderPool(Folder(request.blobs))
    parts = KINDS.get(request.path.kind).single().make_root(request, pool)
    return {
        "reason": None,
        "detail": "",
        "evals": [],
        "quality": None,
        "improved": True,
        "components": {
            role: {"digest": save_state(pool, part.state_dict()), "parameters": count_parameters(part)}
            for role, part in parts.items()
        },
        "explanation": f"a root: {request.root}",
    }


def _measure(request: PathRequest) -> dict[str, Any]:
    built, task, precision = open_path(request)
    read = built.reader(task, request.split, data_values({}), request.seed)
    labels = torch.from_numpy(task.labels(request.split)).to(precision.device)

    def batches() -> Iterator[tuple[Any, Tensor]]:
        for start in range(0, len(labels), _MEASURED):
            places = np.arange(start, min(start + _MEASURED, len(labels)))
            yield read(places, None), labels[places]

    return {"reason": None, "detail": "", **exact_answers(built.model, batches(), precision), "split": request.split}
