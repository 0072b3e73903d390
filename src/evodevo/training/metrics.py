"""Quality of answers with classes and labels: metrics of one output from its logits and targets.

A metric that is not defined on the samples at hand is NaN, with a sentence that gives the reason; never 0, never a
warning. Where a metric is a mean over classes or labels, those for which it is not defined are left out and counted.

Legend: B samples, C classes or labels. Binary is a class output with two values, of which the second is the positive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evodevo.tasks.base import NO_TARGET
from evodevo.training.calibration import Reliability, reliability
from evodevo.training.probabilities import log_softmax, sigmoid

Kind = Literal["class", "labels"]
Numbers = NDArray[np.float64]
Marks = NDArray[np.bool_]
HALF = 0.5


@dataclass(frozen=True)
class Judgement:
    """The metrics of one output.

    Attributes:
        metrics: name -> value. ``auc`` (binary; macro one against the rest; macro over labels) and ``auc_skipped``,
            classes or labels without both answers; ``f1_macro``, ``precision_macro``, ``recall_macro``; ``log_loss`` in
            nats; ``calibration_error``. Of classes ``accuracy``, binary also ``f1``, ``precision``, ``recall`` of the
            positive class. Of labels ``exact`` (all of a sample are right), ``label_accuracy``, ``f1_micro``. Names
            that end in ``_tuned`` are at the thresholds that were given, all others at one half.
        reasons: metric -> reason why it is NaN, or what it leaves out.
        thresholds: those that are best for F1 on these very samples: one of a binary output, one per label; empty for
            three classes or more.
        reliability: data of the reliability diagram; None where nothing was answered.
    """

    metrics: dict[str, float]
    reasons: dict[str, str] = field(default_factory=dict)
    thresholds: tuple[float, ...] = ()
    reliability: Reliability | None = None


def judge(kind: Kind, logits: NDArray[Any], targets: NDArray[Any], thresholds: Sequence[float] = ()) -> Judgement:
    """All metrics of one output.

    Args:
        kind: class or labels.
        logits: (B, C).
        targets: class (B,) integers, -1 where there is none; labels (B, C) of 0 and 1, NaN where there is none.
        thresholds: tuned on other samples (``Judgement.thresholds``), for the metrics that end in ``_tuned``.
    """
    values = np.asarray(logits, dtype=np.float64)
    if kind == "class":
        there = targets != NO_TARGET
        values, wanted = values[there], targets[there].astype(np.int64)
        nothing = not len(wanted)
    else:
        wanted = np.asarray(targets, dtype=np.float64)
        nothing = bool(np.isnan(wanted).all())
    if nothing:
        return _undefined(kind, "no sample has a target")
    if not np.isfinite(values).all():
        return _undefined(kind, "an answer is not a finite number")
    return _judge_class(values, wanted, thresholds) if kind == "class" else _judge_labels(values, wanted, thresholds)


def auc(scores: Numbers, positive: Marks) -> float:
    """Area under the ROC curve: how often a positive has a higher score than a negative, ties counting one half.

    Args:
        scores, positive: (A,).

    Returns:
        NaN where there are only positives or only negatives.
    """
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        return math.nan
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # the mean rank of equal scores, from 1
    return float((ranks[places][positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def best_threshold(probabilities: Numbers, positive: Marks) -> float:
    """The threshold in [0, 1) whose F1 is highest, positive being what is above it; the one nearest to one half.

    Args:
        probabilities, positive: (A,).

    Returns:
        One half where nothing is gained by another one.
    """
    if not positive.any():
        return HALF
    order = np.argsort(-probabilities, kind="stable")
    falling, hits = probabilities[order], np.cumsum(positive[order])
    below = np.append(falling[1:], 0.0)
    cuts = np.flatnonzero(falling > below)  # after these places the probability falls
    f1 = 2 * hits[cuts] / (cuts + 1 + positive.sum())
    if not f1.any():
        return HALF
    middle = (falling[cuts] + below[cuts]) / 2
    # Between neighbouring floats the middle is one of them, and must not be the upper one.
    middle = np.where(middle < falling[cuts], middle, below[cuts])
    best = f1 >= f1.max() * (1 - 1e-12)
    # Where one half lies in the gap of a best cut, it is as good as the middle.
    middle = np.where((below[cuts] <= HALF) & (falling[cuts] > HALF), HALF, middle)
    candidates = middle[best]
    return float(candidates[np.argmin(np.abs(candidates - HALF))])


def _judge_class(logits: Numbers, wanted: NDArray[np.int64], thresholds: Sequence[float]) -> Judgement:
    """(B, C) and (B,), all known and finite."""
    rows, classes = np.arange(len(wanted)), logits.shape[1]
    logs = log_softmax(logits)
    probabilities, chosen = np.exp(logs), logits.argmax(1)
    curve = reliability(probabilities[rows, chosen], chosen == wanted)
    each = wanted[:, None] == np.arange(classes)
    metrics = _Metrics()
    metrics.values["accuracy"] = float((chosen == wanted).mean())
    metrics.values["log_loss"] = float(-logs[rows, wanted].mean())
    metrics.values["calibration_error"] = curve.error
    tuned: tuple[float, ...] = ()
    if classes == 2:
        # The difference of the logits orders samples as the probability does, but never runs into 1.
        metrics.auc([auc(logits[:, 1] - logits[:, 0], each[:, 1])], "the split has one class")
        metrics.counts(_counts(chosen == 1, each[:, 1]), "")
        metrics.macro(_class_counts(chosen, wanted, classes))
        tuned = (best_threshold(probabilities[:, 1], each[:, 1]),)
        if thresholds:
            positive = probabilities[:, 1] > thresholds[0]
            metrics.values["accuracy_tuned"] = float((positive == each[:, 1]).mean())
            metrics.counts(_counts(positive, each[:, 1]), "_tuned")
    else:
        areas = [auc(probabilities[:, label], each[:, label]) for label in range(classes)]
        metrics.auc(areas, "the split has one class", skipped=True)
        metrics.macro(_class_counts(chosen, wanted, classes))
    return Judgement(metrics.values, metrics.reasons, tuned, curve)


def _judge_labels(logits: Numbers, wanted: Numbers, thresholds: Sequence[float]) -> Judgement:
    """(B, C) twice; NaN where there is no target."""
    known = ~np.isnan(wanted)
    there, probabilities = wanted > HALF, sigmoid(logits)
    labels = range(logits.shape[1])
    areas = [auc(logits[known[:, label], label], there[known[:, label], label]) for label in labels]
    # log(1 + e^x) - x y, in the form that neither overflows nor loses what is small.
    losses = np.maximum(logits, 0) - logits * there + np.log1p(np.exp(-np.abs(logits)))
    curve = reliability(probabilities[known], there[known])
    metrics = _Metrics()
    metrics.auc(areas, "no label has both answers in the split", skipped=True)
    metrics.values["log_loss"] = float(losses[known].mean())
    metrics.values["calibration_error"] = curve.error
    metrics.labels(probabilities > HALF, there, known, "")
    if thresholds:
        metrics.labels(probabilities > np.asarray(thresholds), there, known, "_tuned")
    tuned = tuple(
        best_threshold(probabilities[known[:, label], label], there[known[:, label], label]) for label in labels
    )
    return Judgement(metrics.values, metrics.reasons, tuned, curve)


@dataclass(frozen=True)
class _Counts:
    """Right positives, wrong positives, missed ones; of each class or label (C,)."""

    true: Numbers
    false: Numbers
    missed: Numbers

    def ratios(self) -> dict[str, Numbers]:
        """NaN where nothing is counted."""
        with np.errstate(invalid="ignore"):
            return {
                "f1": 2 * self.true / (2 * self.true + self.false + self.missed),
                "precision": self.true / (self.true + self.false),
                "recall": self.true / (self.true + self.missed),
            }


class _Metrics:
    """Values and reasons while they are collected."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.reasons: dict[str, str] = {}

    def auc(self, areas: Sequence[float], reason: str, *, skipped: bool = False) -> None:
        """The mean of those that are defined."""
        known = [area for area in areas if not math.isnan(area)]
        self.values["auc"] = math.fsum(known) / len(known) if known else math.nan
        if not known:
            self.reasons["auc"] = reason
        if skipped:
            without = len(areas) - len(known)
            self.values["auc_skipped"] = float(without)
            if known and without:
                self.reasons["auc"] = f"left out {without} of {len(areas)}: one answer in the split"

    def counts(self, counts: _Counts, suffix: str) -> None:
        """F1, precision and recall of the positive class."""
        for name, value in counts.ratios().items():
            self._add(name + suffix, float(value[0]), _NOTHING[name])

    def macro(self, counts: _Counts, suffix: str = "") -> None:
        """Means over classes or labels."""
        for name, values in counts.ratios().items():
            known = values[~np.isnan(values)]
            self._add(f"{name}_macro{suffix}", float(known.mean()) if len(known) else math.nan, _NOTHING[name])
            if 0 < len(known) < len(values):
                without = len(values) - len(known)
                self.reasons[f"{name}_macro{suffix}"] = f"left out {without} of {len(values)}: {_NOTHING[name]}"

    def labels(self, chosen: Marks, there: Marks, known: Marks, suffix: str) -> None:
        """Everything of labels at some thresholds; (B, C) each."""
        right = (chosen == there) | ~known
        self.values[f"exact{suffix}"] = float(right[known.any(1)].all(1).mean())
        self.values[f"label_accuracy{suffix}"] = float(right[known].mean())
        counts = _counts(chosen & known, there & known)
        self.macro(counts, suffix)
        whole = _Counts(*(np.atleast_1d(group.sum()) for group in (counts.true, counts.false, counts.missed)))
        self._add(f"f1_micro{suffix}", float(whole.ratios()["f1"][0]), _NOTHING["f1"])

    def _add(self, name: str, value: float, reason: str) -> None:
        self.values[name] = value
        if math.isnan(value):
            self.reasons[name] = reason


_NOTHING = {
    "f1": "neither there nor answered",
    "precision": "never answered",
    "recall": "not in the split",
}
"""Why a ratio is not defined."""


def _counts(chosen: Marks, wanted: Marks) -> _Counts:
    """(A,) or (A, C) each; the first axis is counted."""
    both = [chosen & wanted, chosen & ~wanted, ~chosen & wanted]
    return _Counts(*(np.atleast_1d(array.sum(0)).astype(np.float64) for array in both))


def _class_counts(chosen: NDArray[np.int64], wanted: NDArray[np.int64], classes: int) -> _Counts:
    """The same without a table of samples by classes."""
    true = np.bincount(wanted[chosen == wanted], minlength=classes).astype(np.float64)
    return _Counts(true, np.bincount(chosen, minlength=classes) - true, np.bincount(wanted, minlength=classes) - true)


def _undefined(kind: Kind, reason: str) -> Judgement:
    own = ("accuracy",) if kind == "class" else ("exact", "label_accuracy", "f1_micro")
    names = ("auc", *own, "f1_macro", "precision_macro", "recall_macro", "log_loss", "calibration_error")
    return Judgement(dict.fromkeys(names, math.nan), dict.fromkeys(names, reason))
