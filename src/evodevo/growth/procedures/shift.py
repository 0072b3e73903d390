"""The shift of the data in the procedure: where a race is wanted, the choice of the network that goes on."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.experiments.trainer import Trainer
from evodevo.growth.driver import Growth
from evodevo.growth.events.date import EventDate
from evodevo.growth.events.records import EventRecord
from evodevo.growth.procedures.apart import Onward
from evodevo.growth.procedures.batches import GrowthBatches
from evodevo.growth.races.halving import Halving
from evodevo.growth.shifts.entrants import Continuation
from evodevo.growth.shifts.race import Alter, ShiftChoice, ShiftRaces
from evodevo.growth.shifts.records import ShiftRecord
from evodevo.growth.shifts.spec import ShiftSettings
from evodevo.growth.training.starting_race import GrowthStart
from evodevo.training.settings import TrainingSettings


def date_of_shift(shift: ShiftSettings, start: GrowthStart) -> float | None:
    """Share at which the data shift, of what the race at the start left; None where they do not."""
    raced = 0.0 if start.race is None else start.race["share"]
    return None if shift.kind is None else max(0.0, (shift.at - raced) / (1 - raced))


def shift_of_data(
    bench: Trainer,
    growth: Growth,
    training: TrainingSettings,
    batches: GrowthBatches,
    date: EventDate,
    name: str,
    *,
    before_next: float,
) -> tuple[EventRecord, Onward | None]:
    """Carry out the shift, after which samples and batches are of the new data; arguments as for ``fall_of_cap``."""
    race = growth.settings.shift.race
    by_trend = race.judge == "trend"
    races = ShiftRaces(Halving(bench, race, training, 1, growth.ripen_other, growth.forward, by_trend=by_trend))

    def choose(kinds: Sequence[Sequence[Continuation]], record: ShiftRecord, alter: Alter, flops: float) -> ShiftChoice:
        bench.spend(name, flops)
        return races.choose(
            growth.zoo,
            kinds,
            record,
            alter=alter,
            task=batches.samples.task,
            batches=batches.plain,
            before_next=before_next,
            spent=bench.branch().snapshot.cursor.flops,
        )

    record, choice = growth.shift(date, ShiftRecord(new=batches.samples.new), choose)
    return record, Onward.of(choice.prize)
