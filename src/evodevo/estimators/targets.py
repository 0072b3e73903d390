"""Targets of a classifier: conversion between a user's classes or labels and the arrays of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from evodevo.errors import UsageError
from evodevo.tasks.base import OutputSpec

ANSWER = "answer"


@dataclass(frozen=True)
class EstimatorTargets:
    """Targets of a classifier.

    Attributes:
        output: Specification of the output: one class, or several labels.
        classes: Classes in order; for labels their numbers.
    """

    output: OutputSpec
    classes: NDArray[Any]


def read_targets(y: Any, samples: int) -> tuple[EstimatorTargets, NDArray[Any]]:
    """The targets, and the arrays for training: classes (n,) as numbers, labels (n, labels) as 0 and 1.

    Raises:
        ValueError: Values that are no classes, only one class, or another number than of samples.
    """
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    if kind == "multiclass-multioutput":
        raise UsageError("y has several columns of classes; give one column, or an indicator matrix of labels.")
    if kind == "multilabel-indicator":
        table = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        _check_length(len(table), samples)
        names = np.arange(table.shape[1])
        return EstimatorTargets(_output("labels", names), names), table.astype(np.float32)
    column = column_or_1d(y, warn=True)
    _check_length(len(column), samples)
    classes, numbers = np.unique(column, return_inverse=True)
    if len(classes) < 2:
        raise UsageError(f"y has one class alone, {str(classes[0])[:40]!r}; a classifier needs two classes or more.")
    return EstimatorTargets(_output("class", classes), classes), numbers.astype(np.int64)


def restored(kind: str, classes: NDArray[Any]) -> EstimatorTargets:
    """The targets of a classifier that was saved."""
    return EstimatorTargets(_output(kind, classes), classes)


def _output(kind: Any, classes: NDArray[Any]) -> OutputSpec:
    return OutputSpec(ANSWER, kind, len(classes), tuple(str(value) for value in classes.tolist()))


def _check_length(length: int, samples: int) -> None:
    if length != samples:
        raise UsageError(f"X has {samples} samples and y has {length}; they need equal numbers.")
