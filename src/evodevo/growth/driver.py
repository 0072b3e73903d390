"""Driver of a growing network: what happens between two segments of its training.

Source: docs/spec/architect_thyself.md#events.

    probe -> fitness -> state and what is legal -> strategist -> edits;   after the horizon: reward -> strategist

The driver owns no clock and no data: the trainer calls ``event``, ``mature`` and ``reward`` at their dates
(``agenda``), and sets birth factors at every step (``ripen``). All that the next call depends on is in ``memory``, so
that a run which was killed goes on identically; all draws are keyed by (run seed, event, order).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from evodevo.growth.caps.race import Choice
from evodevo.growth.caps.records import FallRecord
from evodevo.growth.caps.smaller import Ids, check_falls, kinds_under, needed
from evodevo.growth.compute_budget import Portions
from evodevo.growth.edit_spec import Edit
from evodevo.growth.edits import Editor, repeat
from evodevo.growth.events import (
    BankedModule,
    EventRecord,
    GrowthMemory,
    LookRecord,
    Pending,
    RewardRecord,
    StoredRewardState,
    module_rows,
)
from evodevo.growth.fitness import FitnessHistory, assess, relative_costs
from evodevo.growth.flops import Prices
from evodevo.growth.growable import Growable, GrowingNetwork, TaskSizes
from evodevo.growth.legality import EventState, over_caps, refusal, rule
from evodevo.growth.price import price, rise, taken_steps
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.pruning import EVERY_PROBE, counted, judge
from evodevo.growth.resources import Resources, check_start
from evodevo.growth.rewards import reward
from evodevo.growth.shifts.entrants import Continuation, continuations, planned_families
from evodevo.growth.shifts.race import Alter, Altered, ShiftChoice
from evodevo.growth.shifts.records import ShiftRecord
from evodevo.growth.spec import CapSettings, GrowthSettings
from evodevo.growth.strategists.base import StrategistState, create
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.gains.record import MeasuredGain
from evodevo.growth.strategists.settings import settings_for
from evodevo.growth.strategists.state import State
from evodevo.growth.strategists.transition import Decision, Transition
from evodevo.growth.views import ages_of, reward_state_of, state_of
from evodevo.growth.zoo.bank import ModuleBank
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.networks.base import Batch
from evodevo.randomness import generator, integer_seed
from evodevo.storage.blobs import BlobPool
from evodevo.training.parts import load_part, save_part
from evodevo.training.precision import Batch as TrainingBatch
from evodevo.training.precision import Precision


@dataclass(frozen=True)
class Surroundings:
    """The context in which a network grows.

    Attributes:
        task: Inputs, outputs and batch size on which its cost depends.
        probed: Maps a number of samples to that many of the split ``architecture``, in batches on the network's device;
            equal numbers give equal samples.
        distillation_batch: Maps k to batch k of training samples, for distilling a removed module into the others.
        precision: Precision of the training.
        blobs: Store of weights, by digest.
        batch_size: Samples in one training step.
        in_flops: Whether the budget is in FLOPs, so that these can be priced in steps.
    """

    task: TaskSizes
    probed: Callable[[int], Sequence[Batch]]
    distillation_batch: Callable[[int], TrainingBatch]
    precision: Precision
    blobs: BlobPool
    batch_size: int
    in_flops: bool = False


@dataclass(frozen=True)
class _Moment:
    """An event at which a race decides, before it: its arguments, a probe, and what that cost."""

    number: int
    step: int
    share: float
    portioned: Portions | None
    seen: ModuleProbe
    history: FitnessHistory
    ages: dict[str, int]
    cost: Prices
    flops: float


class Growth:
    """The growth of one network.

    Args:
        zoo: A network that grows, as it was at the start of the run; changed in place.
        settings: Settings of the growth.
        around: Task, samples and stores; see ``Surroundings``.
        seed: Seed of the run.
        memory: Memory of an interrupted run; None starts a new one. ``repeat`` its events before anything else.
        edits: Edits of earlier runs; None for none.
        planned: The network as it was planned, before a race at the start; the network itself if left out.

    Attributes:
        memory: Everything that the next call depends on; replaced by a new value after each call.
        learned: Edits of this run and of earlier ones.

    Raises:
        UsageError: The network exceeds a cap already.
    """

    def __init__(
        self,
        zoo: GrowingNetwork,
        settings: GrowthSettings,
        around: Surroundings,
        *,
        seed: int,
        memory: GrowthMemory | None = None,
        edits: EditMemory | None = None,
        planned: Growable | None = None,
    ) -> None:
        self.zoo = zoo
        self._planned = zoo.structure if planned is None else planned
        self.settings = settings
        self.around = around
        self.seed = seed
        self.memory = memory or GrowthMemory()
        self.learned = edits or EditMemory()
        self._distillation_steps: list[int] = []  # steps of each distillation of an event
        self._unedited: GrowthMemory | None = None  # as it were without the edits of the last event
        if self.memory.learned_blob is not None:
            self.learned = EditMemory.loads(around.blobs.get(self.memory.learned_blob).decode())
        zoo.enter(settings.birth.entry)
        self._start = check_start(zoo.structure, around.task, settings.caps)
        check_falls(zoo.structure, around.task, settings.caps)
        self.strategist = create(
            settings.strategist,
            settings=settings_for(settings),
            actions=settings.events.actions,
            seed=integer_seed(seed, "strategist"),
        )
        if self.memory.strategist_blob is not None:
            tensors = self._tensors(self.memory.strategist_blob)
            self.strategist.load_state_dict(StrategistState(tensors, self.memory.strategist))
        elif settings.memory and self.learned.edits:  # before the first event, also of a run that was killed there
            self.strategist.remember(self.learned)

    def repeat(self, record: EventRecord) -> None:
        """Repeat a recorded event: only the structure changes, since a checkpoint holds the weights."""
        repeat(self.zoo, record.edits)

    def event(
        self,
        number: int,
        step: int,
        share: float,
        clock: Callable[[], float] | None = None,
        portioned: Portions | None = None,
        decided: Callable[[], None] = lambda: None,
    ) -> EventRecord:
        """Carry out one event: probe, decide, edit the network.

        Args:
            number: Number of the event, from 1.
            step: Training steps made so far.
            share: Share of the budget that is used up, 0 to 1.
            clock: Returns that share after the edits, where edits take from the budget; warm-ups begin there.
            portioned: Limits of this event and all that follows until the next one; None for no limits.
            decided: Called after the decisions and before the first edit.
        """
        self.memory = self.memory.model_copy(update={"portions": portioned})
        zoo, settings, memory, cost = self.zoo, self.settings, self.memory, self.prices()
        seen, history = self._look()
        flops = self.probe_flops
        self._inform(seen)
        ages = ages_of(zoo.structure.live, number)
        verdict = judge(history, memory.low, ages, memory.warming, settings.prune)
        values, shares = (*memory.values, seen.accuracy), (*memory.shares, share)
        before_edits = self._priced(share, rise(shares, values))
        state = state_of(
            zoo.structure,
            seen,
            history,
            most=max(settings.birth.most, len(zoo.live)),
            ages=ages,
            warming=memory.warming,
            candidates=[candidate.id for candidate in verdict.candidates],
            values=values,
            progress=share,
        )
        learnt = self._conclude(state)
        situation = EventState(
            structure=zoo.structure,
            task=self.around.task,
            history=history,
            spared=verdict.spared,
            warming=tuple(memory.warming),
            left=1.0 - share,
            gain=self._gain(history),
            refused=memory.refused,
        )
        ruling = rule(situation, settings.model_copy(update={"caps": self.caps}))
        if self.strategist.wants_gradient(number):
            lesson = self.around.precision.place(self.around.distillation_batch(number))
            assert isinstance(lesson, dict), "the batch is a mapping"
            self.strategist.refine(state, ruling.legal, zoo.unroll(lesson, self._probed()[0]))
            flops += self.refining(number)
        rng = generator(self.seed, number, "decisions")
        decisions = self.strategist.decide(state, ruling.legal, rng)
        bank, before = self._bank(), reward_state_of(seen, history, *self._costs())
        self._distillation_steps = []
        decided()
        unedited = float(Resources.of(zoo.structure, self.around.task).flops)
        edits, children = self._apply(number, decisions, history, ruling.replaces, bank)
        begin = share if clock is None else clock()
        born = {edit.module: begin for edit in edits if edit.warms and edit.module is not None}
        again = {edit.action.modules[0]: begin for edit in edits if edit.action.operation == "rewarm"}
        # Taken after the edits: counts and warm-ups of pruned modules are dropped.
        there = set(zoo.live)
        pending = Pending(
            number=number,
            state=state,
            decisions=decisions,
            children=children,
            before=StoredRewardState.of(before),
            cost=float(Resources.of(zoo.structure, self.around.task).flops),
        ).model_copy(update=before_edits)
        self._unedited = self.memory.model_copy(
            update={
                "history": history,
                "low": verdict.low,
                "values": values,
                "shares": shares,
                "pending": pending.model_copy(update={"children": {}, "cost": unedited}),
            }
        )
        self.memory = self.memory.model_copy(
            update={
                "history": history,
                "low": {name: count for name, count in verdict.low.items() if name in there},
                "values": values,
                "shares": shares,
                "warming": {name: at for name, at in {**memory.warming, **born}.items() if name in there},
                "rewarming": {name: at for name, at in {**memory.rewarming, **again}.items() if name in there},
                "pending": pending,
                "bank": _banked(bank),
                "blobs": self._named(edits),
            }
        )
        self._keep_strategist()
        return EventRecord(
            number=number,
            step=step,
            share=begin,
            modules=module_rows(seen, history, ages),
            value=seen.accuracy,
            loss=seen.loss,
            decisions=decisions,
            edits=edits,
            warms=bool(born or again),
            learnt=learnt,
            portions=portioned,
            flops=flops + self._distilled(cost),
        )

    @property
    def caps(self) -> CapSettings:
        """The caps in force now, with the falls that are still to come."""
        return self.settings.caps.after(self.memory.falls)

    def fall(
        self,
        number: int,
        step: int,
        share: float,
        portioned: Portions | None,
        choose: Callable[[Sequence[Sequence[Ids]], FallRecord, float], Choice],
    ) -> tuple[EventRecord, Choice | None]:
        """Carry out one fall of the caps: probe, and where the network exceeds them now, let modules go.

        Args:
            number: Number of the event, from 1.
            step: Training steps made so far.
            share: Share of the budget that is used up, 0 to 1.
            portioned: Limits of this event and all that follows until the next one; None for no limits.
            choose: Chooses among kinds of smaller networks (``caps.smaller.kinds_under``); its further arguments are
                the record so far and the FLOPs that have been used up here.

        Returns:
            The record, and what was chosen where something had to go. A network that a race has trained is this
            network from then on.
        """
        self.memory = self.memory.model_copy(update={"falls": self.memory.falls + 1})
        moment = self._moment(number, step, share, portioned)
        zoo, caps, task = self.zoo, self.caps, self.around.task
        excess = Resources.of(zoo.structure, task).excess(caps)
        record, choice = FallRecord(limits=caps.limits, excess=excess or ""), None
        edits: tuple[Edit, ...] = ()
        bank = self._bank()
        if excess is not None:
            kinds = kinds_under(zoo.structure, task, caps, moment.seen.impact)
            choice = choose(kinds, record, moment.flops)
            record = choice.record
            editor, gone = self._editor(number, bank), [name for name in zoo.live if name not in record.chosen]
            edits = tuple(
                editor.let_go(name, event=number, order=order, note=record.reason, taught=choice.prize is None)
                for order, name in enumerate(gone)
            )
            if choice.prize is not None:
                self.zoo = choice.prize.zoo
        return self._recorded(moment, edits, bank).model_copy(update={"fall": record}), choice

    def shift(
        self,
        number: int,
        step: int,
        share: float,
        portioned: Portions | None,
        record: ShiftRecord,
        choose: Callable[[Sequence[Sequence[Continuation]], ShiftRecord, Alter, float], ShiftChoice],
    ) -> tuple[EventRecord, ShiftChoice]:
        """Carry out the shift of the data: probe on the new ones, and let networks race for who goes on.

        What was measured on the old data and does not hold for the new ones is forgotten: the metric at events before,
        how often a module was unused, and what forks refused.

        Args:
            number, step, share, portioned: As for ``fall``.
            record: Record of the shift so far.
            choose: Chooses among kinds of networks (``shifts.entrants.continuations``); its further arguments are the
                record so far, how a continuation is applied, and the FLOPs that have been used up here.

        Returns:
            The record, and what was chosen. A network that a race has trained is this network from then on.
        """
        self.memory = self.memory.model_copy(update={"low": {}, "values": (), "shares": (), "refused": {}})
        moment = self._moment(number, step, share, portioned)

        races = bool(self.settings.shift.race.share)
        families = planned_families(self._planned) if races else {}

        def alter(zoo: GrowingNetwork, continuation: Continuation) -> Altered:
            bank, edits = self._bank(), list[Edit]()
            editor = replace(self._editor(number, bank, zoo), planned=families)
            for action in continuation.actions:
                edits += editor.at_once(action, event=number, order=len(edits))
            return Altered(tuple(edits), bank)

        kinds = continuations(self.zoo.structure, families, self.settings.birth.most) if races else ()
        choice = choose(kinds, record, alter, moment.flops)
        edits, bank = ((), self._bank()) if choice.altered is None else (choice.altered.edits, choice.altered.bank)
        if choice.prize is not None:
            self.zoo = choice.prize.zoo
        why = choice.record.reason
        edits = tuple(edit.model_copy(update={"note": "; ".join(filter(None, (edit.note, why)))}) for edit in edits)
        return self._recorded(moment, edits, bank).model_copy(update={"shift": choice.record}), choice

    def _moment(self, number: int, step: int, share: float, portioned: Portions | None) -> _Moment:
        """Begin an event at which a race decides: probe the network."""
        self.memory = self.memory.model_copy(update={"portions": portioned})
        seen, history = self._look()
        ages = ages_of(self.zoo.structure.live, number)
        moment = _Moment(number, step, share, portioned, seen, history, ages, self.prices(), self.probe_flops)
        self._inform(seen)
        self._distillation_steps = []
        return moment

    def _recorded(self, moment: _Moment, edits: tuple[Edit, ...], bank: ModuleBank) -> EventRecord:
        """End an event at which a race decided: remember what is there, and record it."""
        there, memory = set(self.zoo.live), self.memory
        self.memory = memory.model_copy(
            update={
                "history": moment.history,
                "low": {name: count for name, count in memory.low.items() if name in there},
                "warming": {name: at for name, at in memory.warming.items() if name in there},
                "rewarming": {name: at for name, at in memory.rewarming.items() if name in there},
                "bank": _banked(bank),
                "blobs": self._named(edits),
            }
        )
        return EventRecord(
            number=moment.number,
            step=moment.step,
            share=moment.share,
            modules=module_rows(moment.seen, moment.history, moment.ages),
            value=moment.seen.accuracy,
            loss=moment.seen.loss,
            decisions=(),
            edits=edits,
            portions=moment.portioned,
            flops=moment.flops + self._distilled(moment.cost),
        )

    def withdraw(self, record: EventRecord, zoo: GrowingNetwork, note: str) -> EventRecord:
        """Undo the edits of the event that was just carried out; its decisions stay, and are rewarded as they are.

        Args:
            record: Record of the event.
            zoo: The network without its edits.
            note: Why; each edit is recorded as refused with it.
        """
        assert self._unedited is not None, "there was an event"
        kept = {name: getattr(self.memory, name) for name in ("strategist", "strategist_blob")}
        around = [edit.action.operation for edit in record.edits if edit.surrounds]
        refused = {**self._unedited.refused, **{name: self._unedited.refused.get(name, 0) + 1 for name in around}}
        self.zoo, self.memory = zoo, self._unedited.model_copy(update={**kept, "refused": refused})
        return record.model_copy(update={"edits": tuple(_refused(edit, note) for edit in record.edits), "warms": False})

    def measured(self, gain: MeasuredGain | None) -> None:
        """Keep what a fork measured of the edits of the event that was just carried out, made or withdrawn."""
        self._pend(gain=gain)

    def postpone(self, record: EventRecord, share: float) -> EventRecord:
        """Let the warm-ups that begin with an event begin later by a share of the budget, which others used up."""
        begin = record.share + share
        mine = {edit.module for edit in record.edits if edit.born}
        mine |= {edit.module for edit in record.edits if edit.action.operation == "rewarm"}
        update = {
            kind: {name: begin if name in mine else at for name, at in getattr(self.memory, kind).items()}
            for kind in ("warming", "rewarming")
        }
        self.memory = self.memory.model_copy(update=update)
        return record.model_copy(update={"share": begin})

    def ripen(self, share: float) -> None:
        """Set birth factors and learning rates for the share of the budget that is used up."""
        self._ripen(self.zoo, self.memory, share)

    def ripen_unedited(self, zoo: GrowingNetwork, share: float) -> None:
        """The same for the network without the edits of the last event."""
        assert self._unedited is not None, "there was an event"
        self._ripen(zoo, self._unedited, share)

    def ripen_other(self, zoo: GrowingNetwork, share: float) -> None:
        """The same for another network of modules of this one."""
        self._ripen(zoo, self.memory, share)

    def _ripen(self, zoo: GrowingNetwork, memory: GrowthMemory, share: float) -> None:
        there, warm = set(zoo.live), self.settings.events.warm
        factors = {name: min(1.0, max(0.0, (share - at) / warm)) for name, at in memory.warming.items()}
        zoo.births = {name: factor for name, factor in factors.items() if name in there and factor < 1}
        slow = {*memory.warming, *memory.rewarming} & there
        zoo.newborn_rates = dict.fromkeys(sorted(slow), self.settings.events.warm_rate)

    def mature(self, share: float) -> bool:
        """End the warm-ups whose time is over, and probe the network with the grown-up newborns.

        Returns:
            Whether a probe was made: none where it would cost too much, or where the event has its reward already.
        """
        memory, warm = self.memory, self.settings.events.warm

        def lasting(begun: dict[str, float]) -> dict[str, float]:
            return {name: at for name, at in begun.items() if at + warm > share + ROUNDING}

        update = {"warming": lasting(memory.warming), "rewarming": lasting(memory.rewarming)}
        self.memory = memory.model_copy(update=update)
        self.ripen(share)
        pending, portioned = self.memory.pending, self.memory.portions
        if pending is None or pending.reward is not None or not (portioned is None or portioned.mature):
            return False
        seen = self.zoo.probe(self._probed(), self.settings.fitness)
        self._inform(seen)
        self._pend(curve=(*pending.curve, seen.accuracy))
        return True

    def look(self, step: int, share: float, event: int, *, last: bool = False) -> LookRecord:
        """Probe between two events: update the moving averages, decide nothing (T_eval).

        Args:
            step: Training steps made so far.
            share: Share of the budget that is used up, 0 to 1.
            event: Number of the last event; 0 before the first.
            last: Whether the training is over, and nothing learns from it any more.
        """
        seen, history = self._look()
        if not last:
            self._inform(seen)
        update: dict[str, object] = {"history": history}
        if self.settings.prune.rule in EVERY_PROBE:
            update["low"] = counted(history, self.memory.low, self.settings.prune)
        self.memory = self.memory.model_copy(update=update)
        rows = module_rows(seen, history, ages_of(self.zoo.structure.live, event))
        return LookRecord(step=step, share=share, modules=rows, value=seen.accuracy, loss=seen.loss)

    def reward(self, number: int) -> RewardRecord:
        """Compute the reward of an event whose horizon is over."""
        pending = self.memory.pending
        assert pending is not None
        assert pending.number == number
        seen, history = self._look()
        after = reward_state_of(seen, history, *self._costs())
        value, scale = reward(
            pending.before.reward_state,
            after,
            (*pending.curve, after.value),
            self.memory.scale,
            self.settings.reward,
            self._price(pending),
        )
        self.memory = self.memory.model_copy(update={"scale": scale})
        self._pend(reward=value.total)
        return RewardRecord(number=number, value=after.value, loss=after.loss, terms=value.terms)

    def finish(self) -> None:
        """End the growth after the training: no module warms up any more, and the strategist gets the last event."""
        self.memory = self.memory.model_copy(update={"warming": {}, "rewarming": {}})
        self.ripen(1.0)
        self._conclude(None)
        self._keep_strategist()

    # What it costs

    def _distilled(self, cost: Prices) -> float:
        """FLOPs of the distillations of one event."""
        each = sum(cost.distillation(self.distil_steps, steps) for steps in self._distillation_steps)
        return self.around.batch_size * each

    def prices(self) -> Prices:
        """FLOPs of growing, per sample, for the network as it is now."""
        return self.zoo.structure.prices(self.around.task, self.settings.fitness)

    @property
    def probe_flops(self) -> float:
        """FLOPs of one probe of the network as it is now."""
        return self.prices().probe * sum(_size(batch) for batch in self._probed())

    def refining(self, number: int) -> float:
        """FLOPs of the strategist's own gradient at an event; 0 where it takes none."""
        if not self.strategist.wants_gradient(number):
            return 0.0
        steps = self.strategist.settings.meta.steps
        return self.prices().meta_gradient(steps, self.around.batch_size, _size(self._probed()[0]))

    # Within

    def _look(self) -> tuple[ModuleProbe, FitnessHistory]:
        """A probe, and the history that follows from it; ``memory`` still holds the earlier history."""
        seen = self.zoo.probe(self._probed(), self.settings.fitness)
        costs = {module.id: float(genotype_parameters(module.genotype)) for module in self.zoo.structure.live}
        settings, structure, task = self.settings.fitness, self.zoo.structure, self.around.task
        in_steps = settings.price == "steps" and self.around.in_flops
        taken = taken_steps(structure, task, settings) if in_steps else None
        return seen, assess(self.memory.history, seen, relative_costs(costs), settings, taken)

    def _inform(self, seen: ModuleProbe) -> None:
        """Let the router know what a probe measured, where settings want it."""
        if self.settings.fitness.inform:
            self.zoo.inform(seen)

    def _priced(self, share: float, beta: float | None) -> dict[str, float | None]:
        """What the price of an event's edits needs later on; empty where FLOPs are not priced in steps."""
        if self.settings.reward.price != "steps" or not self.around.in_flops:
            return {}
        return {"share": share, "flops": self.prices().forward, "rise": beta}

    def _price(self, pending: Pending) -> float | None:
        """What the edits of an event cost in steps, in the unit of the metric; None where that is not known."""
        if pending.share is None or pending.flops is None or pending.rise is None:
            return None
        return price(pending.rise, pending.share, pending.flops, self.prices().forward)

    def _probed(self) -> Sequence[Batch]:
        return self.around.probed(self.samples)

    @property
    def samples(self) -> int:
        """Samples in each probe."""
        portioned = self.memory.portions
        return self.settings.fitness.samples if portioned is None else portioned.samples

    @property
    def distil_steps(self) -> int:
        """Distillation steps before a module is removed."""
        portioned = self.memory.portions
        return self.settings.prune.distil_steps if portioned is None else portioned.distil_steps

    def _apply(
        self,
        number: int,
        decisions: Sequence[Decision],
        history: FitnessHistory,
        replaces: str | None,
        bank: ModuleBank,
    ) -> tuple[tuple[Edit, ...], dict[int, ModuleGenotype]]:
        zoo, settings, editor = self.zoo, self.settings, self._editor(number, bank)
        edits: list[Edit] = []
        children: dict[int, ModuleGenotype] = {}
        for place, decision in enumerate(decisions):
            if decision.action.operation == "noop":
                continue
            full = len(zoo.structure.live) >= settings.birth.most
            made = editor.apply(
                decision.action,
                event=number,
                order=len(edits),
                fitness=history.fitness,
                replaces=replaces if full and replaces in zoo.live else None,
            )
            edits += made
            children.update((place, edit.after) for edit in made if edit.after is not None)
        return tuple(edits), children

    def _editor(self, number: int, bank: ModuleBank, changed: GrowingNetwork | None = None) -> Editor:
        zoo, task, caps = self.zoo if changed is None else changed, self.around.task, self.caps
        return Editor(
            zoo,
            self.settings,
            self.seed,
            self.around.blobs,
            lambda child, gone: refusal(zoo.structure, child, task, caps, gone),
            lambda name: self._teach(name, number),
            bank,
            lambda changed: over_caps(changed, task, caps),
            lambda name: needed(zoo.structure, task, caps).get(name),
        )

    def _teach(self, name: str, number: int) -> str:
        """Distil a module into the others before it is removed; weights are restored where that fails."""
        settings, around = self.settings.prune, self.around
        if not self.distil_steps:
            return "" if not settings.distil_steps else "not distilled: that would cost too much here"
        before = {key: value.clone() for key, value in self.zoo.network.state_dict().items()}
        done = self.zoo.distil(
            name,
            around.distillation_batch,
            self.distil_steps,
            tolerance=settings.distil_tolerance,
            batch_size=around.batch_size,
            seed=integer_seed(self.seed, number, f"distillation of {name}"),
            precision=around.precision,
        )
        self._distillation_steps.append(done.steps)
        if done.state != "finished":
            self.zoo.network.load_state_dict(before)
            return f"the others could not learn from it: {done.state}"
        return f"distilled in {done.steps} steps, from {done.before:.3g} to {done.after:.3g}"

    def _gain(self, history: FitnessHistory) -> float:
        """Expected fall of the loss by a birth, in nats: mean impact of earlier newborns, at least the tolerance."""
        born = {
            module.id
            for module in self.zoo.structure.live
            if module.birth_event and module.id not in self.memory.warming
        }
        known = [max(0.0, history.modules[name].impact) for name in sorted(born)]
        return max(self.settings.prune.tolerance, sum(known) / len(known) if known else 0.0)

    def _costs(self) -> tuple[float, float]:
        """FLOPs and parameters, as multiples of those at the start."""
        now = Resources.of(self.zoo.structure, self.around.task)
        return now.flops / max(self._start.flops, 1), now.parameters / max(self._start.parameters, 1)

    def _conclude(self, after: State | None) -> dict[str, float]:
        """Pass the last event to the strategist, now that the state after it is known."""
        pending = self.memory.pending
        if pending is None or pending.reward is None:
            return {}
        transition = Transition(
            state=pending.state,
            decisions=pending.decisions,
            reward=pending.reward,
            cost=pending.cost,
            after=after,
            gain=pending.gain,
        )
        self.learned = self.learned.with_event(transition, pending.children)
        digest = self.around.blobs.put_bytes(self.learned.dumps().encode())
        self.memory = self.memory.model_copy(update={"pending": None, "learned_blob": digest})
        return self.strategist.update([transition])

    def _pend(self, **changes: object) -> None:
        assert self.memory.pending is not None
        pending = self.memory.pending.model_copy(update=changes)
        self.memory = self.memory.model_copy(update={"pending": pending})

    def _bank(self) -> ModuleBank:
        bank = ModuleBank(self.settings.prune.bank)
        for entry in self.memory.bank:
            bank.keep(entry.name, entry.genotype, self._tensors(entry.digest), entry.digest)
        return bank

    def _named(self, edits: Sequence[Edit]) -> tuple[str, ...]:
        """Digests of all blobs that the log names so far."""
        parents = {source.digest for edit in edits for source in edit.tensors if source.digest is not None}
        return tuple(sorted({*self.memory.blobs, *parents}))

    def _keep_strategist(self) -> None:
        snapshot = self.strategist.state_dict()
        if not snapshot.tensors:
            return
        blob = save_part(self.around.blobs, snapshot.tensors)
        self.memory = self.memory.model_copy(update={"strategist": dict(snapshot.data), "strategist_blob": blob})

    def _tensors(self, digest: str) -> dict[str, Tensor]:
        with torch.no_grad():
            return load_part(self.around.blobs, digest, f"the weights {digest[:12]}")


def _banked(bank: ModuleBank) -> tuple[BankedModule, ...]:
    """What is kept of a bank between events."""
    return tuple(
        BankedModule(name=entry.name, genotype=entry.genotype, digest=entry.digest or "") for entry in bank.entries
    )


def _refused(edit: Edit, note: str) -> Edit:
    """An edit that was undone; one that was refused before stays as it is."""
    if edit.module is None:
        return edit
    gone = {"module": None, "after": None, "tensors": (), "twin": False}
    gone |= dict.fromkeys(("in_place", "around", "weights"))
    return edit.model_copy(update={**gone, "note": f"refused: {note}"})


def _size(batch: Batch) -> int:
    return len(next(iter(batch.values())))


ROUNDING = 1e-9
"""Tolerance for shares of a budget, which are sums of floats."""
