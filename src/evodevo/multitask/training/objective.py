"""The objectives by which an agent can select its children; no torch."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from evodevo.errors import UsageError
from evodevo.objectives.answered import Answered
from evodevo.objectives.base import OBJECTIVES, answer_objectives
from evodevo.objectives.probabilities import log_softmax

ACCURACY = "accuracy"
"""The objective of the papers, computed batch by batch."""
LIKELIHOOD = "likelihood"
"""Of few validation samples it tells children apart that accuracy takes for equal; see ``likelihood``."""
_DIGITS = 6
"""Digits of a likelihood: what is less differs between processors."""
_SLOPES = (-8.0, 8.0)
"""Natural logarithm of the inverse temperature, in units of the mean range of a sample's logits."""


def check_objective(name: str) -> None:
    """Refuse an objective that gives a child no quality in [0, 1].

    Raises:
        UsageError: An unknown objective, or one that is no share of the answers.
    """
    if name in (ACCURACY, LIKELIHOOD):
        return
    objective = OBJECTIVES.get(name)
    if objective.score is None or objective.unit != "share":
        shares = [one.name for one in answer_objectives() if one.score is not None and one.unit == "share"]
        raise UsageError(
            f"training.objective is {name!r}, which is no share of right or wrong answers; allowed: "
            f"{', '.join([ACCURACY, LIKELIHOOD, *shares])}."
        )


def share_of(name: str, answered: Answered) -> float:
    """The score of an objective as a quality, 0 to 1, larger is better; 0 where it is not defined.

    A share that is to be small counts as what is left of 1.
    """
    if not np.isfinite(answered.logits).all():
        return 0.0
    if name == LIKELIHOOD:
        return likelihood(answered.logits, answered.targets.astype(np.int64))
    objective = OBJECTIVES.get(name)
    assert objective.score is not None, "checked by check_objective"
    value = objective.score(answered).value
    if math.isnan(value):
        return 0.0
    return value if objective.direction == "maximise" else 1.0 - value


def likelihood(logits: NDArray[np.float64], targets: NDArray[np.int64]) -> float:
    """Geometric mean of the probability of the right class, 0 to 1, at the temperature at which it is largest.

    So a network is not judged by how far it believes itself (Guo et al. 2017), and logits times any factor above 0 have
    the same value. It is rounded to six digits.

    Args:
        logits: (B, C).
        targets: right class of each sample, (B,).
    """
    from scipy.optimize import minimize_scalar

    unit = float(np.ptp(logits, axis=1).mean())
    if unit == 0:
        return round(1 / int(logits.shape[1]), _DIGITS)
    scaled = logits / unit
    rows = np.arange(len(targets))

    def loss(slope: float) -> float:
        return float(-log_softmax(scaled * math.exp(slope))[rows, targets].mean())

    least = float(minimize_scalar(loss, bounds=_SLOPES, method="bounded", options={"xatol": 1e-6}).fun)
    return float(round(math.exp(-least), _DIGITS))
