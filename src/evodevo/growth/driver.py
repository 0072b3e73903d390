"""A zoo that grows while it trains: what happens between two segments of training.

Source: docs/spec/architect_thyself.md#events.

    probe -> fitness -> state and what is legal -> strategist -> edits;   after the horizon: reward -> strategist

The driver owns no clock and no data: whoever trains calls ``event``, ``mature`` and ``reward`` at their dates
(``agenda``), and sets birth factors at every step (``ripen``). All that the next call depends on is in ``memory``, so
that a run which was killed goes on identically; all draws are keyed by (run seed, event, order).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from safetensors.torch import save
from torch import Tensor

from evodevo.growth.edit_spec import Edit
from evodevo.growth.edits import Blobs, Editor, repeat
from evodevo.growth.events import (
    EventRecord,
    GrowthMemory,
    Kept,
    LookRecord,
    Pending,
    RewardRecord,
    Stood,
    module_rows,
)
from evodevo.growth.fitness import History, assess, relative_costs
from evodevo.growth.grown import Grown, probe, teach, unroll
from evodevo.growth.legality import Situation, refusal, rule
from evodevo.growth.prices import Prices, prices
from evodevo.growth.probes import Probe
from evodevo.growth.pruning import judge
from evodevo.growth.resources import Resources, Task, check_start
from evodevo.growth.rewards import reward
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.base import Decision, Snapshot, Transition, create
from evodevo.growth.strategists.edit_memory import EditMemory
from evodevo.growth.strategists.settings import settings_for
from evodevo.growth.strategists.state import State
from evodevo.growth.thrift import Portions
from evodevo.growth.views import ages_of, standing_of, state_of
from evodevo.growth.zoo.bank import ModuleBank
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.networks.base import Batch
from evodevo.randomness import generator, integer_seed
from evodevo.training.checkpoints import read_tensors
from evodevo.training.precision import Batch as TrainingBatch
from evodevo.training.precision import Precision


@dataclass(frozen=True)
class Surroundings:
    """What a zoo grows in.

    Attributes:
        task: what its cost depends on.
        probed: so many samples of the split ``architecture``, in batches on the zoo's device; the same ones at every
            call with that number.
        lessons: batch k of training samples, from which others learn what a module said before it goes.
        precision: of training.
        blobs: keeps weights.
        batch_size: of training.
    """

    task: Task
    probed: Callable[[int], Sequence[Batch]]
    lessons: Callable[[int], TrainingBatch]
    precision: Precision
    blobs: Blobs
    batch_size: int


class Growth:
    """The growth of one zoo.

    Args:
        zoo: or an H-Model, as it was at the start of the run; changed in place.
        settings: of the growth.
        around: see ``Surroundings``.
        seed: of the run.
        memory: of a run that was killed; None begins. ``repeat`` what had happened before anything else.
        edits: of earlier runs; None has none.

    Attributes:
        memory: what the next call depends on; a new value after each.
        learned: edits of this run and the earlier ones.

    Raises:
        UsageError: the zoo exceeds a cap already.
    """

    def __init__(
        self,
        zoo: Grown,
        settings: GrowthSettings,
        around: Surroundings,
        *,
        seed: int,
        memory: GrowthMemory | None = None,
        edits: EditMemory | None = None,
    ) -> None:
        self.zoo = zoo
        self.settings = settings
        self.around = around
        self.seed = seed
        self.memory = memory or GrowthMemory()
        self.learned = edits or EditMemory()
        self._lessons: list[int] = []  # steps of each distillation of an event
        if self.memory.learned_blob is not None:
            self.learned = EditMemory.loads(around.blobs.get(self.memory.learned_blob).decode())
        self._start = check_start(zoo.structure, around.task, settings.caps)
        self.strategist = create(
            settings.strategist,
            settings=settings_for(settings),
            actions=settings.events.actions,
            seed=integer_seed(seed, "strategist"),
        )
        if self.memory.strategist_blob is not None:
            tensors = self._tensors(self.memory.strategist_blob)
            self.strategist.load_state_dict(Snapshot(tensors, self.memory.strategist))
        elif settings.memory and self.learned.edits:  # before the first event, also of a run that was killed there
            self.strategist.remember(self.learned)

    def repeat(self, record: EventRecord) -> None:
        """An event that the memory knows already: only the structure changes, as weights come with a checkpoint."""
        repeat(self.zoo, record.edits)

    def event(
        self,
        number: int,
        step: int,
        share: float,
        clock: Callable[[], float] | None = None,
        portioned: Portions | None = None,
    ) -> EventRecord:
        """An event: look, decide, change the zoo.

        Args:
            number: from 1.
            step: steps that were made.
            share: of the budget that is used up.
            clock: the same after the edits, where they take from the budget; warm-ups begin there.
            portioned: what it may use, with all that follows until the next one; all that is wished if left out.
        """
        self.memory = self.memory.model_copy(update={"portions": portioned})
        zoo, settings, memory, cost = self.zoo, self.settings, self.memory, self.prices()
        seen, history = self._look()
        flops = self.probe_flops
        ages = ages_of(zoo.structure.live, number)
        verdict = judge(history, memory.low, ages, memory.warming, settings.prune)
        values = (*memory.values, seen.accuracy)
        state = state_of(
            zoo.structure,
            seen,
            history,
            most=max(settings.birth.most, len(zoo.live)),
            ages=ages,
            warming=memory.warming,
            candidates=[one.id for one in verdict.candidates],
            values=values,
            progress=share,
        )
        learnt = self._conclude(state)
        situation = Situation(
            structure=zoo.structure,
            task=self.around.task,
            history=history,
            spared=verdict.spared,
            warming=tuple(memory.warming),
            left=1.0 - share,
            gain=self._gain(history),
        )
        ruling = rule(situation, settings)
        if self.strategist.wants_gradient(number):
            lesson = self.around.precision.place(self.around.lessons(number))
            assert isinstance(lesson, dict), "the batch is a mapping"
            self.strategist.refine(state, ruling.legal, unroll(zoo, lesson, self._probed()[0]))
            flops += self.refining(number)
        rng = generator(self.seed, number, "decisions")
        decisions = self.strategist.decide(state, ruling.legal, rng)
        bank, before = self._bank(), standing_of(seen, history, *self._costs())
        self._lessons = []
        edits, children = self._apply(number, decisions, history, ruling.replaces, bank)
        begin = share if clock is None else clock()
        born = {one.module: begin for one in edits if one.after is not None and one.module is not None}
        again = {one.action.modules[0]: begin for one in edits if one.action.operation == "rewarm"}
        there = set(zoo.live)
        pending = Pending(
            number=number,
            state=state,
            decisions=decisions,
            children=children,
            before=Stood.of(before),
            cost=float(Resources.of(zoo.structure, self.around.task).flops),
        )
        self.memory = self.memory.model_copy(
            update={
                "history": history,
                "low": {one: count for one, count in verdict.low.items() if one in there},
                "values": values,
                "warming": {one: at for one, at in {**memory.warming, **born}.items() if one in there},
                "rewarming": {one: at for one, at in {**memory.rewarming, **again}.items() if one in there},
                "pending": pending,
                "bank": tuple(
                    Kept(name=one.name, genotype=one.genotype, digest=one.digest or "") for one in bank.entries
                ),
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
            flops=flops + self.around.batch_size * sum(cost.lessons(self.distil_steps, made) for made in self._lessons),
        )

    def ripen(self, share: float) -> None:
        """Set birth factors and learning rates as they are when that share of the budget is used up."""
        there, warm = set(self.zoo.live), self.settings.events.warm
        factors = {one: min(1.0, max(0.0, (share - at) / warm)) for one, at in self.memory.warming.items()}
        self.zoo.births = {one: factor for one, factor in factors.items() if one in there and factor < 1}
        slow = {*self.memory.warming, *self.memory.rewarming} & there
        self.zoo.newborn_rates = dict.fromkeys(sorted(slow), self.settings.events.warm_rate)

    def mature(self, share: float) -> bool:
        """End the warm-ups that began so long before; and see what the newborns are good for.

        Returns:
            whether they were probed: not where that would cost too much, nor once the event has its reward.
        """
        memory, warm = self.memory, self.settings.events.warm

        def lasting(begun: dict[str, float]) -> dict[str, float]:
            return {one: at for one, at in begun.items() if at + warm > share + ROUNDING}

        update = {"warming": lasting(memory.warming), "rewarming": lasting(memory.rewarming)}
        self.memory = memory.model_copy(update=update)
        self.ripen(share)
        pending, portioned = self.memory.pending, self.memory.portions
        if pending is None or pending.reward is not None or not (portioned is None or portioned.mature):
            return False
        value = probe(self.zoo, self._probed(), self.settings.fitness).accuracy
        self._pend(curve=(*pending.curve, value))
        return True

    def look(self, step: int, share: float, event: int) -> LookRecord:
        """A probe between two events: moving averages are brought up to date, and nothing is decided (T_eval).

        Args:
            step: steps that were made.
            share: of the budget that is used up.
            event: that came last.
        """
        seen, history = self._look()
        self.memory = self.memory.model_copy(update={"history": history})
        rows = module_rows(seen, history, ages_of(self.zoo.structure.live, event))
        return LookRecord(step=step, share=share, modules=rows, value=seen.accuracy, loss=seen.loss)

    def reward(self, number: int) -> RewardRecord:
        """The horizon of an event is over: what was it worth?"""
        pending = self.memory.pending
        assert pending is not None
        assert pending.number == number
        seen, history = self._look()
        after = standing_of(seen, history, *self._costs())
        found, scale = reward(
            pending.before.standing, after, (*pending.curve, after.value), self.memory.scale, self.settings.reward
        )
        self.memory = self.memory.model_copy(update={"scale": scale})
        self._pend(reward=found.total)
        return RewardRecord(number=number, value=after.value, loss=after.loss, terms=found.terms)

    def finish(self) -> None:
        """The training is over: newborns are grown up, and the last event is told to the strategist."""
        self.memory = self.memory.model_copy(update={"warming": {}, "rewarming": {}})
        self.ripen(1.0)
        self._conclude(None)
        self._keep_strategist()

    # What it costs

    def prices(self) -> Prices:
        """Of the network as it is now."""
        return prices(self.zoo.structure, self.around.task, self.settings.fitness)

    @property
    def probe_flops(self) -> float:
        """Of a probe of the network as it is now."""
        return self.prices().probe * sum(_size(batch) for batch in self._probed())

    def refining(self, number: int) -> float:
        """FLOPs of the strategist's own gradient at an event; 0 where it takes none."""
        if not self.strategist.wants_gradient(number):
            return 0.0
        steps = self.strategist.settings.meta.steps
        return self.prices().meta_gradient(steps, self.around.batch_size, _size(self._probed()[0]))

    # Within

    def _look(self) -> tuple[Probe, History]:
        """Probe, and the history after it; ``memory`` keeps the one before."""
        seen = probe(self.zoo, self._probed(), self.settings.fitness)
        costs = {one.id: float(genotype_parameters(one.genotype)) for one in self.zoo.structure.live}
        return seen, assess(self.memory.history, seen, relative_costs(costs), self.settings.fitness)

    def _probed(self) -> Sequence[Batch]:
        return self.around.probed(self.samples)

    @property
    def samples(self) -> int:
        """In each probe."""
        portioned = self.memory.portions
        return self.settings.fitness.samples if portioned is None else portioned.samples

    @property
    def distil_steps(self) -> int:
        """Before a module goes."""
        portioned = self.memory.portions
        return self.settings.prune.distil_steps if portioned is None else portioned.distil_steps

    def _apply(
        self,
        number: int,
        decisions: Sequence[Decision],
        history: History,
        replaces: str | None,
        bank: ModuleBank,
    ) -> tuple[tuple[Edit, ...], dict[int, ModuleGenotype]]:
        zoo, settings, task = self.zoo, self.settings, self.around.task
        editor = Editor(
            zoo,
            settings,
            self.seed,
            self.around.blobs,
            lambda child, gone: refusal(zoo.structure, child, task, settings.caps, gone),
            lambda name: self._teach(name, number),
            bank,
        )
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
            if made[-1].after is not None:
                children[place] = made[-1].after
        return tuple(edits), children

    def _teach(self, name: str, number: int) -> str:
        """Before a module goes, the others learn what it said; where that fails they are as they were."""
        settings, around = self.settings.prune, self.around
        if not self.distil_steps:
            return "" if not settings.distil_steps else "not distilled: that would cost too much here"
        before = {key: value.clone() for key, value in self.zoo.state_dict().items()}
        done = teach(
            self.zoo,
            name,
            around.lessons,
            self.distil_steps,
            tolerance=settings.distil_tolerance,
            batch_size=around.batch_size,
            seed=integer_seed(self.seed, number, f"distillation of {name}"),
            precision=around.precision,
        )
        self._lessons.append(done.steps)
        if done.state != "finished":
            self.zoo.load_state_dict(before)
            return f"the others could not learn from it: {done.state}"
        return f"distilled in {done.steps} steps, from {done.before:.3g} to {done.after:.3g}"

    def _gain(self, history: History) -> float:
        """By how much the loss is expected to fall by a birth: as it did by those before, and by nothing at first."""
        born = {one.id for one in self.zoo.structure.live if one.birth_event and one.id not in self.memory.warming}
        known = [max(0.0, history.modules[one].impact) for one in sorted(born)]
        return max(self.settings.prune.tolerance, sum(known) / len(known) if known else 0.0)

    def _costs(self) -> tuple[float, float]:
        """FLOPs and parameters, as factors of those at the start."""
        now = Resources.of(self.zoo.structure, self.around.task)
        return now.flops / max(self._start.flops, 1), now.parameters / max(self._start.parameters, 1)

    def _conclude(self, after: State | None) -> dict[str, float]:
        """Tell the strategist what the last event was worth, now that its successor is known."""
        pending = self.memory.pending
        if pending is None or pending.reward is None:
            return {}
        transition = Transition(
            state=pending.state, decisions=pending.decisions, reward=pending.reward, cost=pending.cost, after=after
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
        for one in self.memory.bank:
            bank.keep(one.name, one.genotype, self._tensors(one.digest), one.digest)
        return bank

    def _named(self, edits: Sequence[Edit]) -> tuple[str, ...]:
        """All blobs of the log so far."""
        parents = {one.digest for edit in edits for one in edit.tensors if one.digest is not None}
        return tuple(sorted({*self.memory.blobs, *parents}))

    def _keep_strategist(self) -> None:
        snapshot = self.strategist.state_dict()
        if not snapshot.tensors:
            return
        tensors = {name: one.detach().cpu().contiguous().clone() for name, one in snapshot.tensors.items()}
        update = {"strategist": dict(snapshot.data), "strategist_blob": self.around.blobs.put_bytes(save(tensors))}
        self.memory = self.memory.model_copy(update=update)

    def _tensors(self, digest: str) -> dict[str, Tensor]:
        with torch.no_grad():
            return read_tensors(self.around.blobs.get(digest), f"the weights {digest[:12]}")


def _size(batch: Batch) -> int:
    return len(next(iter(batch.values())))


ROUNDING = 1e-9
"""Shares of a budget are sums of shares."""
