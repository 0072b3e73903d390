"""What happened to a growing backbone at the events of its training: plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import Field

from evodevo.backbone.spec import BackboneStructure
from evodevo.growth.backbone.spec import Edit
from evodevo.growth.forks.records import ForkRecord
from evodevo.settings import Settings, validate

if TYPE_CHECKING:
    from evodevo.runs.archive import Individual

EVENTS = "backbone_events"
"""Name of the fact about the events of a training, a list of ``BackboneEvent``."""


class BackboneEvent(Settings):
    """One event.

    Attributes:
        number: Number of the event, from 1.
        at: Share of the budget at which it was to come, 0 to 1.
        step: Training steps made before.
        edits: Edits that were made, or tried in a fork; none where no edit could be made.
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
        what = ", ".join(edit.words() for edit in self.edits) or "nothing to try"
        if not self.edits:
            return f"event {self.number}: {what}: {self.note}"
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
