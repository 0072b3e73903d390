"""The schedule of a growth: events, probes, ends of warm-ups and rewards, each at a share of the budget (B.7.3).

Where caps fall (``CapSettings.schedule``), each fall is an event, too, and is numbered with the others; so is a shift
of the data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal

from evodevo.growth.spec import EventSettings

What = Literal["mature", "reward", "shift", "look", "fall", "event"]
_ORDER: tuple[What, ...] = ("mature", "reward", "shift", "look", "fall", "event")
"""At equal shares warm-ups end first, an event's reward comes before the next event, the data shift before
anything looks at them, and a cap falls before the event."""


def dates(settings: EventSettings) -> tuple[float, ...]:
    """Shares of the budget at which the events come, evenly spaced from the first to the last."""
    return evenly(settings.count, settings.first, settings.last)


def evenly(count: int, first: float, last: float) -> tuple[float, ...]:
    """So many numbers, evenly spaced from the first to the last; the first where it is one."""
    if count < 2:
        return (first,) * count
    step = (last - first) / (count - 1)
    return tuple(first + step * number for number in range(count))


@dataclass
class Agenda:
    """Queue of what comes next. It depends only on the settings and on the shares at which events really came.

    Args:
        settings: Number and dates of the events.
        falls: Shares of the budget at which a cap falls, in order.
        shift: Share of the budget at which the data shift; None where they do not.
    """

    settings: EventSettings
    falls: tuple[float, ...] = ()
    shift: float | None = None
    _dates: tuple[float, ...] = ()
    _coming: list[tuple[float, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        events = dates(self.settings)
        falls: list[tuple[float, What]] = [(date, "fall") for date in self.falls]
        falls += [] if self.shift is None else [(self.shift, "shift")]
        coming = sorted([*falls, *((date, "event") for date in events)], key=lambda one: (one[0], _ORDER.index(one[1])))
        self._dates = tuple(date for date, _ in coming)
        for number, (date, what) in enumerate(coming, 1):
            self._add(date, what, number)
        parts = self.settings.looks + 1
        for number in range(self.settings.looks * max(0, len(events) - 1)):
            event, place = divmod(number, self.settings.looks)
            before, after = events[event : event + 2]
            self._add(before + (after - before) * (place + 1) / parts, "look", number + 1)

    @property
    def dates(self) -> tuple[float, ...]:
        """Shares of the budget at which events, falls and the shift come, by their numbers from 1."""
        return self._dates

    def before_next(self, number: int) -> float:
        """Share of the budget at which the next fall or shift after an event comes; 1 where none does."""
        others = (*self.falls, *(() if self.shift is None else (self.shift,)))
        return min((date for date in others if date > self._dates[number - 1]), default=1.0)

    def next(self) -> tuple[float, What, int] | None:
        """Remove and return the next entry: (share, what, number of its event or look); None where none is left."""
        if not self._coming:
            return None
        share, what, number = heappop(self._coming)
        return share, _ORDER[what], number

    def happened(self, number: int, share: float, *, warms: bool) -> None:
        """Schedule what follows an event: its reward comes after the horizon, at the next event at the latest.

        Args:
            number: Number of the event, from 1.
            share: Share of the budget at which it came, 0 to 1.
            warms: Whether the warm-up of some module begins.
        """
        if warms:
            self._add(share + self.settings.warm, "mature", number)
        following = self._dates[number] if number < len(self._dates) else 1.0
        # Where edits took so long that this date is over, the reward comes at once, and still before the next event.
        self._add(min(share + self.settings.horizon, following), "reward", number)

    def _add(self, share: float, what: What, number: int) -> None:
        heappush(self._coming, (share, _ORDER.index(what), number))
