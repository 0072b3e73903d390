"""Events of the procedure whose edits a fork has to confirm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evodevo.experiments.trainer import Branch, Trainer
from evodevo.growth.driver import Growth
from evodevo.growth.events.date import EventDate
from evodevo.growth.events.records import EventRecord
from evodevo.growth.forks.budget import STEP, ForkBudget
from evodevo.growth.forks.plan import ForkPlan, ForkSamples, plan_forks
from evodevo.growth.forks.records import ForkRecord
from evodevo.growth.forks.running import Forks, spare_of
from evodevo.growth.forks.sides import Side
from evodevo.growth.growable import GrowingNetwork
from evodevo.growth.procedures.apart import Onward
from evodevo.growth.procedures.batches import GrowthBatches
from evodevo.growth.strategists.gains.record import MeasuredGain
from evodevo.training.settings import TrainingSettings
from evodevo.training.step_timer import seconds_of_steps


class ForkedEvents:
    """The events of one run.

    Args:
        bench: Trainer of the procedure.
        growth: The growth.
        forks: Forks of the run.
        batches: Batches of the training.
        run: Name of the run in its measured gains.
        data: Name of the data in them.
    """

    def __init__(
        self, bench: Trainer, growth: Growth, forks: Forks, batches: GrowthBatches, *, run: str, data: str
    ) -> None:
        self.bench = bench
        self.growth = growth
        self.forks = forks
        self.batches = batches
        self.run = run
        self.data = data

    def carry_out(
        self, date: EventDate, name: str, *, clock: Callable[[], float], earlier: Sequence[ForkRecord]
    ) -> tuple[EventRecord, Onward | None]:
        """Carry out an event, and the fork that decides on its edits where it has any.

        Args:
            date: Date of the event.
            name: Its name in the account.
            clock: Returns the share of the budget that is used up.
            earlier: Forks before.

        Returns:
            The record, and the side that goes on; None where there was no fork.
        """
        spares: list[tuple[GrowingNetwork, Branch]] = []
        growth, bench = self.growth, self.bench
        record = growth.event(
            date, clock=clock, decided=lambda: spares.append((spare_of(growth.zoo, bench), bench.branch()))
        )
        edits = tuple(edit.action.words for edit in record.edits if edit.module is not None)
        if not edits:
            return record, None
        (spare, before), after = spares[0], bench.branch()
        bench.spend(name, record.flops)
        spent = bench.branch().snapshot.cursor.flops
        before, after = (each.at(spent) for each in (before, after))
        forked = self.forks.run(
            edits,
            Side(growth.zoo, after.snapshot, growth.ripen_other),  # copies of it are trained, too
            Side(spare, before.snapshot, growth.ripen_unedited),
            task=self.batches.samples.task,
            batches=self.batches.plain,
            number=date.number,
            earlier=earlier,
            branch=before,
            price=lambda side: growth.forward(side.zoo.structure),
        )
        fork = forked.record
        if fork.kept:
            record = growth.postpone(record, forked.apart)
        else:
            bench.back_to(before)
            record = growth.withdraw(record, spare, fork.reason)
        together = sum(decision.action.operation != "noop" for decision in record.decisions)
        growth.measured(MeasuredGain.of(fork, together, self.run, self.data))
        return record.model_copy(update={"fork": fork}), Onward(after if fork.kept else before, forked.result)


def forks_of(
    bench: Trainer, growth: Growth, training: TrainingSettings, batches: GrowthBatches
) -> tuple[ForkPlan | None, Forks | None]:
    """The plan of the forks of a run, None where none are wanted, and the forks, None where the plan has none.

    Args:
        bench: Trainer of the procedure.
        growth: The growth before its first event.
        training: Settings of the training.
        batches: Batches of the training, with the task that has the split ``architecture``.
    """
    settings, events = growth.settings.forks, growth.settings.events.count
    if not settings.share or not events:
        return None, None
    budget = ForkBudget.of(training.budget, training.batch_size)
    price = growth.prices()
    step, forward = price.step * training.batch_size, price.forward
    if budget.unit == "seconds":
        # Recorded, so that an interrupted run has the same plan.
        step = bench.once("seconds of a step at the start", lambda: _seconds_of_step(bench, growth, batches))
        forward = step / (STEP * training.batch_size)
    samples = ForkSamples.of(settings, batches.samples.task.count("architecture"))
    plan = plan_forks(settings, budget.amount, events, step, forward, samples, budget.unit)
    return plan, Forks(bench, settings, plan, samples, training, forward) if plan.most else None


def _seconds_of_step(bench: Trainer, growth: Growth, batches: GrowthBatches) -> float:
    spare = spare_of(growth.zoo, bench).network
    return min(seconds_of_steps(spare, batches.plain, bench.precision, bench.training.optimizer))
