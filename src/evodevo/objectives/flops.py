"""The objective ``flops``: forward FLOPs per token."""

from __future__ import annotations

from evodevo.objectives.base import Measurement, Objective, Subject, number


def _per_token(subject: Subject) -> Measurement:
    cost = subject.space.cost(
        subject.genome, length=subject.length, convention=subject.convention, vocabulary=subject.vocabulary
    )
    return number(cost.flops / subject.length)


FLOPS = Objective(
    name="flops",
    unit="FLOP/token",
    direction="minimise",
    needs="genome",
    summary="forward FLOPs per token of a full context, embedding and head included",
    measure=_per_token,
)
