"""What happened to a growing backbone at the events of its training: plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field

from evodevo.backbone.spec import BackboneStructure
from evodevo.growth.backbone.spec import Edit, starts_of
from evodevo.growth.forks.records import ForkRecord
from evodevo.settings import Settings, validate

if TYPE_CHECKING:
    from evodevo.runs.archive import Individual

EVENTS = "backbone_events"
"""Name of the fact about the events of a training, a list of ``BackboneEvent``."""
RACE = "backbone_race"
"""Name of the fact about the race at the start, a ``BackboneRaceRecord``; left out where none was wanted."""

NOTHING_TRIED = "None of the choices is tried"
"""Effect of a budget without room for forks."""


class BackboneRaceRecord(Settings):
    """The race at the start.

    Attributes:
        chosen: Genome with which the growth begins.
        livs: Names of its classes in order.
        steps: Training steps of all its networks.
        share: Share of the budget that it used up, 0 to 1.
        heats: Facts of its heats; see ``experiments.racing.race.TrainingRace``.
        instead: Why there was none; empty where there was one.
    """

    chosen: str
    livs: tuple[str, ...] = ()
    steps: int = Field(default=0, ge=0)
    share: float = 0.0
    heats: tuple[dict[str, Any], ...] = ()
    instead: str = ""

    @property
    def told(self) -> str:
        """The race in a sentence."""
        if self.instead:
            return f"No race: {self.instead}."
        heat = self.heats[0]
        out = f" ({len(heat['left_out'])} too dear for it)" if heat["left_out"] else ""
        used = f"took {100 * self.share:.1f} % of the budget"
        return f"A race of {len(heat['arms'])} backbones{out} {used}; {', '.join(self.livs)} goes on."


class BackboneEvent(Settings):
    """One event.

    Attributes:
        number: Number of the event, from 1.
        at: Share of the budget at which it was to come, 0 to 1.
        step: Training steps made before.
        edits: Edits that were made, or tried in a fork; none where none could be made.
        kept: Whether the network has them afterwards.
        note: Why not; empty where it has.
        fork: The fork that decided; None where none did.
    """

    number: int = Field(ge=1)
    at: float
    step: int = Field(ge=0)
    edits: tuple[Edit, ...]
    kept: bool = True
    note: str = ""
    fork: ForkRecord | None = None

    @property
    def told(self) -> str:
        """The event in a line: ``event 2: twice the width refused: its gain is …``."""
        what = ", ".join(edit.words() for edit in self.edits)
        if not self.edits:
            return f"event {self.number}: no edit: {self.note}"
        if self.kept:
            gain = "" if self.fork is None or self.fork.chose is None else f", {self.fork.chose.gain:+.4f} nats"
            return f"event {self.number}: {what} {'made' if self.fork is None else 'kept'}{gain}"
        return f"event {self.number}: {what} refused: {self.note}"


def grown_structure(start: BackboneStructure, events: Iterable[BackboneEvent]) -> BackboneStructure:
    """The structure after these events.

    Raises:
        UsageError, GenomeError: An edit that the backbone does not admit.
    """
    structure = start
    for event in events:
        for edit in event.edits if event.kept else ():
            structure = edit.after(structure)
    return structure


def events_of(individual: Individual) -> tuple[BackboneEvent, ...] | None:
    """Events of a training; None where it has not recorded any, as trainings of before and those that go on."""
    recorded = individual.fact.get(EVENTS)
    if recorded is None:
        return None
    what = f"the events of {individual.id}"
    return tuple(validate(BackboneEvent, event, what=what) for event in recorded)


def race_of(individual: Individual) -> BackboneRaceRecord | None:
    """The race of a training; None where none was wanted."""
    recorded = individual.fact.get(RACE)
    return None if recorded is None else validate(BackboneRaceRecord, recorded, what=f"the race of {individual.id}")


def started(planned: BackboneStructure, chosen: str) -> BackboneStructure:
    """The backbone of a race with this genome, as the race names it."""
    return next(start for start in starts_of(planned, (chosen,)) if start.genome == chosen)


def begun(planned: BackboneStructure, individual: Individual) -> BackboneStructure:
    """The structure with which the growth of a training began: the planned one, or the one that a race chose."""
    race = race_of(individual)
    return planned if race is None else started(planned, race.chosen)
