"""An event of the strategist: probe, decide, edit the network.

Source: docs/spec/architect_thyself.md#events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from evodevo.growth.events.date import EventDate
from evodevo.growth.events.editing import Editing, with_edits
from evodevo.growth.events.learning import Learner
from evodevo.growth.events.probing import Probing
from evodevo.growth.events.records import EventRecord, GrowthMemory, Pending, StoredRewardState, module_rows
from evodevo.growth.events.rewarding import Rewarding
from evodevo.growth.fitness import FitnessHistory
from evodevo.growth.growable import Growable, GrowingNetwork
from evodevo.growth.legality import EventState, rule
from evodevo.growth.pruning import judge
from evodevo.growth.resources import Resources
from evodevo.growth.views import ages_of, state_of
from evodevo.randomness import generator


@dataclass(frozen=True)
class Edited:
    """The outcome.

    Attributes:
        record: What is recorded.
        memory: The memory afterwards.
        unedited: The memory as it were without the edits.
    """

    record: EventRecord
    memory: GrowthMemory
    unedited: GrowthMemory


@dataclass(frozen=True)
class StrategistEvents:
    """The events of one run at which a strategist decides.

    Attributes:
        learner: The strategist.
        probing: Probes.
        editing: Edits.
        rewarding: Rewards.
    """

    learner: Learner
    probing: Probing
    editing: Editing
    rewarding: Rewarding

    def carry_out(
        self,
        zoo: GrowingNetwork,
        memory: GrowthMemory,
        date: EventDate,
        *,
        clock: Callable[[], float] | None,
        decided: Callable[[], None],
    ) -> Edited:
        """Carry out one event.

        Args:
            zoo: The network, changed in place.
            memory: Memory before the event.
            date: Date of the event.
            clock: Returns the share of the budget after the edits, where edits take from it; warm-ups begin there.
            decided: Called after the decisions and before the first edit.
        """
        number, strategist, around = date.number, self.learner.strategist, self.probing.around
        memory = memory.model_copy(update={"portions": date.portioned})
        settings, cost = self.editing.in_force(memory), self.probing.prices(zoo)
        seen, history = self.probing.look(zoo, memory.history, date.portioned)
        flops = self.probing.flops(zoo, date.portioned)
        self.probing.inform(zoo, seen)
        ages = ages_of(zoo.structure.live, number)
        verdict = judge(history, memory.low, ages, memory.warming, settings.prune)
        values, shares = (*memory.values, seen.accuracy), (*memory.shares, date.share)
        priced = self.rewarding.priced(zoo, shares, values)
        state = state_of(
            zoo.structure,
            seen,
            history,
            most=max(settings.birth.most, len(zoo.live)),
            ages=ages,
            warming=memory.warming,
            candidates=[candidate.id for candidate in verdict.candidates],
            values=values,
            progress=date.share,
        )
        memory, learnt = self.learner.conclude(memory, state)
        situation = EventState(
            structure=zoo.structure,
            task=around.task,
            history=history,
            spared=verdict.spared,
            warming=tuple(memory.warming),
            left=1.0 - date.share,
            gain=max(settings.prune.tolerance, _gain(zoo.structure, history, memory.warming)),
            refused=memory.refused,
        )
        ruling = rule(situation, settings)
        if strategist.wants_gradient(number):
            lesson = around.precision.place(around.distillation_batch(number))
            assert isinstance(lesson, dict), "the batch is a mapping"
            strategist.refine(state, ruling.legal, zoo.unroll(lesson, self.probing.batches(date.portioned)[0]))
            flops += self.learner.refining(number, zoo, self.probing, date.portioned)
        rng = generator(self.editing.seed, number, "decisions")
        decisions = strategist.decide(state, ruling.legal, rng)
        made, before = self.editing.begin(number, zoo, memory), self.rewarding.state(zoo, seen, history)
        pending = Pending(
            number=number,
            state=state,
            decisions=decisions,
            before=StoredRewardState.of(before),
            cost=float(Resources.of(zoo.structure, around.task).flops),
        ).model_copy(update=priced)
        unedited = memory.model_copy(
            update={"history": history, "low": verdict.low, "values": values, "shares": shares, "pending": pending}
        )
        decided()
        edits, children = made.decided(decisions, history.fitness, ruling.replaces)
        begin = date.share if clock is None else clock()
        born = {edit.module: begin for edit in edits if edit.warms and edit.module is not None}
        again = {edit.action.modules[0]: begin for edit in edits if edit.action.operation == "rewarm"}
        edited = unedited.model_copy(
            update={
                "warming": {**unedited.warming, **born},
                "rewarming": {**unedited.rewarming, **again},
            }
        ).with_pending(children=children, cost=float(Resources.of(zoo.structure, around.task).flops))
        # Taken after the edits: counts and warm-ups of pruned modules are dropped.
        edited = with_edits(edited.only(zoo.live), edits, made.bank)
        record = EventRecord(
            number=number,
            step=date.step,
            share=begin,
            modules=module_rows(seen, history, ages),
            value=seen.accuracy,
            loss=seen.loss,
            decisions=decisions,
            edits=edits,
            warms=bool(born or again),
            learnt=learnt,
            portions=date.portioned,
            flops=flops + made.flops(cost),
        )
        return Edited(record, self.learner.kept(edited), unedited)


def _gain(structure: Growable, history: FitnessHistory, warming: Collection[str]) -> float:
    """Expected fall of the loss by a birth, in nats: mean impact of earlier newborns; 0 where there is none."""
    born = {module.id for module in structure.live if module.birth_event and module.id not in warming}
    known = [max(0.0, history.modules[name].impact) for name in sorted(born)]
    return sum(known) / len(known) if known else 0.0
