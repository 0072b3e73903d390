"""Falls of a cap in the procedure: where the network exceeds one, the choice among smaller networks."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.experiments.trainer import Trainer
from evodevo.growth.caps.race import CapRaces, Choice
from evodevo.growth.caps.records import FallRecord
from evodevo.growth.caps.smaller import Ids
from evodevo.growth.driver import Growth
from evodevo.growth.events.date import EventDate
from evodevo.growth.events.records import EventRecord
from evodevo.growth.procedures.apart import Onward
from evodevo.growth.procedures.batches import GrowthBatches
from evodevo.growth.races.halving import Halving
from evodevo.training.settings import TrainingSettings


def fall_of_cap(
    bench: Trainer,
    growth: Growth,
    training: TrainingSettings,
    batches: GrowthBatches,
    date: EventDate,
    name: str,
    *,
    before_next: float,
) -> tuple[EventRecord, Onward | None]:
    """Carry out one fall of the caps.

    Args:
        bench: Trainer of the procedure.
        growth: The growth; the network that goes on may be another afterwards.
        training: Settings of the training.
        batches: Batches of the training.
        date: Date of the event.
        name: Its name in the account.
        before_next: Share of the budget after which the next choice comes; 1 where none does.

    Returns:
        The record, and the training of the network that goes on; None where there was no race.
    """
    caps = growth.settings.caps
    halving = Halving(bench, caps.race, training, len(caps.falls), growth.ripen_other, growth.forward)
    races = CapRaces(halving, alone=caps.race.alone)

    def choose(kinds: Sequence[Sequence[Ids]], record: FallRecord, flops: float) -> Choice:
        bench.spend(name, flops)
        return races.choose(
            growth.zoo,
            kinds,
            record,
            task=batches.samples.task,
            batches=batches.plain,
            share=date.share,
            before_next=before_next,
            spent=bench.branch().snapshot.cursor.flops,
        )

    record, choice = growth.fall(date, choose)
    return record, None if choice is None else Onward.of(choice.prize)
