"""Driver of a growing network: what happens between two segments of its training.

Source: docs/spec/architect_thyself.md#events.

    probe -> fitness -> state and what is legal -> strategist -> edits;   after the horizon: reward -> strategist

The driver owns no clock and no data: the trainer calls ``event``, ``mature`` and ``reward`` at their dates
(``agenda``), and sets birth factors at every step (``ripen``). All that the next call depends on is in ``memory``, so
that a run which was killed goes on identically; all draws are keyed by (run seed, event, order).

Here are the network and the memory, and nothing else that changes. What happens to them is in files of their own: an
event in ``events.strategist``, a fall of a cap in ``caps.fall``, a shift of the data in ``shifts.shift``, what a fork
refuses in ``forks.withdrawal``.
"""

from __future__ import annotations

from collections.abc import Callable

from evodevo.growth.caps.fall import Choose as ChooseSmaller
from evodevo.growth.caps.fall import fall
from evodevo.growth.caps.race import Choice
from evodevo.growth.caps.smaller import check_falls
from evodevo.growth.edits import repeat
from evodevo.growth.events.date import EventDate
from evodevo.growth.events.editing import Editing
from evodevo.growth.events.learning import Learner
from evodevo.growth.events.probing import Probing
from evodevo.growth.events.raced import RacedEvents
from evodevo.growth.events.records import EventRecord, GrowthMemory, LookRecord, RewardRecord, module_rows
from evodevo.growth.events.rewarding import Rewarding
from evodevo.growth.events.strategist import StrategistEvents
from evodevo.growth.events.surroundings import Surroundings
from evodevo.growth.events.warming import postponed, ripen, still_warming
from evodevo.growth.flops import Prices
from evodevo.growth.forks.withdrawal import withdrawn
from evodevo.growth.growable import Growable, GrowingNetwork
from evodevo.growth.pruning import EVERY_PROBE, counted
from evodevo.growth.resources import check_start
from evodevo.growth.rewards import RewardScale
from evodevo.growth.shifts.race import ShiftChoice
from evodevo.growth.shifts.records import ShiftRecord
from evodevo.growth.shifts.shift import Choose as ChooseContinuation
from evodevo.growth.shifts.shift import shift
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.gains.record import MeasuredGain
from evodevo.growth.strategists.memory_of_policy import PolicyMemory
from evodevo.growth.views import ages_of


class Growth:
    """The growth of one network.

    Args:
        zoo: A network that grows, as it was at the start of the run; changed in place.
        settings: Settings of the growth.
        around: Task, samples and stores; see ``Surroundings``.
        seed: Seed of the run.
        memory: Memory of an interrupted run; None starts a new one. ``repeat`` its events before anything else.
        edits: Edits of earlier runs; None for none.
        policy: Policy of an earlier run, from which the strategist goes on; None for one that begins anew.
        planned: The network as it was planned, before a race at the start; the network itself if left out.

    Attributes:
        zoo: The network that goes on; another one where a race or a fork decided so.
        memory: Everything that the next call depends on; replaced by a new value after each call.
        learner: The strategist, with the edits of this run and of earlier ones.

    Raises:
        UsageError: The network exceeds a cap already, or the policy is of another strategist or shape.
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
        policy: PolicyMemory | None = None,
        planned: Growable | None = None,
    ) -> None:
        self.zoo = zoo
        self.settings = settings
        self.around = around
        scale = RewardScale() if policy is None else policy.scale  # one course, one scale
        self.memory = memory or GrowthMemory(scale=scale)
        self._planned = zoo.structure if planned is None else planned
        self._unedited: GrowthMemory | None = None  # as it were without the edits of the last event
        zoo.enter(settings.birth.entry)
        start = check_start(zoo.structure, around.task, settings.caps)
        check_falls(zoo.structure, around.task, settings.caps)
        self.learner = Learner(
            settings, around, seed=seed, memory=self.memory, edits=edits or EditMemory(), policy=policy
        )
        self._probing = Probing(settings.fitness, around)
        self._editing = Editing(settings, around, seed)
        self._rewarding = Rewarding(settings.reward, self._probing, start)
        self._decided = StrategistEvents(self.learner, self._probing, self._editing, self._rewarding)
        self._raced = RacedEvents(self._probing, self._editing)

    def repeat(self, record: EventRecord) -> None:
        """Repeat a recorded event: only the structure changes, since a checkpoint holds the weights."""
        repeat(self.zoo, record.edits)

    # Events

    def event(
        self,
        date: EventDate,
        clock: Callable[[], float] | None = None,
        decided: Callable[[], None] = lambda: None,
    ) -> EventRecord:
        """Carry out one event: probe, decide, edit the network. For the arguments see ``StrategistEvents``."""
        made = self._decided.carry_out(self.zoo, self.memory, date, clock=clock, decided=decided)
        self.memory, self._unedited = made.memory, made.unedited
        return made.record

    def fall(self, date: EventDate, choose: ChooseSmaller) -> tuple[EventRecord, Choice | None]:
        """Carry out one fall of the caps; see ``caps.fall``.

        Returns:
            The record, and what was chosen where something had to go. A network that a race has trained is this
            network from then on.
        """
        done = fall(self._raced, self.zoo, self.memory, date, choose=choose)
        self.zoo, self.memory = done.zoo, done.memory
        return done.record, done.choice

    def shift(
        self, date: EventDate, record: ShiftRecord, choose: ChooseContinuation
    ) -> tuple[EventRecord, ShiftChoice]:
        """Carry out the shift of the data; see ``shifts.shift``.

        Returns:
            The record, and what was chosen. A network that a race has trained is this network from then on.
        """
        done = shift(self._raced, self.zoo, self.memory, date, record, planned=self._planned, choose=choose)
        self.zoo, self.memory = done.zoo, done.memory
        return done.record, done.choice

    # After a fork

    def withdraw(self, record: EventRecord, zoo: GrowingNetwork, note: str) -> EventRecord:
        """Undo the edits of the event that was just carried out; its decisions stay, and are rewarded as they are.

        Args:
            record: Record of the event.
            zoo: The network without its edits.
            note: Why; each edit is recorded as refused with it.
        """
        record, self.memory = withdrawn(record, self.memory, self._last_unedited, note)
        self.zoo = zoo
        return record

    def measured(self, gain: MeasuredGain | None) -> None:
        """Keep what a fork measured of the edits of the event that was just carried out, made or withdrawn."""
        self.memory = self.memory.with_pending(gain=gain)

    def postpone(self, record: EventRecord, share: float) -> EventRecord:
        """Let the warm-ups that begin with an event begin later by a share of the budget, which others used up."""
        record, self.memory = postponed(record, self.memory, share)
        return record

    # Warm-ups

    def ripen(self, share: float) -> None:
        """Set birth factors and learning rates for the share of the budget that is used up."""
        ripen(self.zoo, self.memory, share, self.settings.events)

    def ripen_unedited(self, zoo: GrowingNetwork, share: float) -> None:
        """The same for the network without the edits of the last event."""
        ripen(zoo, self._last_unedited, share, self.settings.events)

    def ripen_other(self, zoo: GrowingNetwork, share: float) -> None:
        """The same for another network of modules of this one."""
        ripen(zoo, self.memory, share, self.settings.events)

    def mature(self, share: float) -> bool:
        """End the warm-ups whose time is over, and probe the network with the grown-up newborns.

        Returns:
            Whether a probe was made: none where it would cost too much, or where the event has its reward already.
        """
        self.memory = still_warming(self.memory, share, self.settings.events)
        self.ripen(share)
        pending, portioned = self.memory.pending, self.memory.portions
        if pending is None or pending.reward is not None or not (portioned is None or portioned.mature):
            return False
        seen = self._probing.probe(self.zoo, portioned)
        self._probing.inform(self.zoo, seen)
        self.memory = self.memory.with_pending(curve=(*pending.curve, seen.accuracy))
        return True

    # Probes and rewards

    def look(self, step: int, share: float, event: int, *, last: bool = False) -> LookRecord:
        """Probe between two events: update the moving averages, decide nothing (T_eval).

        Args:
            step: Training steps made so far.
            share: Share of the budget that is used up, 0 to 1.
            event: Number of the last event; 0 before the first.
            last: Whether the training is over, and nothing learns from it any more.
        """
        seen, history = self._probing.look(self.zoo, self.memory.history, self.memory.portions)
        if not last:
            self._probing.inform(self.zoo, seen)
        update: dict[str, object] = {"history": history}
        if self.settings.prune.rule in EVERY_PROBE:
            update["low"] = counted(history, self.memory.low, self.settings.prune)
        self.memory = self.memory.model_copy(update=update)
        rows = module_rows(seen, history, ages_of(self.zoo.structure.live, event))
        return LookRecord(step=step, share=share, modules=rows, value=seen.accuracy, loss=seen.loss)

    def reward(self, number: int) -> RewardRecord:
        """Compute the reward of an event whose horizon is over."""
        assert self.memory.pending is not None, "an event waits for its reward"
        assert self.memory.pending.number == number
        record, self.memory = self._rewarding.reward(self.zoo, self.memory)
        return record

    def finish(self) -> None:
        """End the growth after the training: no module warms up any more, and the strategist gets the last event."""
        self.memory = self.memory.model_copy(update={"warming": {}, "rewarming": {}})
        self.ripen(1.0)
        memory, _ = self.learner.conclude(self.memory, None)
        self.memory = self.learner.kept(memory)

    # What it costs

    def prices(self) -> Prices:
        """FLOPs of growing, per sample, for the network as it is now."""
        return self._probing.prices(self.zoo)

    def forward(self, structure: Growable) -> float:
        """FLOPs of a forward pass of a network of such modules, on one sample."""
        return structure.prices(self.around.task, self.settings.fitness).forward

    @property
    def probe_flops(self) -> float:
        """FLOPs of one probe of the network as it is now."""
        return self._probing.flops(self.zoo, self.memory.portions)

    def refining(self, number: int) -> float:
        """FLOPs of the strategist's own gradient at an event; 0 where it takes none."""
        return self.learner.refining(number, self.zoo, self._probing, self.memory.portions)

    @property
    def samples(self) -> int:
        """Samples in each probe."""
        return self._probing.samples(self.memory.portions)

    @property
    def distil_steps(self) -> int:
        """Distillation steps before a module is removed."""
        return self._editing.distil_steps(self.memory)

    # Within

    @property
    def _last_unedited(self) -> GrowthMemory:
        assert self._unedited is not None, "there was an event"
        return self._unedited
