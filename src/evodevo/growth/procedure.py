"""The procedure ``grow``: trains a zoo of modules, or an H-Model, and edits its modules on the way.

Architect Thyself 3.5; the modules of an H-Model are its hidden layers (``growth.growable``). A race may decide with
which modules it begins (``growth.training.starting_race``).

One training in segments. Between two of them comes what ``growth.schedule`` schedules: an event, the end of a warm-up,
the reward of an event. The result of each is kept with every checkpoint, and an interrupted run goes on identically
where its budget is in steps. Growth uses only the split ``architecture``; ``validation`` selects weights.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from evodevo.experiments.measure import places
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Branch, Trainer
from evodevo.growth.caps.race import CapRaces, Choice
from evodevo.growth.caps.records import FallRecord
from evodevo.growth.caps.smaller import Ids
from evodevo.growth.compute_budget import Means, Portions, portions
from evodevo.growth.driver import Growth, Surroundings
from evodevo.growth.edit_spec import Action, Edit
from evodevo.growth.events import EventRecord, GrowthMemory, LookRecord, RewardRecord
from evodevo.growth.forks.plan import ForkPlan, ForkSamples, forks_planned, plan_forks
from evodevo.growth.forks.running import Forked, Forks, spare_of
from evodevo.growth.forks.sides import Side
from evodevo.growth.growable import GrowingNetwork, TaskSizes
from evodevo.growth.latency import LatencyTable
from evodevo.growth.log import Log, write_log
from evodevo.growth.procedure_settings import check_events, check_forks, check_zoo, pool_to_grow, total_steps
from evodevo.growth.races.halving import Halving, Prize
from evodevo.growth.races.records import RaceSettings
from evodevo.growth.resources import Resources
from evodevo.growth.schedule import Agenda, What
from evodevo.growth.shifts.entrants import Continuation
from evodevo.growth.shifts.race import Alter, ShiftChoice, ShiftRaces
from evodevo.growth.shifts.records import ShiftRecord
from evodevo.growth.shifts.stream import data_before, new_words
from evodevo.growth.spec import LIMITS, GrowthSettings
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.gains.held_out import held_out
from evodevo.growth.strategists.gains.record import MeasuredGain, name_of
from evodevo.growth.training.replay import ReplayedBatches, SampleReplay, with_replay
from evodevo.growth.training.starting_race import start_of
from evodevo.module_zoo.procedures.race import batches_from
from evodevo.networks.base import Batch
from evodevo.randomness import integer_seed
from evodevo.settings import validate
from evodevo.storage.blobs import BlobPool, MemoryPool
from evodevo.tasks.held_back import with_architecture_split
from evodevo.training.loop import TrainingResult, model_loss

MEMORY, REPLAY, SECONDS = "growth", "replay", "growth_seconds"
EVENTS = "growth"
"""Type of the events in the store."""
PROBED_AT_ONCE = 64
PROBES = 2
"""Probes at an event and for its reward."""

FORESEEN = 1.05
"""Tolerance factor of ``exceeded``: the FLOPs of a training are foreseen to this accuracy."""


def train_grow(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Train a zoo or an H-Model that grows; options are ``GrowthSettings``.

    Facts, under ``growth``: ``edits``, as in the log but without tensors; ``differing``, decisions in which the
    strategist chose otherwise than its prior, and ``decisions``, their number; ``start``, the first modules;
    ``timeline``, modules at each event with usage and contribution, births and removals; ``looks``, the same between
    events; ``end``, after the training; ``rewards``; ``overhead``, the cost of growth beside training; ``race``, who
    raced for the start (``growth.training.starting_race.GrowthStart``); ``forks``, where they are on, their plan and
    each of them (``growth.forks.records.ForkRecord``); ``caps``, where they fall, the ``limits`` at the start, each of
    the ``falls`` (``growth.caps.records.FallRecord``) and the ``costs`` after each event; ``shift``, where the data
    shift, when, and who went on (``growth.shifts.records.ShiftRecord``); ``foresight``, of a strategist that
    chooses by gains that it foresees: how well its memory foresees those of runs that it has not seen
    (``strategists.gains.held_out.Foresight``).
    Blobs: ``edits``, the log (``growth.log``);
    ``parents/<digest>``, the weights that it names; ``edit_memory``, the edits for later runs.

    Raises:
        UsageError: Wrong options, nothing that can grow, a zoo over a cap, or a budget too small for its events.
    """
    settings = validate(GrowthSettings, dict(options), what="options of grow")
    check_zoo(pool_to_grow(bench.arm), settings)
    check_events(bench.training, settings)
    check_forks(bench.training, settings)
    return _Run(bench, settings).train()


class _Run:
    """One run of the procedure."""

    def __init__(self, bench: Trainer, settings: GrowthSettings) -> None:
        self.bench = bench
        self.shifted = with_architecture_split(bench.task)
        self.task = data_before(self.shifted, settings.shift)
        self.before = start_of(bench, settings, self.task)
        self.settings = settings = self.before.settings
        self.training = self.before.training
        self.zoo = pool_to_grow(bench.arm).grown(self.before.network, bench.carry)
        self.start = self.zoo.structure.modules
        self.blobs: BlobPool = MemoryPool() if bench.pool is None else bench.pool
        self._probed: dict[int, list[Batch]] = {}
        kept = bench.state.get(MEMORY)
        self.growth = Growth(
            self.zoo,
            settings,
            self._surroundings(),
            seed=bench.seed,
            memory=None if kept is None else validate(GrowthMemory, kept, what="the memory of a growth"),
            edits=(earlier := self._edits_of_earlier_runs()),
            planned=pool_to_grow(bench.arm),
        )
        foresees = self.growth.strategist.foresees
        self._data = name_of(task=bench.settings.task, settings=bench.settings.task_settings)
        self.foresight = held_out(earlier or EditMemory(), self._data) if foresees else None
        self.replayed = self._batches()
        self.agenda = Agenda(settings.events, tuple(step.at for step in settings.caps.falls), self._date_of_shift())
        self.events: list[EventRecord] = []
        self.rewards: list[RewardRecord] = []
        self.looks: list[LookRecord] = []
        self.ended: LookRecord | None = None
        self.forks = self._planned_forks()
        self._name = name_of(seed=bench.seed, data=self._data, network=bench.arm.network.model_dump(mode="json"))
        self.races = self._planned_races()
        self._costs: list[dict[str, Any]] = []
        self._forked: Forked | None = None
        self._chosen: Prize | None = None
        self._branch: Branch | None = None  # where the side of the last fork that goes on began
        self._spent_on_replay = 0.0
        self._spent_apart = 0.0
        self._left_out = 0
        self._remember()

    def train(self) -> Trained:
        share = 0.0
        if self.before.race is not None:
            start = [module.model_dump(mode="json") for module in self.start]
            self.bench.record_event(EVENTS, "race", {"race": self.before.race, "start": start})
        if self.fork_plan is not None:
            plan = self.fork_plan
            told = forks_planned(plan.most, plan.steps, plan.instead)
            self.bench.record_event(EVENTS, "forks", {"forks": plan.model_dump(mode="json")}, growth={"told": told})
        self._note_cost(0, 0.0)
        while (coming := self.agenda.next()) is not None:
            date, what, number = coming
            if date >= 1.0:
                break
            self.growth.ripen(share)
            result = self._segment(until_share=date)
            if result.state != "paused":
                return self._end(result)
            share = self._used(result, time.monotonic())
            since = time.monotonic()
            self._come(what, number, result, share)
            if self.forks is not None or what in ("fall", "shift"):
                share = self._used(result, since)
        self.growth.ripen(share)
        return self._end(self._segment(until_share=None))

    # Training

    def _segment(self, until_share: float | None) -> TrainingResult:
        whole = model_loss if self.replayed is None else with_replay(self._replay_weight())

        def loss_of(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
            self.growth.ripen(self.zoo.progress)
            return whole(model, batch)

        return self.bench.train(
            self.zoo.network,
            training=self.training,
            task=self.task,
            batch_at=self.replayed or batches_from(self.bench, self.task, self.before.trained),
            loss_function=loss_of,
            until_share=until_share,
        )

    def _batches(self) -> ReplayedBatches | None:
        """Training batches that include replayed samples after an edit; None where there is no replay."""
        replay, size = self.settings.replay, self.bench.training.batch_size
        if not (replay.capacity and replay.steps and self._replay_weight()):
            return None
        state = self.bench.state.setdefault(REPLAY, {})
        memory = SampleReplay(replay.capacity, seed=integer_seed(self.bench.seed, "replay"), state=state)
        first = self.before.trained
        return ReplayedBatches(self.task, memory, seed=self.bench.seed, size=size, steps=replay.steps, first=first)

    def _replay_weight(self) -> float:
        """Weight of the loss on replayed samples; a setting of zoos."""
        return self.zoo.replay_weight

    def _used(self, result: TrainingResult, since: float) -> float:
        """Share of the budget that is used up, the seconds since the segment ended included; without the race."""
        total, budget = total_steps(self.training), self.training.budget
        used = 0.0 if total is None else result.steps / total
        seconds = budget.seconds
        if budget.flops is not None:
            used = max(used, (self.bench.flops - self.before.flops) / budget.flops)
        if seconds is not None:
            used = max(used, (result.seconds + time.monotonic() - since) / seconds)
        return min(used, 1.0)

    # Growing

    def _come(self, what: What, number: int, result: TrainingResult, share: float) -> None:
        """Carry out one entry of the agenda; one that was recorded before an interruption is only repeated."""
        name = f"{what} {number}"
        known, since = name in self.bench.facts, time.monotonic()
        if what == "look":
            last = max((event.number for event in self.events), default=0)
            record = self.bench.once(
                name,
                lambda: (
                    self.growth.look(self._step(result), share, last).model_dump(mode="json")
                    if self._look_is_made(number)
                    else None
                ),
            )
            self._left_out += record is None
            if record is not None:
                self._spend(name)
                self.looks.append(validate(LookRecord, record, what="a probe"))
        elif what == "mature":
            if self.bench.once(name, lambda: self.growth.mature(share)):
                self._spend(name)
        elif what == "reward":
            self.rewards.append(self._reward(number))
        else:
            if what == "shift":
                self._shift_data()
            facts = self.bench.once(
                name, lambda: self._happen(what, number, name, result, share, since).model_dump(mode="json")
            )
            record = validate(EventRecord, facts, what="an event")
            if known:
                self.growth.repeat(record)
            self.events.append(record)
            assert record.portions is not None, "given above"
            self.bench.spend(name, record.flops)
            made = self._fork_goes_on(record, result.steps, known=known)
            made += self._choice_goes_on(record, result.steps, known=known)
            if what == "shift":
                self.bench.select_anew()
            if what == "event":
                self.agenda.happened(number, record.share, warms=record.warms)
            self._note_cost(record.step, record.share)
            if self.replayed is not None and any(edit.module is not None for edit in record.edits):
                self.replayed.edited(record.step + made - self.before.steps, record.portions.replay_steps)
                self._spend_on_replay(number, record.portions.replay_steps)
            shown = {"event": number, "born": list(record.born), "gone": list(record.gone)}
            shown |= {} if record.fall is None else {"told": f"event {number}: {record.fall.told(record.gone)}"}
            shown |= {} if record.shift is None else {"told": f"event {number}: {record.shift.told}"}
            self.bench.record_event(EVENTS, name, {"event": facts}, growth=shown)
        if not known:
            self.bench.state[SECONDS] = self.bench.state.get(SECONDS, 0.0) + time.monotonic() - since
        self._remember()

    def _happen(
        self, what: What, number: int, name: str, result: TrainingResult, share: float, since: float
    ) -> EventRecord:
        """Carry out a numbered entry of the agenda."""
        if what == "fall":
            return self._fall(number, name, result, share)
        if what == "shift":
            return self._shift(number, name, result, share)
        return self._event(number, name, result, share, since)

    def _event(self, number: int, name: str, result: TrainingResult, share: float, since: float) -> EventRecord:
        """An event; where forks are on, with the fork that decides on its edits."""
        spares: list[tuple[GrowingNetwork, Branch]] = []

        def decided() -> None:
            if self.forks is not None:
                spares.append((spare_of(self.zoo, self.bench), self.bench.branch()))

        record = self.growth.event(
            number,
            self._step(result),
            share,
            clock=lambda: self._used(result, since),
            portioned=self._portions(number, share),
            decided=decided,
        )
        edits = tuple(_short(edit.action) for edit in record.edits if edit.module is not None)
        if self.forks is None or not edits:
            return record
        (spare, before), after = spares[0], self.bench.branch()
        self.bench.spend(name, record.flops)
        spent = self.bench.branch().snapshot.cursor.flops
        before, after = (each.at(spent) for each in (before, after))
        budget = self.training.budget.flops
        assert budget is not None, "forks are planned in FLOPs"
        self._forked = self.forks.run(
            edits,
            Side(self.zoo, after.snapshot, self.growth.ripen_other),  # copies of it are trained, too
            Side(spare, before.snapshot, self.growth.ripen_unedited),
            batches=batches_from(self.bench, self.task, self.before.trained),
            number=number,
            earlier=[event.fork for event in self.events if event.fork is not None],
            left=budget - spent,
            price=lambda side: side.zoo.structure.prices(self.growth.around.task, self.settings.fitness).forward,
        )
        fork = self._forked.record
        if fork.kept:
            self._branch = after
            record = self.growth.postpone(record, fork.spent / budget)
        else:
            self._branch, self.zoo = before, spare
            self.bench.back_to(before)
            record = self.growth.withdraw(record, spare, fork.reason)
        together = sum(decision.action.operation != "noop" for decision in record.decisions)
        self.growth.measured(MeasuredGain.of(fork, together, self._name, self._data))
        return record.model_copy(update={"fork": fork})

    def _fall(self, number: int, name: str, result: TrainingResult, share: float) -> EventRecord:
        """The fall of a cap: where the network exceeds it, the choice among smaller ones."""
        assert self.races is not None, "a cap falls"
        races = self.races

        def choose(kinds: Sequence[Sequence[Ids]], record: FallRecord, flops: float) -> Choice:
            self.bench.spend(name, flops)
            return races.choose(
                self.zoo,
                kinds,
                record,
                task=self.task,
                batches=batches_from(self.bench, self.task, self.before.trained),
                share=share,
                before_next=self.agenda.before_next(number),
                spent=self.bench.branch().snapshot.cursor.flops,
            )

        record, choice = self.growth.fall(number, self._step(result), share, self._portions(number, share), choose)
        self.zoo, self._chosen = self.growth.zoo, None if choice is None else choice.prize
        return record

    def _date_of_shift(self) -> float | None:
        """Share at which the data shift, of what the race at the start left; None where they do not."""
        shift, race = self.settings.shift, self.before.race
        raced = 0.0 if race is None else race["share"]
        return None if shift.kind is None else max(0.0, (shift.at - raced) / (1 - raced))

    def _shift_data(self) -> None:
        """From here on every batch and every judgement is of the new data."""
        self.task = self.shifted
        self._probed = {}
        if self.replayed is not None:
            self.replayed.task = self.task
        if self.forks is not None:
            self.forks.task = self.task

    def _shift(self, number: int, name: str, result: TrainingResult, share: float) -> EventRecord:
        """The shift of the data: where a race is wanted, the choice of the network that goes on."""
        race = self.settings.shift.race
        races = ShiftRaces(self._halving(race, 1, by_trend=race.judge == "trend"))

        def choose(
            kinds: Sequence[Sequence[Continuation]], record: ShiftRecord, alter: Alter, flops: float
        ) -> ShiftChoice:
            self.bench.spend(name, flops)
            return races.choose(
                self.zoo,
                kinds,
                record,
                alter=alter,
                task=self.task,
                batches=batches_from(self.bench, self.task, self.before.trained),
                before_next=self.agenda.before_next(number),
                spent=self.bench.branch().snapshot.cursor.flops,
            )

        begun = ShiftRecord(new=new_words(self.shifted, self.settings.shift))
        record, choice = self.growth.shift(
            number, self._step(result), share, self._portions(number, share), begun, choose
        )
        self.zoo, self._chosen = self.growth.zoo, choice.prize
        return record

    def _choice_goes_on(self, record: EventRecord, steps: int, *, known: bool) -> int:
        """Book the race of an event, and make its winner the training; the number of steps that it made."""
        race, prize = record.race, self._chosen
        if race is None:
            return 0
        self.bench.spend(f"choice {record.number}", race.spent)
        self._spent_apart += race.spent
        if race.winner_flops:
            self._go_on(
                None if prize is None else prize.branch,
                None if prize is None else prize.result,
                race.winner_flops,
                range(steps, steps + race.steps),
                known=known,
            )
        self._chosen = None
        return race.steps

    def _go_on(
        self, branch: Branch | None, result: TrainingResult | None, flops: float, steps: range, *, known: bool
    ) -> None:
        """Make what was trained from a branch a part of the training."""
        self.bench.go_on(branch, result, flops)
        if self.replayed is not None and not known:
            for step in steps:  # they have been trained on, and may come again
                self.replayed(step)

    def _planned_races(self) -> CapRaces | None:
        """The choices at falls of a cap; None where none falls."""
        caps = self.settings.caps
        if not caps.falls:
            return None
        return CapRaces(self._halving(caps.race, len(caps.falls)))

    def _halving(self, settings: RaceSettings, count: int, *, by_trend: bool = False) -> Halving:
        """Races within this training, so many of which share what they may cost."""
        return Halving(
            self.bench,
            settings,
            self.training,
            count,
            lambda zoo, share: self.growth.ripen_other(zoo, share),
            lambda structure: structure.prices(self.growth.around.task, self.settings.fitness).forward,
            by_trend=by_trend,
        )

    def _fork_goes_on(self, record: EventRecord, steps: int, *, known: bool) -> int:
        """Book the fork of an event, and make its winner the training; the number of steps that it made."""
        fork = record.fork
        if fork is None:
            return 0
        self.bench.spend(f"fork {record.number}", fork.spent)
        self._spent_apart += fork.spent
        if not fork.winner_flops:
            return 0
        made = fork.steps[0] if fork.kept else fork.steps[1]
        trained = None if self._forked is None else self._forked.result
        self._go_on(self._branch, trained, fork.winner_flops, range(steps, steps + made), known=known)
        self._forked = self._branch = None
        return made

    def _planned_forks(self) -> Forks | None:
        """The forks of this run; None where there are none."""
        settings, events = self.settings.forks, self.settings.events.count
        self.fork_plan: ForkPlan | None = None
        if not settings.share or not events:
            return None
        budget = self.training.budget.flops
        assert budget is not None, "checked before"
        price = self.growth.prices()
        samples = ForkSamples.of(settings, self.task.count("architecture"))
        step = price.step * self.bench.training.batch_size
        self.fork_plan = plan_forks(settings, budget, events, step, price.forward, samples)
        if not self.fork_plan.most:
            return None
        return Forks(self.bench, settings, self.fork_plan, self.task, self.training, price.forward)

    def _step(self, result: TrainingResult) -> int:
        """Number of the step in the whole training, the race included."""
        return self.before.steps + result.steps

    @property
    def _spent(self) -> float:
        """FLOPs of growth so far, without the race, the forks and the choices at falls of a cap."""
        return self.bench.spent - self.before.spent - self._spent_apart

    @property
    def _trained(self) -> float:
        """FLOPs of the training steps since the race, without those of forks and of networks that lost."""
        return self.bench.flops - self.before.flops - self._spent - self._spent_apart

    def _portions(self, number: int, share: float) -> Portions:
        """Limits of an event and all that follows until the next; see ``compute_budget``."""
        bench, coming, spent, trained = self.bench, self.agenda.dates, self._spent, self._trained
        until = coming[number] if number < len(coming) else 1.0
        growing = spent - self._spent_on_replay
        pace = None
        if bench.training.budget.seconds is not None and growing and trained and bench.seconds:
            pace = (bench.state.get(SECONDS, 0.0) / growing) / (bench.seconds / trained)
        last = number == len(coming)
        means = Means(
            training=trained / share * until if share else 0.0,
            spent=spent,
            prices=self.growth.prices(),
            batch=bench.training.batch_size,
            probes=PROBES + last,  # the last event has one more, at the end of the training
            looks=0 if last else self.settings.events.looks,
            refined=self.growth.refining(number),
            pace=pace,
        )
        return portions(self.settings, means)

    def _look_is_made(self, number: int) -> bool:
        """Whether a look is made: it only informs, and is left out where growth costs more than it may."""
        bench, portioned, wished = self.bench, self.growth.memory.portions, self.settings.events.looks
        if portioned is not None and not portioned.looks_at((number - 1) % wished, wished):
            return False
        return bench.training.budget.seconds is None or not self._exceeds(bench.state.get(SECONDS, 0.0), bench.seconds)

    def _exceeds(self, growth: float, training: float) -> bool:
        return growth > self.settings.events.overhead * training

    def _spend(self, name: str) -> None:
        """Book the FLOPs of a probe of the network as it is now."""
        self.bench.spend(name, self.growth.probe_flops)

    def _spend_on_replay(self, number: int, steps: int) -> None:
        flops = self.growth.prices().step * steps * self.bench.training.batch_size
        self._spent_on_replay += flops
        self.bench.spend(f"replay {number}", flops)

    def _reward(self, number: int) -> RewardRecord:
        self._spend(f"reward {number}")
        facts = self.bench.once(f"reward {number}", lambda: self.growth.reward(number).model_dump(mode="json"))
        self.bench.record_event(EVENTS, f"reward {number}", {"reward": facts})
        return validate(RewardRecord, facts, what="a reward")

    def _remember(self) -> None:
        self.bench.state[MEMORY] = self.growth.memory.model_dump(mode="json")
        self.bench.held = self.growth.memory.digests

    def _end(self, result: TrainingResult) -> Trained:
        pending = self.growth.memory.pending
        if result.state == "finished":
            if pending is not None and pending.reward is None:
                self.rewards.append(self._reward(pending.number))
            self.growth.finish()
            if self.events:  # for reports alone, as measurements are; nothing is spent
                last = self.events[-1].number
                facts = self.bench.once(
                    "end", lambda: self.growth.look(self._step(result), 1.0, last, last=True).model_dump(mode="json")
                )
                self.ended = validate(LookRecord, facts, what="a probe")
        self.bench.flush()
        edits = [edit for record in self.events for edit in record.edits]
        blobs = {"edits": write_log(Log(self.start, self.settings.birth, tuple(edits)))}
        blobs |= {f"parents/{digest}": self.blobs.get(digest) for digest in self.growth.memory.blobs}
        blobs["edit_memory"] = self.growth.learned.dumps().encode()
        return Trained(self.zoo.network, result, extra={"growth": self._facts(edits)}, blobs=blobs)

    def _facts(self, edits: Sequence[Edit]) -> dict[str, Any]:
        decisions = [(event.number, decision) for event in self.events for decision in event.decisions]
        return {
            "strategist": self.settings.strategist,
            "start": [{"id": module.id, "archetype": module.genotype.archetype} for module in self.start],
            "edits": [edit.model_dump(mode="json", exclude={"tensors"}) for edit in edits],
            "decisions": len(decisions),
            "differing": [
                {"event": number, "action": _short(decision.action), "prior": _short(decision.prior)}
                for number, decision in decisions
                if decision.differs
            ],
            "timeline": [
                {
                    "event": event.number,
                    "step": event.step,
                    "share": event.share,
                    "value": event.value,
                    "loss": event.loss,
                    "modules": [row.model_dump(mode="json") for row in event.modules],
                    "born": list(event.born),
                    "gone": list(event.gone),
                }
                for event in self.events
            ],
            "looks": [look.model_dump(mode="json") for look in self.looks],
            "end": None if self.ended is None else self.ended.model_dump(mode="json"),
            "overhead": self._overhead(),
            "rewards": [{**reward.model_dump(mode="json"), "total": reward.total} for reward in self.rewards],
            "modules": list(self.zoo.live),
            "race": self.before.race,
            **self._fork_facts(),
            **self._cap_facts(),
            **self._shift_facts(),
            **({} if self.foresight is None else {"foresight": self.foresight.to_json()}),
        }

    def _fork_facts(self) -> dict[str, Any]:
        """Nothing where no forks were wanted."""
        plan, budget = self.fork_plan, self.training.budget.flops
        if plan is None or budget is None:
            return {}
        rows = [
            {"event": event.number, **event.fork.model_dump(mode="json")}
            for event in self.events
            if event.fork is not None
        ]
        used = sum(row["spent"] + row["winner_flops"] for row in rows)
        level = self.settings.forks.level
        return {"forks": {**plan.model_dump(mode="json"), "level": level, "share": used / budget, "tried": rows}}

    def _note_cost(self, step: int, share: float) -> None:
        """What the network costs from here on, where caps fall."""
        caps = self.settings.caps
        if caps.falls:
            used = Resources.of(self.zoo.structure, self.growth.around.task)
            capped = [name for name in LIMITS if name in caps.lowest.limits]
            costs = {name: getattr(used, name) for name in capped}
            self._costs.append({"step": step, "share": share, "costs": costs})

    def _cap_facts(self) -> dict[str, Any]:
        """Nothing where no cap falls."""
        if self.races is None:
            return {}
        falls = [
            {"event": event.number, "step": event.step, "share": event.share, **event.fall.model_dump(mode="json")}
            for event in self.events
            if event.fall is not None
        ]
        return {"caps": {"limits": self.settings.caps.after(0).limits, "falls": falls, "costs": self._costs}}

    def _shift_facts(self) -> dict[str, Any]:
        """Nothing where the data did not shift."""
        shift = self.settings.shift
        facts = [
            {
                **shift.model_dump(mode="json", include={"kind", "at"}),
                "event": event.number,
                "step": event.step,
                "share": event.share,
                **event.shift.model_dump(mode="json"),
            }
            for event in self.events
            if event.shift is not None
        ]
        return {"shift": facts[0]} if facts else {}

    def _overhead(self) -> dict[str, float]:
        """Cost of growth beside training; replay is in the FLOPs, and its seconds are those of training steps.

        It may be ``exceeded`` where even the smallest probes of so many events cost more than is ``allowed``.
        """
        bench = self.bench
        trained, spent, seconds = self._trained, self._spent, bench.state.get(SECONDS, 0.0)
        return {
            "flops_share": spent / trained if trained else 0.0,
            "seconds": seconds,
            "seconds_share": seconds / bench.seconds if bench.seconds else 0.0,
            "samples": self.growth.samples,
            "distil_steps": self.growth.distil_steps,
            "looks_left_out": self._left_out,
            "allowed": self.settings.events.overhead,
            "exceeded": self._exceeds(spent, FORESEEN * trained)
            or (bench.training.budget.seconds is not None and self._exceeds(seconds, FORESEEN * bench.seconds)),
        }

    # Inputs of growth

    def _edits_of_earlier_runs(self) -> EditMemory | None:
        digest = self.settings.edit_memory
        if digest is None:
            return None
        return EditMemory.loads(self.blobs.get(digest).decode(), what=f"the memory of edits {digest[:12]}")

    def _surroundings(self) -> Surroundings:
        bench, size = self.bench, self.bench.training.batch_size
        sampling_seed = integer_seed(bench.seed, "lessons")
        return Surroundings(
            task=TaskSizes(self.task.inputs, self.task.outputs, batch=size, table=self._table()),
            probed=self._probes,
            distillation_batch=lambda number: self.task.batch("train", sampling_seed, number, size),
            precision=bench.precision,
            blobs=self.blobs,
            batch_size=size,
            in_flops=bench.training.budget.flops is not None,
        )

    def _probes(self, samples: int) -> Sequence[Batch]:
        """Samples of the split ``architecture``; equal numbers give equal samples."""
        if samples not in self._probed:
            chosen = places(self.task, "architecture", samples)
            parts = np.array_split(chosen, max(1, -(-len(chosen) // PROBED_AT_ONCE)))
            self._probed = {samples: [self._placed(self.task.fetch("architecture", part)) for part in parts]}
        return self._probed[samples]

    def _placed(self, batch: Any) -> Batch:
        placed = self.bench.precision.place(batch)
        assert isinstance(placed, dict), "the batch is a mapping"
        return placed

    def _table(self) -> LatencyTable | None:
        """The table of latencies, measured once in a run, and only where there is a cap; None otherwise."""
        if not self.settings.caps.measured:
            return None
        batch = self._placed(self.task.batch("train", self.bench.seed, 0, self.bench.training.batch_size))
        facts = self.bench.once("latency", lambda: self.zoo.calibrate(batch).model_dump(mode="json"))
        return validate(LatencyTable, facts, what="a table of latencies")


def _short(action: Action | None) -> str:
    """An action as text: ``grow mlp-1``, ``spawn lstm``, ``noop``."""
    if action is None:
        return ""
    return " ".join([action.operation, *action.modules, *([action.archetype] if action.archetype else [])])
