"""The rows of recall in the table of objectives; torch is loaded where one is measured."""

from __future__ import annotations

from functools import partial

from evodevo.objectives.base import Measurement, Objective, Subject


def _measure(task: str, subject: Subject) -> Measurement:
    from evodevo.backbone.recall.training import recall_accuracy

    return recall_accuracy(task, subject)


def _objective(task: str, what: str) -> Objective:
    return Objective(
        name=task,
        unit="share",
        direction="maximise",
        needs="genome",
        summary=f"share of right answers after a small training of its own on {what}",
        measure=partial(_measure, task),
    )


MQAR = _objective("mqar", "multi-query associative recall")
NOISY_RECALL = _objective("noisy_recall", "recall with noise")
INDUCTION = _objective("induction", "induction")
SELECTIVE_COPYING = _objective("selective_copying", "selective copying")
