"""The choice of a smaller network where a cap falls: short trainings of what may be left, and the best goes on.

Source: docs/spec/architect_thyself.md#falling-caps.

Each network begins with the weights and the moments of the whole one, without the modules that go. All are judged
right after the removal. Then the most promising of each kind (``caps.smaller.kinds_under``) race in successive halving
(``module_zoo.procedures.race_plan``): in a rung all cost the same FLOPs, on the same batches. They are judged by their
loss on the split ``architecture``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from evodevo.experiments.measure import places
from evodevo.experiments.trainer import Branch, Trainer
from evodevo.growth.caps.plan import plan_race
from evodevo.growth.caps.records import FallRecord, SmallerNetwork
from evodevo.growth.caps.smaller import Ids, only, seated
from evodevo.growth.forks.judging import SPLIT, sample_losses
from evodevo.growth.forks.running import spare_of
from evodevo.growth.forks.sides import Batches, Side, train_side
from evodevo.growth.growable import Growable, GrowingNetwork
from evodevo.growth.spec import CapRaceSettings
from evodevo.module_zoo.procedures.race_plan import Heat, left_after, ranked, survivors
from evodevo.tasks.base import SampleTask
from evodevo.training.loop import TrainingResult
from evodevo.training.settings import TrainingSettings

MOMENT = 1e-9
"""Share of the budget after which a newborn counts."""
SCREENED = 4
"""How many times as many networks as race are judged right after the removal, on as many times fewer samples before
a race: it then costs as much as judging once those that race."""
STEP = 3
"""Forward passes in a step."""
NOT_WANTED = "race.share is 0"
NO_FLOPS = "a race is charged in FLOPs, and the budget is not in these alone"
DIVERGED = "all networks of the race diverged"
ONE_LEFT = "only one smaller network has a finite loss"
NO_ROOM = "{:.3g} FLOPs have no room for a race of two networks with rungs of {} steps"


@dataclass(frozen=True)
class Choice:
    """The outcome.

    Attributes:
        record: What is recorded.
        zoo: The network that goes on, as the race trained it; None where there was no race.
        branch: Where its training began, and the result of that; None where there was no race.
        result: See ``branch``.
    """

    record: FallRecord
    zoo: GrowingNetwork | None = None
    branch: Branch | None = None
    result: TrainingResult | None = None


@dataclass
class _Entrant:
    """A smaller network with its place in the race."""

    ids: Ids
    before: float | None
    side: Side | None = None
    branch: Branch | None = None
    result: TrainingResult | None = None
    losses: list[float | None] = field(default_factory=list)
    flops: float = 0.0

    @property
    def begun(self) -> tuple[Side, Branch]:
        assert self.side is not None, "it takes part in the race"
        assert self.branch is not None, "it takes part in the race"
        return self.side, self.branch

    @property
    def steps(self) -> int:
        if self.result is None or self.branch is None:
            return 0
        return self.result.steps - self.branch.snapshot.cursor.step

    @property
    def record(self) -> SmallerNetwork:
        return SmallerNetwork(modules=self.ids, before=self.before, losses=tuple(self.losses), steps=self.steps)


class CapRaces:
    """The choices of one run.

    Args:
        bench: Trainer of the procedure.
        settings: Settings of the races.
        task: Task with the split ``architecture``.
        training: Settings of the training.
        falls: Number of falls that share what the races may cost, at least 1.
        ripen: Sets birth factors and learning rates of a network for a share of the budget.
        price: FLOPs of a forward pass of a network on one sample, by its structure.
    """

    def __init__(
        self,
        bench: Trainer,
        settings: CapRaceSettings,
        task: SampleTask,
        training: TrainingSettings,
        falls: int,
        ripen: Callable[[GrowingNetwork, float], None],
        price: Callable[[Growable], float],
    ) -> None:
        self.bench = bench
        self.settings = settings
        self.task = task
        self.training = training
        self.falls = falls
        self.ripen = ripen
        self.price = price
        self.places: NDArray[np.int64] = places(task, SPLIT, settings.samples)
        self.few: NDArray[np.int64] = places(task, SPLIT, math.ceil(settings.samples / SCREENED))

    def choose(
        self,
        zoo: GrowingNetwork,
        kinds: Sequence[Sequence[Ids]],
        record: FallRecord,
        *,
        batches: Batches,
        share: float,
        before_next: float,
        spent: float,
    ) -> Choice:
        """Choose the network that goes on; neither the network nor the position of the training changes.

        Args:
            zoo: The whole network, between two segments.
            kinds: Smaller networks under the cap (``caps.smaller.kinds_under``), of each kind the most promising
                first; at least one in all.
            record: Record of the fall so far.
            batches: Batch by number of the step.
            share: Share of the budget that is used up.
            before_next: Share of the budget after which the next cap falls; 1 where none does.
            spent: FLOPs that have been used up.
        """
        border = self.bench.branch()
        found, allowed = sum(map(len, kinds)), self._allowed(before_next, spent)
        count, instead = self._room(zoo, kinds[0], allowed)
        looked = seated(kinds, SCREENED * count) if count else kinds[:1]
        entrants = {ids: _Entrant(ids, None) for ids in chain.from_iterable(looked)}
        best, judged, raced = next(iter(entrants.values())), 0.0, 0.0
        if len(entrants) == 1:
            instead = ""
        else:
            judged = self._look(entrants.values(), zoo, border, share, self.few if count else self.places)
            order = [[kind[place] for place in ranked([entrants[ids].before for ids in kind])] for kind in looked]
            known = [entrants[ids] for kind in order for ids in kind]
            best = known[0] if known else best  # of those that fill the caps: small ones have lost more
            if count:

                def enter(entrant: _Entrant) -> None:
                    self._enter(entrant, zoo, border, spent + judged, batches)

                kinds = order if known else looked
                racing, heat = self._taking_part(kinds, count, entrants, allowed - judged, enter)
                if heat is None:
                    instead = ONE_LEFT if len(known) == 1 else self._no_room(allowed - judged)
                else:
                    winner, raced = self._race(racing, heat, batches)
                    best, instead = (best, DIVERGED) if winner is None else (winner, "")
        kept = 0.0 if instead else best.flops
        record = record.model_copy(
            update={
                "networks": tuple(entrant.record for entrant in entrants.values()),
                "left_out": found - len(entrants),
                "chosen": best.ids,
                "instead": instead,
                "winner_flops": kept,
                "steps": best.steps if kept else 0,
                "spent": judged + raced - kept,
            }
        )
        if not kept:
            return Choice(record)
        side, branch = best.begun
        return Choice(record, side.zoo, branch, best.result)

    # Within

    def _room(self, zoo: GrowingNetwork, filling: Sequence[Ids], allowed: float) -> tuple[int, str]:
        """How many networks can race, were they as dear as any that fills the caps; 0 and the reason for no race."""
        budget = self.training.budget
        if not self.settings.share:
            return 0, NOT_WANTED
        if budget.flops is None or any(one is not None for one in (budget.steps, budget.tokens, budget.seconds)):
            return 0, NO_FLOPS
        samples = len(self.places) + STEP * self.settings.least * self.training.batch_size
        dearest = samples * max(self.price(only(zoo.structure, ids)) for ids in filling)
        count = min(self.settings.networks, int(allowed / dearest)) if allowed > 0 else 0
        return (count, "") if count > 1 else (0, self._no_room(allowed))

    def _no_room(self, allowed: float) -> str:
        return NO_ROOM.format(max(allowed, 0.0), self.settings.least)

    def _look(
        self, entrants: Iterable[_Entrant], zoo: GrowingNetwork, border: Branch, share: float, places: NDArray[np.int64]
    ) -> float:
        """Judge each right after the removal, on these samples; FLOPs of that."""
        judged = 0.0
        for entrant in entrants:
            reduced, _ = self._reduced(zoo, entrant.ids, border)
            self.ripen(reduced, share)
            entrant.before, cost = self._loss(reduced, places)
            judged += cost
        return judged

    def _taking_part(
        self,
        kinds: Sequence[Sequence[Ids]],
        most: int,
        entrants: Mapping[Ids, _Entrant],
        allowed: float,
        enter: Callable[[_Entrant], None],
    ) -> tuple[list[_Entrant], Heat | None]:
        """As many networks as the race has room for, and its plan; None where there is not room for two."""
        for count in range(min(sum(map(len, kinds)), most), 1, -1):
            racing = [entrants[ids] for ids in chain.from_iterable(seated(kinds, count))]
            for entrant in racing:
                if entrant.side is None:
                    enter(entrant)
            heat = self._plan(racing, allowed)
            if heat is not None:
                return racing, heat
        return [], None

    def _allowed(self, before_next: float, spent: float) -> float:
        """FLOPs of one choice: its part of the share, and no more than there are until the next fall."""
        budget = self.training.budget.flops
        if budget is None:
            return 0.0
        return min(self.settings.share * budget / self.falls, before_next * budget - spent)

    def _reduced(self, zoo: GrowingNetwork, ids: Ids, border: Branch) -> tuple[GrowingNetwork, Branch]:
        """A copy of the network with these modules alone, and the position of its training."""
        reduced = spare_of(zoo, self.bench)
        for name in zoo.live:
            if name not in ids:
                reduced.remove(name)
        branch = self.bench.branch()
        self.bench.back_to(border)
        return reduced, branch

    def _enter(self, entrant: _Entrant, zoo: GrowingNetwork, border: Branch, spent: float, batches: Batches) -> None:
        reduced, branch = self._reduced(zoo, entrant.ids, border)
        budget = self.training.budget.flops
        assert budget is not None, "it races in FLOPs"
        entrant.branch = branch.at(spent)
        entrant.side = Side(reduced, entrant.branch.snapshot, self.ripen)
        entrant.side.count(self.bench, batches, spent / budget + MOMENT)

    def _plan(self, racing: Sequence[_Entrant], allowed: float) -> Heat | None:
        sides = [entrant.begun[0] for entrant in racing]
        return plan_race(
            [side.flops for side in sides],
            [len(self.places) * self.price(side.zoo.structure) for side in sides],
            allowed,
            self.settings.least,
        )

    def _race(self, racing: Sequence[_Entrant], heat: Heat, batches: Batches) -> tuple[_Entrant | None, float]:
        """Successive halving; the winner, None where none could be trained, and FLOPs of all steps and judgements."""
        chosen, judged = list(racing), 0.0
        for number in range(heat.rungs):
            for entrant in chosen:
                judged += self._rung(entrant, heat.amount, batches)
            last = number == heat.rungs - 1
            kept = survivors(
                [entrant.losses[-1] for entrant in chosen], len(chosen) if last else left_after(len(chosen))
            )
            chosen = [chosen[place] for place in kept]
        order = ranked([entrant.losses[-1] for entrant in chosen])
        return chosen[order[0]] if order else None, judged + math.fsum(entrant.flops for entrant in racing)

    def _rung(self, entrant: _Entrant, amount: float, batches: Batches) -> float:
        """Train it on for this cost, and judge it; the FLOPs of the judgement."""
        side, _ = entrant.begun
        judgement = len(self.places) * self.price(side.zoo.structure)
        before, begin = entrant.steps, side.snapshot.cursor.step
        wanted = int((amount - judgement) / side.flops)
        entrant.result = train_side(self.bench, side, self.training, batches, wanted)
        entrant.side = replace(side, snapshot=entrant.result.snapshot)
        entrant.flops += (entrant.steps - before) * side.flops
        complete = entrant.result.steps == begin + wanted
        loss, cost = self._loss(side.zoo, self.places) if complete else (None, 0.0)
        entrant.losses.append(loss)
        return cost

    def _loss(self, zoo: GrowingNetwork, places: NDArray[np.int64]) -> tuple[float | None, float]:
        """Mean loss in nats on these samples, None where it is not finite, and the FLOPs of that."""
        losses = sample_losses(
            zoo.network,
            self.task,
            places,
            batch_size=max(32, self.training.batch_size),
            precision=self.bench.precision,
        )
        mean = float(np.nanmean(losses))
        return mean if math.isfinite(mean) else None, len(places) * self.price(zoo.structure)
