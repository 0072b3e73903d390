"""What an objective on answers reads: the answers of a network to one output, with their targets.

Legend: B samples, C classes or labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evodevo.objectives.probabilities import log_softmax, sigmoid

HALF = 0.5
"""Threshold of labels, and between targets of 0 and 1."""


@dataclass(frozen=True)
class Answered:
    """Answers to one output with classes or labels; at least one has a target, and all are finite.

    Attributes:
        kind: Kind of the output. A class output has samples with a target only.
        logits: (B, C).
        targets: Classes (B,), or labels (B, C) of 0 and 1, NaN where there is no target.
        groups: The task's ``groups``: grouping -> number of each sample's group, (B,), -1 where it has none. Empty
            where a driver does not group samples.
    """

    kind: Literal["class", "labels"]
    logits: NDArray[np.float64]
    targets: NDArray[np.int64] | NDArray[np.float64]
    groups: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    @cached_property
    def log_probabilities(self) -> NDArray[np.float64]:
        """Of classes, (B, C)."""
        return log_softmax(self.logits)

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """(B, C); of labels each by itself."""
        return np.exp(self.log_probabilities) if self.kind == "class" else sigmoid(self.logits)

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Which labels have a target, (B, C)."""
        return ~np.isnan(self.targets)

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """Which samples are answered rightly, in every label that has a target: (B,)."""
        if self.kind == "class":
            return np.asarray(self.logits.argmax(1) == self.targets)
        return np.asarray((((self.probabilities > HALF) == (self.targets > HALF)) | ~self.known).all(1))


@dataclass(frozen=True)
class AnswerScore:
    """The score of one output.

    Attributes:
        value: Number in the objective's unit; NaN where it is not defined.
        reason: Why it is not defined, or what it leaves out.
    """

    value: float
    reason: str = ""
