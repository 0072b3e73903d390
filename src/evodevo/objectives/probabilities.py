"""Logits of classes and labels as probabilities, in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def softmax(logits: Numbers) -> Numbers:
    """(B, C) -> probabilities."""
    return np.exp(log_softmax(logits))


def sigmoid(logits: Numbers) -> Numbers:
    """Probabilities of labels, without overflow."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0, small) / (1.0 + small)


def log_softmax(logits: Numbers) -> Numbers:
    shifted: Numbers = logits - logits.max(1, keepdims=True)
    logs: Numbers = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return logs
