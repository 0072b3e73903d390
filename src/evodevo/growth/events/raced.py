"""An event at which no strategist decides but a race: what comes before it and after it."""

from __future__ import annotations

from dataclasses import dataclass

from evodevo.growth.edit_spec import Edit
from evodevo.growth.events.date import EventDate
from evodevo.growth.events.editing import Editing, EventEdits, with_edits
from evodevo.growth.events.probing import Probing
from evodevo.growth.events.records import EventRecord, GrowthMemory, module_rows
from evodevo.growth.fitness import FitnessHistory
from evodevo.growth.flops import Prices
from evodevo.growth.growable import GrowingNetwork
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.views import ages_of


@dataclass(frozen=True)
class Moment:
    """An event before its race.

    Attributes:
        date: Date of the event.
        memory: The memory until then.
        seen, history: A probe, and the history that follows from it.
        ages: Number of events since its birth, by module id.
        cost: FLOPs of growing, per sample.
        flops: FLOPs that have been used up at this event.
    """

    date: EventDate
    memory: GrowthMemory
    seen: ModuleProbe
    history: FitnessHistory
    ages: dict[str, int]
    cost: Prices
    flops: float


@dataclass(frozen=True)
class RacedEvents:
    """The events of one run at which a race decides.

    Attributes:
        probing: Probes.
        editing: Edits.
    """

    probing: Probing
    editing: Editing

    def begin(self, zoo: GrowingNetwork, memory: GrowthMemory, date: EventDate) -> Moment:
        """Begin an event: probe the network."""
        memory = memory.model_copy(update={"portions": date.portioned})
        seen, history = self.probing.look(zoo, memory.history, date.portioned)
        ages, cost = ages_of(zoo.structure.live, date.number), self.probing.prices(zoo)
        moment = Moment(date, memory, seen, history, ages, cost, self.probing.flops(zoo, date.portioned))
        self.probing.inform(zoo, seen)
        return moment

    def edits(self, zoo: GrowingNetwork, moment: Moment) -> EventEdits:
        """The edits of a network at this event, none of which is made yet."""
        return self.editing.begin(moment.date.number, zoo, moment.memory)

    def end(
        self, zoo: GrowingNetwork, moment: Moment, edits: tuple[Edit, ...], made: EventEdits
    ) -> tuple[EventRecord, GrowthMemory]:
        """End an event: the record, and the memory of the network that goes on."""
        memory = moment.memory.model_copy(update={"history": moment.history}).only(zoo.live)
        record = EventRecord(
            number=moment.date.number,
            step=moment.date.step,
            share=moment.date.share,
            modules=module_rows(moment.seen, moment.history, moment.ages),
            value=moment.seen.accuracy,
            loss=moment.seen.loss,
            decisions=(),
            edits=edits,
            portions=moment.date.portioned,
            flops=moment.flops + made.flops(moment.cost),
        )
        return record, with_edits(memory, edits, made.bank)
