"""Successive halving of networks that begin at one moment of a training.

Each is a copy of the network with a change; all have the moments of its optimiser. In a rung
(``experiments.racing.plan``) all cost the same FLOPs, on the same batches. They are judged by their loss on the
split ``architecture``, or by where its fall leads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from evodevo.experiments.measure import places
from evodevo.experiments.racing.plan import Heat, expected_loss, left_after, ranked, survivors
from evodevo.experiments.trainer import Branch, Trainer
from evodevo.growth.forks.judging import SPLIT, sample_losses
from evodevo.growth.forks.running import spare_of
from evodevo.growth.forks.sides import Batches, Side, train_side
from evodevo.growth.growable import Growable, GrowingNetwork
from evodevo.growth.races.plan import plan_race
from evodevo.growth.races.records import RaceSettings
from evodevo.networks.base import Network
from evodevo.tasks.base import SampleTask
from evodevo.training.loop import TrainingResult
from evodevo.training.settings import TrainingSettings

MOMENT = 1e-9
"""Share of the budget after which a newborn counts."""
NOT_WANTED = "race.share is 0"
NO_FLOPS = "a race is charged in FLOPs, and the budget is not in these alone"
DIVERGED = "all networks of the race diverged"
NO_ROOM = "{:.3g} FLOPs have no room for a race of two networks with rungs of {} steps"


@dataclass(frozen=True)
class Prize:
    """The network that goes on, where a race has trained it.

    Attributes:
        zoo: The network.
        branch: Where its training began.
        result: The result of that.
    """

    zoo: GrowingNetwork
    branch: Branch
    result: TrainingResult


@dataclass
class Entrant:
    """A network with its place in a race.

    Attributes:
        side: The network at its position; None before it has entered.
        branch: The position at which it began.
        result: The last result of its training.
        losses: Loss in nats after each rung; None where it could not be trained.
        flops: FLOPs of its steps.
        looks: Number of steps in the race and loss, at each judgement.
        expected: The loss to which its fall leads, where that decides; None where it does not, or without a loss.
    """

    side: Side[GrowingNetwork] | None = None
    branch: Branch | None = None
    result: TrainingResult | None = None
    losses: list[float | None] = field(default_factory=list)
    flops: float = 0.0
    looks: list[tuple[float, float]] = field(default_factory=list)
    expected: float | None = None

    @property
    def begun(self) -> tuple[Side[GrowingNetwork], Branch]:
        """Its side and where it began."""
        assert self.side is not None, "it takes part in the race"
        assert self.branch is not None, "it takes part in the race"
        return self.side, self.branch

    @property
    def steps(self) -> int:
        """Number of its steps in the race."""
        if self.result is None or self.branch is None:
            return 0
        return self.result.steps - self.branch.snapshot.cursor.step

    @property
    def prize(self) -> Prize:
        """What goes on where it wins."""
        side, branch = self.begun
        assert self.result is not None, "it was trained"
        return Prize(side.zoo, branch, self.result)


class Halving:
    """The races of one run.

    Args:
        bench: Trainer of the procedure.
        settings: Settings of the races.
        training: Settings of the training.
        count: Number of races that share what they may cost, at least 1.
        ripen: Sets birth factors and learning rates of a network for a share of the budget.
        price: FLOPs of a forward pass of a network on one sample, by its structure.
        by_trend: Whether not the loss decides but that to which its fall leads (``racing.plan.expected_loss``), for
            which a network is judged once more, in the middle of its first rung.
    """

    def __init__(
        self,
        bench: Trainer,
        settings: RaceSettings,
        training: TrainingSettings,
        count: int,
        ripen: Callable[[GrowingNetwork, float], None],
        price: Callable[[Growable], float],
        *,
        by_trend: bool = False,
    ) -> None:
        self.bench = bench
        self.settings = settings
        self.training = training
        self.count = count
        self.ripen = ripen
        self.price = price
        self.by_trend = by_trend

    def places(self, task: SampleTask, part: int = 1) -> NDArray[np.int64]:
        """Indices of the samples that judge, or of one of so many parts of them."""
        return places(task, SPLIT, math.ceil(self.settings.samples / part))

    def no_race(self) -> str:
        """Why there is no race whatever the networks cost; empty where there may be one."""
        budget = self.training.budget
        if not self.settings.share:
            return NOT_WANTED
        if budget.flops is None or any(one is not None for one in (budget.steps, budget.tokens, budget.seconds)):
            return NO_FLOPS
        return ""

    def no_room(self, allowed: float) -> str:
        """The reason for no race in so many FLOPs."""
        return NO_ROOM.format(max(allowed, 0.0), self.settings.least)

    def allowed(self, before_next: float, spent: float) -> float:
        """FLOPs of one race: its part of the share, and no more than there are until the next choice."""
        budget = self.training.budget.flops
        if budget is None:
            return 0.0
        return min(self.settings.share * budget / self.count, before_next * budget - spent)

    def changed(
        self, zoo: GrowingNetwork, border: Branch, change: Callable[[GrowingNetwork], None]
    ) -> tuple[GrowingNetwork, Branch]:
        """A changed copy of the network, and the position of its training."""
        copy = spare_of(zoo, self.bench)
        change(copy)
        branch = self.bench.branch()
        self.bench.back_to(border)
        return copy, branch

    def enter(self, entrant: Entrant, copy: tuple[GrowingNetwork, Branch], spent: float, batches: Batches) -> None:
        """Give an entrant its network, after so many FLOPs."""
        zoo, branch = copy
        budget = self.training.budget.flops
        assert budget is not None, "it races in FLOPs"
        entrant.branch = branch.at(spent)
        entrant.side = Side(zoo, entrant.branch.snapshot, self.ripen)
        entrant.side.count(self.bench, batches, spent / budget + MOMENT)

    def plan(self, racing: Sequence[Entrant], samples: int, allowed: float) -> Heat | None:
        """The plan of a race in so many FLOPs; None where they have no room for one rung."""
        sides = [entrant.begun[0] for entrant in racing]
        return plan_race(
            [side.flops for side in sides],
            [self._looks(0) * samples * self.price(side.zoo.structure) for side in sides],
            allowed,
            self.settings.least,
        )

    def run(
        self, racing: Sequence[Entrant], heat: Heat, batches: Batches, task: SampleTask
    ) -> tuple[Entrant | None, float]:
        """The winner, None where none could be trained, and FLOPs of all steps and judgements."""
        chosen, judged, judging = list(racing), 0.0, self.places(task)
        for number in range(heat.rungs):
            for entrant in chosen:
                judged += self._rung(entrant, heat.amount, batches, task, judging)
                if self.by_trend:
                    self._extrapolate(entrant)
            last = number == heat.rungs - 1
            kept = survivors(self._scores(chosen), len(chosen) if last else left_after(len(chosen)))
            chosen = [chosen[place] for place in kept]
        order = ranked(self._scores(chosen))
        return chosen[order[0]] if order else None, judged + math.fsum(entrant.flops for entrant in racing)

    def _rung(
        self, entrant: Entrant, amount: float, batches: Batches, task: SampleTask, judging: NDArray[np.int64]
    ) -> float:
        """Train it on for this cost, and judge it; the FLOPs of the judgement."""
        side, _ = entrant.begun
        looks = self._looks(len(entrant.losses))
        judgement = len(judging) * self.price(side.zoo.structure)
        whole = int((amount - looks * judgement) / side.flops)
        loss, spent = None, 0.0
        for wanted in (whole // 2, whole - whole // 2) if looks > 1 else (whole,):
            complete = self._train(entrant, wanted, batches)
            loss, cost = self.loss(side.zoo, task, judging, entrant.begun[0].judged) if complete else (None, 0.0)
            spent += cost
            if loss is None:
                break
            entrant.looks.append((float(entrant.steps), loss))
        entrant.losses.append(loss)
        return spent

    def _train(self, entrant: Entrant, steps: int, batches: Batches) -> bool:
        """Train it on for so many steps; whether it came so far."""
        side, _ = entrant.begun
        before, begin = entrant.steps, side.snapshot.cursor.step
        entrant.result = train_side(self.bench, side, self.training, batches, steps, average=self.settings.average)
        entrant.side = replace(side, snapshot=entrant.result.snapshot)
        entrant.flops += (entrant.steps - before) * side.flops
        return entrant.result.steps == begin + steps

    def _looks(self, rung: int) -> int:
        """Number of judgements of a network in a rung: a trend needs one more in the first."""
        return 2 if self.by_trend and not rung else 1

    def _extrapolate(self, entrant: Entrant) -> None:
        """The loss to which its fall leads in what is left of the budget."""
        side, branch = entrant.begun
        budget = self.training.budget.flops
        assert budget is not None, "it races in FLOPs"
        total = (budget - branch.snapshot.cursor.flops) / side.flops
        entrant.expected = None if entrant.losses[-1] is None else expected_loss(entrant.looks, total)

    def _scores(self, entrants: Sequence[Entrant]) -> list[float | None]:
        """What decides, lower is better; None for a network that could not be trained."""
        return [entrant.expected if self.by_trend else entrant.losses[-1] for entrant in entrants]

    def loss(
        self, zoo: GrowingNetwork, task: SampleTask, judging: NDArray[np.int64], network: Network | None = None
    ) -> tuple[float | None, float]:
        """Mean loss in nats on these samples, None where it is not finite, and the FLOPs of that.

        Args:
            zoo: The network that is judged.
            task: Task with the split ``architecture``.
            judging: Indices of the samples.
            network: The same network with other weights, to be judged in its place; None for none.
        """
        losses = sample_losses(
            zoo.network if network is None else network,
            task,
            judging,
            batch_size=max(32, self.training.batch_size),
            precision=self.bench.precision,
        )
        mean = float(np.nanmean(losses))
        return mean if math.isfinite(mean) else None, len(judging) * self.price(zoo.structure)
