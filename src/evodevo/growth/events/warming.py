"""Warm-ups: after its birth a module's weight in the network and its learning rate rise with the budget's share."""

from __future__ import annotations

from evodevo.growth.events.records import EventRecord, GrowthMemory
from evodevo.growth.growable import GrowingNetwork
from evodevo.growth.spec import EventSettings

ROUNDING = 1e-9
"""Tolerance for shares of a budget, which are sums of floats."""


def ripen(zoo: GrowingNetwork, memory: GrowthMemory, share: float, settings: EventSettings) -> None:
    """Set birth factors and learning rates of a network for the share of the budget that is used up."""
    there, warm = set(zoo.live), settings.warm
    factors = {name: min(1.0, max(0.0, (share - at) / warm)) for name, at in memory.warming.items()}
    zoo.births = {name: factor for name, factor in factors.items() if name in there and factor < 1}
    slow = {*memory.warming, *memory.rewarming} & there
    zoo.newborn_rates = dict.fromkeys(sorted(slow), settings.warm_rate)


def still_warming(memory: GrowthMemory, share: float, settings: EventSettings) -> GrowthMemory:
    """The memory without the warm-ups whose time is over."""

    def lasting(begun: dict[str, float]) -> dict[str, float]:
        return {name: at for name, at in begun.items() if at + settings.warm > share + ROUNDING}

    return memory.model_copy(update={"warming": lasting(memory.warming), "rewarming": lasting(memory.rewarming)})


def postponed(record: EventRecord, memory: GrowthMemory, share: float) -> tuple[EventRecord, GrowthMemory]:
    """An event whose warm-ups begin later by a share of the budget, which others used up."""
    begin = record.share + share
    mine = {edit.module for edit in record.edits if edit.born}
    mine |= {edit.module for edit in record.edits if edit.action.operation == "rewarm"}
    update = {
        kind: {name: begin if name in mine else at for name, at in getattr(memory, kind).items()}
        for kind in ("warming", "rewarming")
    }
    return record.model_copy(update={"share": begin}), memory.model_copy(update=update)
