"""What the policy of a strategist went on from, in words."""

from __future__ import annotations

from evodevo.growth.report.data import GrowthHistory


def policy_words(growth: GrowthHistory) -> list[str]:
    """A sentence on where the policy came from; nothing where there is none or it was given no memory."""
    begun = growth.policy
    if begun is None:
        return []
    if begun["anew"]:
        return [f"The policy of {growth.strategist} began anew: {begun['anew']}."]
    runs, rewards = (f"{begun[name]} {name[:-1] if begun[name] == 1 else name}" for name in ("runs", "rewards"))
    return [f"The policy of {growth.strategist} went on from {runs} with {rewards}."]
