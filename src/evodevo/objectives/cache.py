"""The objective ``cache``: size of the inference cache in bytes."""

from __future__ import annotations

from evodevo.objectives.base import Objective, number

CACHE = Objective(
    name="cache",
    unit="bytes",
    direction="minimise",
    needs="genome",
    summary="bytes that generation keeps for one sequence after the context's length",
    measure=lambda s: number(s.space.cost(s.genome, length=s.length, convention=s.convention).cache_bytes),
)
