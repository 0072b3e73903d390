"""The course of a growth: what happened so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evodevo.growth.edit_spec import Edit
from evodevo.growth.events.records import EventRecord, LookRecord, RewardRecord
from evodevo.growth.forks.records import ForkRecord
from evodevo.growth.growable import Growable, TaskSizes
from evodevo.growth.resources import Resources
from evodevo.growth.spec import LIMITS, CapSettings
from evodevo.module_zoo.modules.spec import ZooModule


@dataclass
class GrowthCourse:
    """What happened in a growth so far.

    Attributes:
        start: The first modules.
        events, rewards, looks: Events, their rewards, and probes between them, in order.
        end: Probe after the training; None before.
        costs: What the network cost after each event, where caps fall.
    """

    start: Sequence[ZooModule]
    events: list[EventRecord] = field(default_factory=list)
    rewards: list[RewardRecord] = field(default_factory=list)
    looks: list[LookRecord] = field(default_factory=list)
    end: LookRecord | None = None
    costs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def last(self) -> int:
        """Number of the last event; 0 before the first."""
        return max((event.number for event in self.events), default=0)

    @property
    def forks(self) -> list[ForkRecord]:
        """The forks so far."""
        return [event.fork for event in self.events if event.fork is not None]

    def fork_seconds_at(self, number: int) -> float:
        """Seconds of the fork at an event; 0 without one, or where the budget is not in seconds."""
        return sum(event.fork.seconds for event in self.events if event.number == number and event.fork is not None)

    @property
    def edits(self) -> list[Edit]:
        """The edits of all events."""
        return [edit for event in self.events for edit in event.edits]

    def note_cost(self, step: int, share: float, caps: CapSettings, structure: Growable, task: TaskSizes) -> None:
        """What the network costs from here on, where caps fall."""
        if caps.falls:
            used = Resources.of(structure, task)
            capped = [name for name in LIMITS if name in caps.lowest.limits]
            costs = {name: getattr(used, name) for name in capped}
            self.costs.append({"step": step, "share": share, "costs": costs})
