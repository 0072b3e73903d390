"""The objectives by which an agent can select its children; no torch."""

from __future__ import annotations

import math

import numpy as np

from evodevo.errors import UsageError
from evodevo.objectives.answered import Answered
from evodevo.objectives.base import OBJECTIVES, answer_objectives

ACCURACY = "accuracy"
"""The objective of the papers, computed batch by batch."""


def check_objective(name: str) -> None:
    """Refuse an objective that gives a child no quality in [0, 1].

    Raises:
        UsageError: An unknown objective, or one that is no share of the answers.
    """
    if name == ACCURACY:
        return
    objective = OBJECTIVES.get(name)
    if objective.score is None or objective.unit != "share":
        shares = [one.name for one in answer_objectives() if one.score is not None and one.unit == "share"]
        raise UsageError(
            f"training.objective is {name!r}, which is no share of right or wrong answers; allowed: "
            f"{', '.join([ACCURACY, *shares])}."
        )


def share_of(name: str, answered: Answered) -> float:
    """The score of an objective as a quality, 0 to 1, larger is better; 0 where it is not defined.

    A share that is to be small counts as what is left of 1.
    """
    if not np.isfinite(answered.logits).all():
        return 0.0
    objective = OBJECTIVES.get(name)
    assert objective.score is not None, "checked by check_objective"
    value = objective.score(answered).value
    if math.isnan(value):
        return 0.0
    return value if objective.direction == "maximise" else 1.0 - value
