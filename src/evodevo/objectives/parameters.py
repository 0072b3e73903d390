"""The objective ``parameters``: number of trainable parameters."""

from __future__ import annotations

from evodevo.objectives.base import Objective, number

PARAMETERS = Objective(
    name="parameters",
    unit="parameters",
    direction="minimise",
    needs="genome",
    summary="trainable numbers without embedding and head",
    measure=lambda s: number(s.space.cost(s.genome, length=1, convention=s.convention).parameters),
)
