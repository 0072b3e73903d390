"""A race, and the procedure ``race``: short trainings decide what a zoo begins with, and the winner goes on.

First each module alone, and no module where that is wanted, then pairs with the best two where the modules leave them
a share: heats of successive halving (``race_plan``) at equal cost, from the same first batch on, each network with
encoders of its own, judged by their loss on the architecture split, as it is or as its fall leads to. Steps and
judgements count against the budget. The winner keeps its weights, and is trained on with the rest.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evodevo.errors import UsageError
from evodevo.experiments.kept_weights import KeptWeights
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.procedures.race_plan import (
    Heat,
    expected_loss,
    left_after,
    plan_first,
    plan_second,
    ranked,
    steps_for,
    survivors,
)
from evodevo.module_zoo.procedures.room import IDENTITY, RaceRoom, alone, network_of, step_flops, under_limit
from evodevo.module_zoo.procedures.search_settings import RaceOptions, training_after, without_race
from evodevo.module_zoo.procedures.searching import PoolSearch
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import validate
from evodevo.tasks.base import SampleTask
from evodevo.tasks.inputs import Batch
from evodevo.training.loop import TrainingResult
from evodevo.training.settings import Budget, TrainingSettings
from evodevo.training.step_timer import seconds_of_steps

FINALISTS = 2
"""Modules that pairs are made with."""


def train_race(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Modules alone, then pairs, in short trainings; the best network goes on with the rest of the budget.

    Facts, under ``search``: ``tried``, number of networks; ``chosen``, ids of the modules; ``steps`` of the race;
    ``share`` of the budget that it used up; ``heats``, each with its networks, those that the budget had no room for
    (``left_out``), and ``rungs``: steps and loss (in nats) of each network, and the ``expected`` loss in the end where
    that decides. Where the budget has no room for two networks, none races (``RaceOptions.otherwise``).

    Raises:
        UsageError: Wrong options, or no zoo of at least two modules.
    """
    settings = validate(RaceOptions, dict(options), what="options of race")
    bench.training = training_after(bench.training, settings.begin)
    race = ModuleRace(bench, settings)
    raced = race.run()
    batches = batches_from(bench, bench.task, raced.trained)
    result: TrainingResult = bench.train(raced.network, training=raced.rest, batch_at=batches)
    return race.search.answer(raced.network, result, raced.facts)


@dataclass(frozen=True)
class Raced:
    """The outcome of a race.

    Attributes:
        network: The winner with the weights that the race gave it; a new one where there was no room for two.
        trained: Number of steps of the winner so far, which is the number of its next batch.
        rest: Settings of the training that follows: what is left of the budget.
        facts: JSON; see ``train_race``.
    """

    network: ModuleZoo
    trained: int
    rest: TrainingSettings
    facts: dict[str, Any]


@dataclass
class _Arm:
    """A network of the race.

    Attributes:
        ids: Modules.
        structure: Structure with these alone.
        cost: Cost of a training step, in the unit of the budget.
        weights: Key of its weights after the last rung; None before the first.
        loss: Loss after the last rung, in nats; None before the first, and where it cannot be trained.
        steps: Number of steps so far.
        looks: Its losses so far: (number of steps, loss in nats).
        score: What it is judged by, lower is better: the loss, or the expected one; None where there is no loss.
    """

    ids: tuple[str, ...]
    structure: ZooStructure
    cost: float
    weights: str | None = None
    loss: float | None = None
    steps: int = 0
    looks: list[tuple[int, float]] = field(default_factory=list)
    score: float | None = None

    @property
    def name(self) -> str:
        return " + ".join(self.ids)


def _order(arm: _Arm) -> tuple[float, float] | None:
    """By score, and where no loss is expected to remain, by loss; None for a network that cannot be trained."""
    return None if arm.score is None or arm.loss is None else (arm.score, arm.loss)


def batches_from(bench: Trainer, task: SampleTask, first: int) -> Callable[[int], Batch]:
    """The training batches from one on: a network goes on where it was, and all begin with the same."""

    def batch_at(step: int) -> Batch:
        batch: Batch = task.batch("train", bench.seed, step + first, bench.training.batch_size)
        return batch

    return batch_at


class ModuleRace:
    """One race: the first stages of a training.

    Args:
        bench: Trainer of the procedure.
        options: Share of the budget, samples and shortest rung.
        partial: Whether it is run where the budget has no room for every module alone; the dearest are left out then.
        data: Task with an architecture split that it uses; that of the bench if left out.

    Attributes:
        search: What it has in common with other searches.
        weights: Weights of its networks.

    Raises:
        UsageError: No zoo, or a budget that is too small; while it runs, nothing that may race under its limit.
    """

    def __init__(
        self, bench: Trainer, options: RaceOptions, *, partial: bool = True, data: SampleTask | None = None
    ) -> None:
        self.bench = bench
        self.options = options
        self.partial = partial
        self.search = PoolSearch(bench, options.share, options.samples, trainings=1, data=data)
        self.heats: list[dict[str, Any]] = []
        self.tried = 0
        self.weights = KeptWeights(bench, "weights of a race")
        self._room = RaceRoom.of(bench.training, options)
        self._in_flops, self._in_seconds = (self._room.unit == unit for unit in ("flops", "seconds"))
        self._budget, self._most_steps = self._room.budget, self._room.most_steps
        self._by_trend = options.judge == "trend"

    def run(self) -> Raced:
        """Let the networks race; the steps that follow are the caller's."""
        least, judging = self.options.least, self._judging_of(0)  # no rung has more
        singles = self._under_limit([self._arm(name) for name in alone(self.search.structure, self.options)])
        if not singles:
            raise UsageError(f"no module alone is under the {self.options.flops:,.6g} FLOPs of the race; allow more.")
        race = self._room.race(self.options, [arm.cost for arm in singles])
        first = plan_first([arm.cost for arm in singles], race * self.options.singles, least, judging)
        if first is not None and not self.partial and len(first.arms) < len(singles):
            first = None
        best = [] if first is None else self._heat(singles, first)
        if first is not None and best and self.options.singles < 1:
            pairs = self._pairs(best, singles)
            # Recorded: after an interruption the account has judgements of the second heat already.
            used: float = self.bench.once("used by the first heat", self._used)
            second = plan_second([arm.cost for arm in pairs], race - used, first, least, judging)
            best += [] if second is None else self._heat(pairs, second, beside=best[:1])
        if not best and self.options.flops is not None:
            raise UsageError(
                f"the budget has no room for a race of two networks under {self.options.flops:,.6g} FLOPs."
            )
        return self._outcome(best[ranked([_order(arm) for arm in best])[0]] if best else None)

    def _under_limit(self, arms: list[_Arm]) -> list[_Arm]:
        """Those whose FLOPs of one sample are under the limit, where there is one."""
        under = under_limit({arm.name: arm.structure for arm in arms}, self.options, self.bench.task)
        return [arm for arm in arms if arm.name in under]

    def _pairs(self, best: Sequence[_Arm], singles: Sequence[_Arm]) -> list[_Arm]:
        """Pairs with the best modules, the more promising first: by the loss of the other one, then by cost."""
        singles, best = ([arm for arm in some if arm.ids != (IDENTITY,)] for some in (singles, best))
        others = sorted(singles, key=lambda arm: (arm.score is None, arm.score, arm.cost))
        pairs = {
            frozenset((one.ids[0], other.ids[0])): None
            for other in others
            for one in best[:FINALISTS]
            if one.ids != other.ids
        }
        return self._under_limit([self._arm(*pair) for pair in pairs])

    def _arm(self, *ids: str) -> _Arm:
        structure = network_of(self.search.structure, ids)
        flops = step_flops(structure, self.bench.task, self.bench.training.batch_size)
        arm = _Arm(tuple(module.id for module in structure.modules), structure, flops)
        if not self._in_flops:
            arm.cost = self._timed(arm) if self._in_seconds else 1.0
        return arm

    def _timed(self, arm: _Arm) -> float:
        """Seconds of a training step, measured once; what that takes counts against the budget."""

        def measure() -> dict[str, float]:
            bench = self.bench
            times = seconds_of_steps(
                self.search.build(arm.structure),
                batches_from(bench, self.search.task, 0),
                bench.precision,
                bench.training.optimizer,
            )
            return {"value": min(times), "seconds": math.fsum(times)}

        return float(self.bench.once(f"seconds of a step: {arm.name}", measure)["value"])

    def _heat(self, arms: Sequence[_Arm], planned: Heat, beside: Sequence[_Arm] = ()) -> list[_Arm]:
        """Successive halving; those that are left, best first. The weights of those ``beside`` are kept, too."""
        chosen = [arms[place] for place in planned.arms]
        facts: dict[str, Any] = {
            "arms": [arm.name for arm in chosen],
            "left_out": [arm.name for place, arm in enumerate(arms) if place not in planned.arms],
            "rungs": [],
        }
        self.heats.append(facts)
        self.tried += len(chosen)
        for number in range(planned.rungs):
            self._rung(chosen, planned.amount, number, beside)
            facts["rungs"].append({arm.name: self._told(arm) for arm in chosen})
            last = number == planned.rungs - 1
            kept = survivors([_order(arm) for arm in chosen], len(chosen) if last else left_after(len(chosen)))
            chosen = [chosen[place] for place in kept]
            self._hold([*chosen, *beside])
        return [chosen[place] for place in ranked([_order(arm) for arm in chosen])]

    def _rung(self, arms: Sequence[_Arm], amount: float, number: int, beside: Sequence[_Arm]) -> None:
        """Train each on for the same cost, and judge it."""
        for arm in arms:
            steps = steps_for(amount, arm.cost, self._judging_of(number))
            network = self._build(arm)
            name = f"heat {len(self.heats)}, rung {number + 1}: {arm.name}"
            half = steps // 2 if self._by_trend and number == 0 else 0
            result = self._train(arm, network, steps, amount, until=half or None)
            if result.state == "paused":
                self._look(f"{name}, half of it", arm, network, half)
                result = self._train(arm, network, steps, amount)
            arm.steps += result.steps
            self._look(name, arm, network, arm.steps, finished=result.state == "finished")
            arm.weights = self.weights.keep(name, network)
            self._hold([*arms, *beside])

    def _train(
        self, arm: _Arm, network: ModuleZoo, steps: int, amount: float, until: int | None = None
    ) -> TrainingResult:
        """Train it for so many steps more, or until it has made some of them; in seconds no longer than planned."""
        budget = Budget(steps=steps, seconds=amount if self._in_seconds else None)
        return self.bench.train(
            network,
            training=self._training(budget, floor=1.0),
            task=self.search.task,
            batch_at=batches_from(self.bench, self.search.task, arm.steps),
            watched=False,
            until=until,
        )

    def _look(self, name: str, arm: _Arm, network: ModuleZoo, steps: int, *, finished: bool = True) -> None:
        """Judge a network that has made so many steps; one that cannot be trained has no loss."""
        arm.loss = self._judged(name, arm, network) if finished else None
        if arm.loss is not None:
            arm.looks.append((steps, arm.loss))
        if arm.loss is None or not self._by_trend:
            arm.score = arm.loss
        else:
            total = self._budget / arm.cost
            arm.score = expected_loss(arm.looks, total if self._most_steps is None else min(total, self._most_steps))

    def _told(self, arm: _Arm) -> dict[str, Any]:
        return {"steps": arm.steps, "loss": arm.loss} | ({"expected": arm.score} if self._by_trend else {})

    def _outcome(self, winner: _Arm | None) -> Raced:
        unraced = without_race(self.search.structure, self.options.otherwise)
        network = self.search.build(unraced) if winner is None else self._build(winner)
        self._hold([])
        # Recorded: after an interruption the account has what was spent later.
        used: float = self.bench.once("used by the race", self._used)
        facts = {
            "tried": self.tried,
            "chosen": [module.id for module in unraced.live] if winner is None else list(winner.ids),
            "steps": self.bench.steps,
            "share": used / self._budget,
            "heats": self.heats,
        }
        rest = self.search.rest(used if self._in_flops else None)
        return Raced(network, 0 if winner is None else winner.steps, rest, facts)

    # Within

    def _judging_of(self, number: int) -> float:
        """Cost of judging a network in a rung, in steps of its own; a trend needs one look more in the first."""
        return self._room.judging_of(number, self.options)

    def _used(self) -> float:
        if self._in_seconds:
            return self.search.used_seconds
        return self.bench.flops if self._in_flops else float(self.bench.steps)

    def _training(self, budget: Budget, floor: float) -> TrainingSettings:
        optimizer = self.bench.training.optimizer.model_copy(update={"floor": floor})
        return self.bench.training.model_copy(update={"budget": budget, "optimizer": optimizer})

    def _build(self, arm: _Arm) -> ModuleZoo:
        """The network as the last rung left it; where its next stage had begun, a checkpoint has its weights."""
        network = self.search.build(arm.structure)
        if arm.weights is not None:
            self.weights.give(network, arm.weights)
        return network

    def _judged(self, name: str, arm: _Arm, network: ModuleZoo) -> float | None:
        samples = min(self.options.samples, self.search.task.count("architecture"))
        if self._in_flops:
            forward = arm.cost / (3 * self.bench.training.batch_size)
            self.bench.spend(f"judged: {name}", samples * forward)

        def compute() -> float | None:
            loss = self.bench.measure(network, "architecture", samples=samples, task=self.search.task).loss
            return loss if math.isfinite(loss) else None

        def timed() -> dict[str, float | None]:
            begin = time.perf_counter()
            return {"value": compute(), "seconds": time.perf_counter() - begin}

        told = self.bench.once(f"judged: {name}", timed if self._in_seconds else compute)
        loss: float | None = told["value"] if self._in_seconds else told
        return loss

    def _hold(self, arms: Sequence[_Arm]) -> None:
        """Only the weights that some arm goes on with are kept."""
        self.weights.hold(arm.weights for arm in arms if arm.weights is not None)
