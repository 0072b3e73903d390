"""Arms that begin with what wins a race, one of which grows around it what a fork confirms.

Source: docs/growth.md#race-then-grow. No part of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.experiments.trials import Cell, Variant
from evodevo.growth.recipes.growing import FIXED, GROW, RACE_THEN_GROW, growth_of_new_runs
from evodevo.module_zoo.plain_surroundings import PLAIN_SURROUNDINGS
from evodevo.networks.spec import NetworkSpec
from evodevo.settings import merge

NETWORK: Mapping[str, Any] = {"modules": "start", **PLAIN_SURROUNDINGS}
"""Settings of the zoo: even without a module it learns what is not linear, at the least FLOPs a step."""
GROWN, RACED = "race, then grow", "raced"
LEARNING_RATE = 3e-3
_STRATEGIST = RACE_THEN_GROW["strategist"]
_NO_EVENT: Mapping[str, Any] = {"events": {"count": 0}, "forks": {"share": 0.0}}
"""Options of an arm that does not grow; where its strategist is ``fixed`` it does not race, either."""


def raced_arms(
    network: NetworkSpec, *, alone: bool = False, cell: Cell | None = None, options: Mapping[str, Any] | None = None
) -> tuple[Variant, ...]:
    """The arm that races and grows, the same race without growth, and the whole network without a race.

    Args:
        network: A zoo with all of its modules.
        alone: Whether the race without growth is left out.
        cell: Cell of the arms.
        options: Options of the growth that the arms have and the evaluation has not.
    """

    def arm(name: str, strategist: str, **more: Any) -> Variant:
        own = {**merge(dict(options or {}), more), "strategist": strategist}
        return Variant(name=name, role="zoo", network=network, cell=cell or {}, procedure=GROW, options=own)

    grown, raced = arm(GROWN, _STRATEGIST), arm(RACED, _STRATEGIST, **_NO_EVENT)
    fixed = arm(FIXED, FIXED, **_NO_EVENT)
    return (grown, fixed) if alone else (grown, raced, fixed)


def raced_options(**more: Any) -> dict[str, Any]:
    """Options of the procedures of evaluations with such arms.

    Args:
        more: Further options of the growth.
    """
    return {GROW: merge(merge(growth_of_new_runs(), dict(RACE_THEN_GROW)), more)}
