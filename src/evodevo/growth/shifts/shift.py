"""What happens to a growing network at a shift of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evodevo.growth.edit_spec import Edit
from evodevo.growth.events.date import EventDate
from evodevo.growth.events.raced import RacedEvents
from evodevo.growth.events.records import EventRecord, GrowthMemory
from evodevo.growth.growable import Growable, GrowingNetwork
from evodevo.growth.shifts.entrants import Continuation, continuations, planned_families
from evodevo.growth.shifts.race import Alter, Altered, ShiftChoice
from evodevo.growth.shifts.records import ShiftRecord

Choose = Callable[[Sequence[Sequence[Continuation]], ShiftRecord, Alter, float], ShiftChoice]
"""Chooses among kinds of networks (``shifts.entrants.continuations``); its further arguments are the record so far, how
a continuation is applied, and the FLOPs that have been used up at this event."""


@dataclass(frozen=True)
class Shifted:
    """The outcome.

    Attributes:
        record: What is recorded.
        memory: The memory afterwards.
        zoo: The network that goes on.
        choice: What was chosen.
    """

    record: EventRecord
    memory: GrowthMemory
    zoo: GrowingNetwork
    choice: ShiftChoice


def shift(
    events: RacedEvents,
    zoo: GrowingNetwork,
    memory: GrowthMemory,
    date: EventDate,
    record: ShiftRecord,
    *,
    planned: Growable,
    choose: Choose,
) -> Shifted:
    """Carry out the shift of the data: probe on the new ones, and let networks race for who goes on.

    What was measured on the old data and does not hold for the new ones is forgotten: the metric at events before,
    how often a module was unused, and what forks refused.

    Args:
        events: Probes and edits of the run.
        zoo: The network; the one that goes on may be another.
        memory: Memory before the shift.
        date: Date of the event.
        record: Record of the shift so far.
        planned: The network as it was planned.
        choose: The choice.
    """
    forgotten = memory.model_copy(update={"low": {}, "values": (), "shares": (), "refused": {}})
    moment, settings = events.begin(zoo, forgotten, date), events.editing.settings
    races = bool(settings.shift.race.share)
    families = planned_families(planned) if races else {}

    def alter(other: GrowingNetwork, continuation: Continuation) -> Altered:
        made, edits = events.edits(other, moment), list[Edit]()
        editor = made.editor(families)
        for action in continuation.actions:
            edits += editor.at_once(action, event=date.number, order=len(edits))
        return Altered(tuple(edits), made.bank)

    kinds = continuations(zoo.structure, families, settings.birth.most) if races else ()
    choice = choose(kinds, record, alter, moment.flops)
    stays = zoo if choice.prize is None else choice.prize.zoo
    made, edits = events.edits(stays, moment), tuple[Edit, ...]()
    if choice.altered is not None:
        edits, made.bank = choice.altered.edits, choice.altered.bank
    why = choice.record.reason
    edits = tuple(edit.model_copy(update={"note": "; ".join(filter(None, (edit.note, why)))}) for edit in edits)
    event, memory = events.end(stays, moment, edits, made)
    return Shifted(event.model_copy(update={"shift": choice.record}), memory, stays, choice)
