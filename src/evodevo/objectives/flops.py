"""The objective ``flops``: forward FLOPs per token."""

from __future__ import annotations

from evodevo.objectives.base import Objective, Subject, number


def _per_token(subject: Subject) -> float:
    cost = subject.space.cost(
        subject.genome, length=subject.length, convention=subject.convention, vocabulary=subject.vocabulary
    )
    return float(cost.flops / subject.length)


FLOPS = Objective(
    name="flops",
    unit="FLOP/token",
    direction="minimise",
    needs="genome",
    summary="forward FLOPs per token of a full context, embedding and head included",
    measure=lambda subject: number(_per_token(subject)),
)
