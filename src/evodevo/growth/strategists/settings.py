"""The settings of a strategist that follow from those of the growth."""

from __future__ import annotations

from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.spec import StrategistSettings


def settings_for(growth: GrowthSettings) -> StrategistSettings:
    """The run's strategist settings, with selection of parents, discount and target cost from the growth.

    Args:
        growth: Settings of the run; the target is in FLOPs of one sample, and so must be ``Transition.cost``.
    """
    settings = growth.policy
    learning = {"discount": growth.reward.discount, "target_cost": growth.caps.target_flops}
    chosen = {"selection": growth.birth.selection}
    return settings.model_copy(
        update={
            "learning": settings.learning.model_copy(update=learning),
            "heuristic": settings.heuristic.model_copy(update=chosen),
        }
    )
