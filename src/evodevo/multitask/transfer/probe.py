"""Linear probes of published paths in a worker: what each represents of the samples of a new task, and what a linear
classifier makes of that.

Source: docs/spec/munet.md#probes.

Shapes: N samples, h numbers of a representation.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from pathlib import Path as Folder
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from evodevo import canonical
from evodevo.execution.base import Report
from evodevo.multitask.evaluate_settings import Digest, FrozenSource, answered
from evodevo.multitask.paths.built import FrozenPart, PathSamples
from evodevo.multitask.paths.kinds import KINDS
from evodevo.multitask.paths.multipath.cache import PathCache, rows_key
from evodevo.multitask.training.values import DataValues, PathTrainingSettings
from evodevo.multitask.transfer.problem import TABLE
from evodevo.multitask.transfer.table import TransferRow, TransferTable
from evodevo.randomness import generator
from evodevo.search.problem import Outcome
from evodevo.settings import Settings, validate
from evodevo.storage.pools import pool_at
from evodevo.tasks.multitask.task import MultitaskSettings, MultitaskTask
from evodevo.tasks.text.token_cache import default_folder
from evodevo.training.precision import Precision, decide

SAMPLES = 500
FOLDS = 3
_AT_ONCE = 128
_LEAST_PROBABILITY = 1e-6
_DIGITS = 4
"""Digits of a log-loss that are kept: the last bits of a fit differ between machines, and decide nothing."""


class TransferRequest(Settings):
    """The paths to be probed on the training samples of a task.

    Attributes:
        agent: agent that asks, for display.
        paths: published paths; each is read without its head.
        task: name of the task, for display.
        task_settings: settings of the data.
        task_key: key of the prepared data; None opens the sources.
        training: training settings of the agent: device and precision.
        view: publications that the agent sees.
        seed: seed of the choice of samples and folds.
        blobs: folder of the pool.
        cache: folder of prepared data and of kept representations; None is the user's.
    """

    agent: str
    paths: tuple[FrozenSource, ...]
    task: str
    task_settings: MultitaskSettings = MultitaskSettings()
    task_key: Digest | None = None
    training: PathTrainingSettings = PathTrainingSettings()
    view: int = Field(ge=0)
    seed: int = Field(ge=0)
    blobs: str
    cache: str | None = None


def evaluate_transfer(payload: bytes, report: Report) -> bytes:
    """Probe paths: ``TransferRequest`` -> an answer as ``transfer.problem.TransferProblem.read`` takes it.

    Live messages: {"step", "steps"} after each path.
    """
    return answered(lambda: _probe(_request(payload), report))


def _request(payload: bytes) -> TransferRequest:
    return validate(TransferRequest, canonical.loads(payload, what="probes", max_bytes=1 << 26), what="probes")


def _probe(request: TransferRequest, report: Report) -> Outcome:
    cache = None if request.cache is None else Folder(request.cache)
    task = MultitaskTask.open(request.task_settings, cache, request.task_key)
    precision = decide(request.training.device, request.training.precision)
    places = chosen_places(task.count("train"), request.seed)
    labels = task.labels("train")[places]
    import sklearn.linear_model  # noqa: F401 - seconds, which are not those of the first path

    pool, rows = pool_at(request.blobs), []
    kept = PathCache(cache or default_folder()) if request.training.representations else None
    for number, source in enumerate(request.paths):
        begin = time.perf_counter()
        part = KINDS.get(source.path.kind).single().freeze(source.path, source.components, pool, False)
        features = _features(part, source, task, places, precision, kept)
        loss, accuracy = probed(features, labels, request.seed)
        seconds = time.perf_counter() - begin
        rows.append(
            TransferRow(
                path=source.path.id,
                loss=round(loss, _DIGITS),
                accuracy=accuracy,
                width=features.shape[1],
                seconds=seconds,
            )
        )
        report({"step": number + 1, "steps": len(request.paths)})
    table = TransferTable(
        view=request.view,
        samples=len(places),
        prior=round(prior_loss(labels), _DIGITS),
        rows=tuple(sorted(rows, key=lambda row: (row.loss, row.path))),
    )
    return Outcome(extra={TABLE: table.model_dump(mode="json")})


def chosen_places(count: int, seed: int) -> NDArray[np.int64]:
    """At most 500 of the training samples, ascending."""
    chosen: NDArray[np.int64] = np.sort(generator(seed, "transfer").permutation(count)[:SAMPLES])
    return chosen


def _features(
    part: FrozenPart,
    source: FrozenSource,
    task: MultitaskTask,
    places: NDArray[np.int64],
    precision: Precision,
    kept: PathCache | None,
) -> NDArray[np.float64]:
    """``represented``, from the cache where another probe of the same samples has computed it."""
    if kept is None:
        return represented(part, task, places, precision)
    chosen = hashlib.sha256(places.astype("<i8").tobytes()).hexdigest()
    preparation = {**part.preparation, "device": precision.device.type, "dtype": str(precision.autocast_dtype)}
    key = rows_key(
        source.path.id,
        source.components,
        part.structure,
        "representation",
        f"{task.digest}/train/{chosen}",
        preparation,
    )
    rows = kept.rows(key, len(places), part.width)

    def made(own: NDArray[np.int64]) -> NDArray[np.float32]:
        return represented(part, task, places[own], precision).astype(np.float32)

    return rows.read(np.arange(len(places)), made).astype(np.float64)


def represented(
    part: FrozenPart, task: MultitaskTask, places: NDArray[np.int64], precision: Precision
) -> NDArray[np.float64]:
    """What a path without its head makes of training samples, unchanged by chance. Shape (N, h)."""
    part.path.to(precision.device)
    found = []
    for start in range(0, len(places), _AT_ONCE):
        samples = PathSamples(task, "train", places[start : start + _AT_ONCE], DataValues(), 0, None)
        read = part.read(samples)
        entry: Any = precision.place(read)
        with precision.autocast():
            answer = part.path(entry if part.path.reads is None else {part.path.reads: entry})
        found.append(answer.double().cpu())
    return torch.cat(found).numpy()


def probed(features: NDArray[np.float64], labels: NDArray[np.int64], seed: int) -> tuple[float, float]:
    """Log-loss in nats and accuracy of a multinomial logistic regression, on samples that it was not fitted to.

    Three folds, each class spread over them; features are standardised by the samples of the fit.

    Args:
        features: Representations, (N, h).
        labels: Classes, (N,).
        seed: Seed of the folds.
    """
    folds = np.empty(len(labels), np.int64)
    order = generator(seed, "folds").permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    folds[by_class] = np.arange(len(labels)) % FOLDS
    losses, right = np.empty(len(labels)), np.empty(len(labels), bool)
    for fold in range(FOLDS):
        held = folds == fold
        chances = _fitted_chances(features[~held], labels[~held], features[held], int(labels.max()) + 1)
        losses[held] = -np.log(np.maximum(chances[np.arange(held.sum()), labels[held]], _LEAST_PROBABILITY))
        right[held] = chances.argmax(1) == labels[held]
    return float(losses.mean()), float(right.mean())


def _fitted_chances(
    features: NDArray[np.float64], labels: NDArray[np.int64], held: NDArray[np.float64], classes: int
) -> NDArray[np.float64]:
    """Probability of each class for the held samples; 0 for classes that no sample of the fit has."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    chances = np.zeros((len(held), classes))
    known = np.unique(labels)
    if len(known) < 2:
        chances[:, known] = 1.0
        return chances
    mean, spread = features.mean(0), features.std(0)
    spread[spread == 0] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a ranking needs no last digits
        model = LogisticRegression(max_iter=100).fit((features - mean) / spread, labels)
    chances[:, model.classes_] = model.predict_proba((held - mean) / spread)
    return chances


def prior_loss(labels: NDArray[np.int64]) -> float:
    """Entropy of the frequencies of the classes, in nats."""
    shares = np.bincount(labels) / len(labels)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())
