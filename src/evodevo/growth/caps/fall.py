"""What happens to a growing network at a fall of its caps.

Source: docs/spec/architect_thyself.md#falling-caps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evodevo.growth.caps.race import Choice
from evodevo.growth.caps.records import FallRecord
from evodevo.growth.caps.smaller import Ids, kinds_under
from evodevo.growth.edit_spec import Edit
from evodevo.growth.events.date import EventDate
from evodevo.growth.events.raced import RacedEvents
from evodevo.growth.events.records import EventRecord, GrowthMemory
from evodevo.growth.growable import GrowingNetwork
from evodevo.growth.resources import Resources

Choose = Callable[[Sequence[Sequence[Ids]], FallRecord, float], Choice]
"""Chooses among kinds of smaller networks (``caps.smaller.kinds_under``); its further arguments are the record so far
and the FLOPs that have been used up at this event."""


@dataclass(frozen=True)
class Fallen:
    """The outcome.

    Attributes:
        record: What is recorded.
        memory: The memory afterwards.
        zoo: The network that goes on.
        choice: What was chosen; None where nothing had to go.
    """

    record: EventRecord
    memory: GrowthMemory
    zoo: GrowingNetwork
    choice: Choice | None


def fall(events: RacedEvents, zoo: GrowingNetwork, memory: GrowthMemory, date: EventDate, *, choose: Choose) -> Fallen:
    """Carry out one fall of the caps: probe, and where the network exceeds them now, let modules go.

    Args:
        events: Probes and edits of the run.
        zoo: The network, changed in place where no race trains another one.
        memory: Memory before the fall.
        date: Date of the event.
        choose: The choice.
    """
    moment = events.begin(zoo, memory.model_copy(update={"falls": memory.falls + 1}), date)
    made, task = events.edits(zoo, moment), events.probing.around.task
    caps = made.settings.caps
    excess = Resources.of(zoo.structure, task).excess(caps)
    record, choice, stays = FallRecord(limits=caps.limits, excess=excess or ""), None, zoo
    edits: tuple[Edit, ...] = ()
    if excess is not None:
        kinds = kinds_under(zoo.structure, task, caps, moment.seen.impact)
        choice = choose(kinds, record, moment.flops)
        record = choice.record
        editor, gone = made.editor(), [name for name in zoo.live if name not in record.chosen]
        edits = tuple(
            editor.let_go(name, event=date.number, order=order, note=record.reason, taught=choice.prize is None)
            for order, name in enumerate(gone)
        )
        stays = zoo if choice.prize is None else choice.prize.zoo
    event, memory = events.end(stays, moment, edits, made)
    return Fallen(event.model_copy(update={"fall": record}), memory, stays, choice)
