"""The objective ``log_loss``: how surprising the right answers are to the network."""

from __future__ import annotations

import numpy as np

from evodevo.objectives.answered import HALF, Answered, AnswerScore
from evodevo.objectives.base import on_answers


def _log_loss(answered: Answered) -> AnswerScore:
    if answered.kind == "class":
        rows = np.arange(len(answered.targets))
        return AnswerScore(float(-answered.log_probabilities[rows, answered.targets.astype(np.int64)].mean()))
    logits = answered.logits
    # log(1 + e^x) - x y, in the form that neither overflows nor loses what is small.
    losses = np.maximum(logits, 0) - logits * (answered.targets > HALF) + np.log1p(np.exp(-np.abs(logits)))
    return AnswerScore(float(losses[answered.known].mean()))


LOG_LOSS = on_answers(
    name="log_loss",
    unit="nats",
    direction="minimise",
    summary="minus the log of the probability of what was right, on validation samples; classes and labels only",
    score=_log_loss,
)
