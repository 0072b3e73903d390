"""The date of an event: all that is known of it before it begins."""

from __future__ import annotations

from dataclasses import dataclass

from evodevo.growth.compute_budget import Portions


@dataclass(frozen=True)
class EventDate:
    """The date of one event.

    Attributes:
        number: Number of the event, from 1.
        step: Training steps made so far.
        share: Share of the budget that is used up, 0 to 1.
        portioned: Limits of this event and all that follows until the next one; None for no limits.
    """

    number: int
    step: int
    share: float
    portioned: Portions | None = None
