"""What a strategist is told of the growth that it decides."""

from __future__ import annotations

from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.spec import StrategistSettings


def settings_for(growth: GrowthSettings) -> StrategistSettings:
    """The run's own, with how parents are chosen, rewards' discount, and the cost that the mean is held to.

    Args:
        growth: of the run; the target is in FLOPs of one sample, and so must be ``Transition.cost``.
    """
    settings = growth.policy
    told = {"discount": growth.reward.discount, "target_cost": growth.caps.target_flops}
    chosen = {"selection": growth.birth.selection}
    return settings.model_copy(
        update={
            "learning": settings.learning.model_copy(update=told),
            "heuristic": settings.heuristic.model_copy(update=chosen),
        }
    )
