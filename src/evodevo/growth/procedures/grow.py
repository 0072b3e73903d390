"""The procedure ``grow``: trains a zoo of modules, or an H-Model, and edits its modules on the way.

Architect Thyself 3.5; the modules of an H-Model are its hidden layers (``growth.growable``). A race may decide with
which modules it begins (``growth.training.starting_race``).

One training in segments. Between two of them comes what ``growth.schedule`` schedules: an event, the end of a warm-up,
the reward of an event. The result of each is kept with every checkpoint, and an interrupted run goes on identically
where its budget is in steps. Growth uses only the split ``architecture``; ``validation`` selects weights.

Here is the order in which all that comes. Which samples are read is in ``samples`` and ``batches``, what is used up in
``account``, what happened in ``course`` and, for reports, in ``facts``; an event with a fork in ``forked``, a fall of a
cap in ``falls``, the shift of the data in ``shift``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.growth.driver import Growth
from evodevo.growth.events.date import EventDate
from evodevo.growth.events.records import EventRecord, GrowthMemory, LookRecord, RewardRecord
from evodevo.growth.forks.plan import forks_planned
from evodevo.growth.log import Log, write_log
from evodevo.growth.procedures.account import GrowthAccount
from evodevo.growth.procedures.apart import Onward, TrainedApart
from evodevo.growth.procedures.batches import GrowthBatches
from evodevo.growth.procedures.course import GrowthCourse
from evodevo.growth.procedures.facts import cap_facts, facts_of, fork_facts, policy_facts, shift_facts
from evodevo.growth.procedures.falls import fall_of_cap
from evodevo.growth.procedures.forked import ForkedEvents, forks_of
from evodevo.growth.procedures.inputs import edits_of_earlier_runs, policy_of_earlier_run, surroundings_of
from evodevo.growth.procedures.samples import GrowthSamples
from evodevo.growth.procedures.settings import check_events, check_forks, check_zoo, pool_to_grow
from evodevo.growth.procedures.shift import date_of_shift, shift_of_data
from evodevo.growth.report.event_words import changes_of
from evodevo.growth.report.race import start_words
from evodevo.growth.schedule import Agenda, What
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.gains.held_out import held_out
from evodevo.growth.strategists.gains.record import name_of
from evodevo.growth.training.starting_race import start_of
from evodevo.settings import validate
from evodevo.storage.blobs import BlobPool, MemoryPool
from evodevo.training.loop import TrainingResult
from evodevo.training.settings import restarted

MEMORY = "growth"
"""Name of the growth's memory in the trainer's state."""
EVENTS = "growth"
"""Type of the events in the store."""


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
    (``strategists.gains.held_out.Foresight``); ``policy``, where a policy begins with a memory: what it goes on from
    (``procedures.facts.policy_facts``).
    Blobs: ``edits``, the log (``growth.log``);
    ``parents/<digest>``, the weights that it names; ``edit_memory``, the edits for later runs; ``policy_memory``, of
    a strategist that hands one on, the policy for the next run.

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
        self.samples = GrowthSamples(bench, settings.shift)
        self.before = start_of(bench, settings, self.samples.task)
        self.settings = settings = self.before.settings
        self.training = self.before.training
        self.blobs: BlobPool = MemoryPool() if bench.pool is None else bench.pool
        self.account = GrowthAccount(bench, settings, self.before)
        zoo = pool_to_grow(bench.arm).grown(self.before.network, bench.carry)
        self.course = GrowthCourse(zoo.structure.modules)
        surroundings = surroundings_of(bench, self.samples, settings, zoo, self.blobs)
        kept, earlier = bench.state.get(MEMORY), edits_of_earlier_runs(settings, self.blobs)
        self.growth = Growth(
            zoo,
            settings,
            surroundings,
            seed=bench.seed,
            memory=None if kept is None else validate(GrowthMemory, kept, what="the memory of a growth"),
            edits=earlier,
            policy=policy_of_earlier_run(settings, self.blobs),
            planned=pool_to_grow(bench.arm),
        )
        data = name_of(task=bench.settings.task, settings=bench.settings.task_settings)
        foresees = self.growth.learner.strategist.foresees
        self.foresight = held_out(earlier or EditMemory(), data) if foresees else None
        self.batches = GrowthBatches(
            bench, self.samples, settings.replay, first=self.before.trained, weight=zoo.replay_weight
        )
        falls = tuple(step.at for step in settings.caps.falls)
        self.fork_plan, forks = forks_of(bench, self.growth, self.training, self.batches)
        edited = self.fork_plan is None or bool(self.fork_plan.most) or self.fork_plan.edits
        events = settings.events if edited else settings.events.model_copy(update={"count": 0})
        self.agenda = Agenda(events, falls, date_of_shift(settings.shift, self.before))
        run = name_of(seed=bench.seed, data=data, network=bench.arm.network.model_dump(mode="json"))
        self.forked = None
        if forks is not None:
            self.forked = ForkedEvents(bench, self.growth, forks, self.batches, run=run, data=data)
        self._remember()

    def train(self) -> Trained:
        share = 0.0
        race = self.before.race
        if race is not None:
            start = [module.model_dump(mode="json") for module in self.course.start]
            payload = {"race": race, "start": start}
            self.bench.record_event(EVENTS, "race", payload, growth={"told": start_words(race)})
        if self.fork_plan is not None:
            plan = self.fork_plan
            told = forks_planned(plan.most, plan.steps, plan.instead, edits=plan.edits)
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
            share = self.account.used(result, time.monotonic())
            since = time.monotonic()
            self._come(what, number, result, share)
            if self.forked is not None or what in ("fall", "shift"):
                share = self.account.used(result, since)
        self.growth.ripen(share)
        return self._end(self._segment(until_share=None))

    def _segment(self, until_share: float | None) -> TrainingResult:
        growth, whole = self.growth, self.batches.loss

        def loss_of(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
            growth.ripen(growth.zoo.progress)
            return whole(model, batch)

        return self.bench.train(
            growth.zoo.network,
            training=self.training,
            task=self.samples.task,
            batch_at=self.batches.trained,
            loss_function=loss_of,
            until_share=until_share,
        )

    def _come(self, what: What, number: int, result: TrainingResult, share: float) -> None:
        """Carry out one entry of the agenda; one that was recorded before an interruption is only repeated."""
        name = f"{what} {number}"
        known, since = name in self.bench.facts, time.monotonic()
        if what == "look":
            self._look(number, name, result, share)
        elif what == "mature":
            if self.bench.once(name, lambda: self.growth.mature(share)):
                self._spend(name)
        elif what == "reward":
            self._reward(number)
        else:
            self._happen(what, number, name, result, share, known=known, since=since)
        if not known:
            self.account.took(since, self.course.fork_seconds_at(number) if what == "event" else 0.0)
        self._remember()

    def _look(self, number: int, name: str, result: TrainingResult, share: float) -> None:
        """A probe between two events, where there is room for it."""

        def look() -> dict[str, Any] | None:
            if not self.account.look_is_made(number, self.growth.memory.portions):
                return None
            return self.growth.look(self._step(result), share, self.course.last).model_dump(mode="json")

        facts = self.bench.once(name, look)
        if facts is None:
            self.account.leave_out()
            return
        self._spend(name)
        self.course.looks.append(validate(LookRecord, facts, what="a probe"))

    def _reward(self, number: int) -> None:
        name = f"reward {number}"
        self._spend(name)
        facts = self.bench.once(name, lambda: self.growth.reward(number).model_dump(mode="json"))
        self.bench.record_event(EVENTS, name, {"reward": facts})
        self.course.rewards.append(validate(RewardRecord, facts, what="a reward"))

    # Numbered entries of the agenda

    def _happen(
        self, what: What, number: int, name: str, result: TrainingResult, share: float, *, known: bool, since: float
    ) -> None:
        """An event, a fall of a cap, or the shift of the data."""
        goes_on: list[Onward] = []

        def carry_out() -> dict[str, Any]:
            record, onward = self._carried_out(what, number, name, result, share, since)
            goes_on.extend([] if onward is None else [onward])
            return record.model_dump(mode="json")

        if what == "shift":
            self.samples.shift()
            self.batches.shift()
        facts = self.bench.once(name, carry_out)
        record = validate(EventRecord, facts, what="an event")
        if known:
            self.growth.repeat(record)
        self.course.events.append(record)
        self._restart(what, record)
        self.bench.spend(name, record.flops)
        made = self._go_on(record, result.steps, goes_on[0] if goes_on else None, known=known)
        if what == "shift":
            self.bench.select_anew()
        if what == "event":
            self.agenda.happened(number, record.share, warms=record.warms)
        self._note_cost(record.step, record.share)
        self._replay(record, made)
        shown = changes_of(record)
        shown |= {} if record.fall is None else {"told": f"event {number}: {record.fall.told(record.gone)}"}
        shown |= {} if record.shift is None else {"told": f"event {number}: {record.shift.told}"}
        self.bench.record_event(EVENTS, name, {"event": facts}, growth=shown)

    def _carried_out(
        self, what: What, number: int, name: str, result: TrainingResult, share: float, since: float
    ) -> tuple[EventRecord, Onward | None]:
        """The record of an event that is carried out now, and what was trained at it and goes on."""
        bench, growth, prices = self.bench, self.growth, self.growth.prices()
        refined = growth.refining(number)
        portioned = self.account.portions(number, share, self.agenda.dates, prices=prices, refined=refined)
        date = EventDate(number, self._step(result), share, portioned)
        if what in ("fall", "shift"):
            happens = fall_of_cap if what == "fall" else shift_of_data
            before_next = self.agenda.before_next(number)
            training = restarted(self.training, share) if self._restarts(what) else self.training
            return happens(bench, growth, training, self.batches, date, name, before_next=before_next)

        def clock() -> float:
            return self.account.used(result, since)

        if self.forked is None:
            return growth.event(date, clock=clock), None
        return self.forked.carry_out(date, name, clock=clock, earlier=self.course.forks)

    def _restarts(self, what: What) -> bool:
        """Whether the learning rate begins anew at such an entry of the agenda, where it changes something."""
        settings = self.settings
        return {"fall": settings.caps.restart, "shift": settings.shift.restart}.get(what, False)

    def _restart(self, what: What, record: EventRecord) -> None:
        """From here on train with a learning rate that begins anew."""
        if not self._restarts(what) or (record.fall is not None and not record.fall.excess):
            return
        self.training = restarted(self.training, record.share)
        if self.forked is not None:
            self.forked.forks.training = self.training

    def _go_on(self, record: EventRecord, steps: int, onward: Onward | None, *, known: bool) -> int:
        """Book what an event trained apart, and make its winner the training; the number of steps that it made."""
        apart = TrainedApart.of(record)
        if apart is None:
            return 0
        self.account.apart(f"{apart.what} {record.number}", apart.spent)
        if apart.kept:
            branch, trained = (None, None) if onward is None else (onward.branch, onward.result)
            self.bench.go_on(branch, trained, apart.kept)
            if not known:
                self.batches.seen(range(steps, steps + apart.steps))
        return apart.steps

    def _replay(self, record: EventRecord, made: int) -> None:
        """Replay after edits, from the step to which the training has come at the event."""
        assert record.portions is not None, "each event is given its limits"
        if self.batches.replays and any(edit.module is not None for edit in record.edits):
            steps = record.portions.replay_steps
            self.batches.edited(record.step + made - self.before.steps, steps)
            flops = self.growth.prices().step * steps * self.bench.training.batch_size
            self.account.replay(record.number, flops)

    # Within

    def _step(self, result: TrainingResult) -> int:
        """Number of the step in the whole training, the race included."""
        return self.before.steps + result.steps

    def _spend(self, name: str) -> None:
        """Book the FLOPs of a probe of the network as it is now."""
        self.bench.spend(name, self.growth.probe_flops)

    def _note_cost(self, step: int, share: float) -> None:
        self.course.note_cost(step, share, self.settings.caps, self.growth.zoo.structure, self.growth.around.task)

    def _remember(self) -> None:
        self.bench.state[MEMORY] = self.growth.memory.model_dump(mode="json")
        self.bench.held = self.growth.memory.digests

    def _end(self, result: TrainingResult) -> Trained:
        growth, course, pending = self.growth, self.course, self.growth.memory.pending
        if result.state == "finished":
            if pending is not None and pending.reward is None:
                self._reward(pending.number)
            growth.finish()
            if course.events:  # for reports alone, as measurements are; nothing is spent
                last = course.events[-1].number
                facts = self.bench.once(
                    "end", lambda: growth.look(self._step(result), 1.0, last, last=True).model_dump(mode="json")
                )
                course.end = validate(LookRecord, facts, what="a probe")
        self.bench.flush()
        blobs = {"edits": write_log(Log(tuple(course.start), self.settings.birth, tuple(course.edits)))}
        blobs |= {f"parents/{digest}": self.blobs.get(digest) for digest in growth.memory.blobs}
        blobs["edit_memory"] = growth.learner.edits.dumps().encode()
        policy = growth.learner.handed_on(growth.memory)
        blobs |= {} if policy is None else {"policy_memory": policy.dumps()}
        return Trained(growth.zoo.network, result, extra={"growth": self._facts()}, blobs=blobs)

    def _facts(self) -> dict[str, Any]:
        course, settings = self.course, self.settings
        return {
            **facts_of(course, settings),
            "overhead": self.account.overhead(self.growth.samples, self.growth.distil_steps),
            "modules": list(self.growth.zoo.live),
            "race": self.before.race,
            **fork_facts(course, settings, self.fork_plan, self.training.budget),
            **cap_facts(course, settings),
            **shift_facts(course, settings),
            **policy_facts(self.growth.learner, settings),
            **({} if self.foresight is None else {"foresight": self.foresight.to_json()}),
        }
