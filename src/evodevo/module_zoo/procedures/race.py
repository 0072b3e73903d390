"""The procedure ``race``: what a zoo begins with is decided by short trainings, and the winner goes on.

First each module alone, then pairs with the best two and the best one itself: two heats of successive halving
(``race_plan``), on the same batches, each network with encoders of its own, judged by their loss on the architecture
split. Steps and judgements count against the budget. The winner keeps its weights, and is trained on with the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.module_zoo.cost import zoo_cost
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.procedures.race_plan import Heat, plan_heat, survivors
from evodevo.module_zoo.procedures.search_settings import RaceOptions
from evodevo.module_zoo.procedures.searching import PoolSearch
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import validate
from evodevo.tasks.inputs import Batch
from evodevo.training.loop import TrainingResult
from evodevo.training.parts import load_part, save_part
from evodevo.training.settings import Budget, TrainingSettings

FINALISTS = 2
"""Modules that pairs are made with."""


def train_race(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """Modules alone, then pairs, in short trainings; the best network goes on with the rest of the budget.

    Facts, under ``search``: ``tried``, number of networks; ``chosen``, ids of the modules; ``steps`` of the race;
    ``share`` of the budget that it used up; ``heats``, each with its networks, those that the budget had no room for
    (``left_out``), and ``rungs``: steps, and loss of each network in nats. Where the budget has no room for two
    networks, the whole zoo is trained.

    Raises:
        UsageError: Wrong options, no zoo of at least two modules, or a budget in seconds alone.
    """
    return _Race(bench, validate(RaceOptions, dict(options), what="options of race")).train()


@dataclass
class _Arm:
    """A network of the race.

    Attributes:
        ids: Modules.
        structure: Structure with these alone.
        cost: Cost of a training step, in the unit of the budget.
        weights: Key of its weights after the last rung; None before the first.
        loss: Loss after the last rung, in nats; None before the first, and where it cannot be trained.
    """

    ids: tuple[str, ...]
    structure: ZooStructure
    cost: float
    weights: str | None = None
    loss: float | None = None

    @property
    def name(self) -> str:
        return " + ".join(self.ids)


class _Race:
    """One run of the procedure."""

    def __init__(self, bench: Trainer, options: RaceOptions) -> None:
        self.bench = bench
        self.options = options
        self.search = PoolSearch(bench, options.share, options.samples, trainings=1)
        self.heats: list[dict[str, Any]] = []
        self.tried = 0
        self._offset = 0  # batches that arms have seen
        self._in_memory: dict[str, dict[str, Tensor]] = {}  # weights, where there is no pool
        budget, batch = bench.training.budget, bench.training.batch_size
        self._in_flops = budget.flops is not None
        steps = (budget.steps, None if budget.tokens is None else budget.tokens // batch)
        self._budget = budget.flops or float(min(amount for amount in steps if amount is not None))
        # A forward pass is a third of a step.
        self._judging = options.samples / (3 * batch) if self._in_flops else 0.0

    def train(self) -> Trained:
        race = self._budget * self.options.share
        singles = [self._arm(module.id) for module in self.search.structure.live]
        best = self._heat(singles, race / 2, by_cost=True)
        if best:
            rest = race - self._used()
            best = self._heat(self._pairs(best, singles), rest, by_cost=False) or best
        return self._go_on(best[0] if best else None)

    def _pairs(self, best: Sequence[_Arm], singles: Sequence[_Arm]) -> list[_Arm]:
        """The best module alone, and pairs with the best ones, the more promising first."""
        ranked = sorted(singles, key=lambda arm: (arm.loss is None, arm.loss))
        pairs = {
            frozenset((one.ids[0], other.ids[0])): None
            for other in ranked
            for one in best[:FINALISTS]
            if one.ids != other.ids
        }
        return [best[0], *(self._arm(*pair) for pair in pairs)]

    def _arm(self, *ids: str) -> _Arm:
        structure = self.search.only(*ids)
        inputs, outputs, batch = self.bench.task.inputs, self.bench.task.outputs, self.bench.training.batch_size
        cost = zoo_cost(structure, inputs=inputs, outputs=outputs, batch=batch, mode="train").flops
        return _Arm(tuple(module.id for module in structure.modules), structure, cost if self._in_flops else 1.0)

    def _heat(self, arms: Sequence[_Arm], budget: float, *, by_cost: bool) -> list[_Arm]:
        """Successive halving; those that are left, best first; empty where there is no room for it."""
        planned = plan_heat([arm.cost for arm in arms], budget, self.options.least, self._judging, by_cost=by_cost)
        if planned is None:
            return []
        chosen = [arms[place] for place in planned.arms]
        facts: dict[str, Any] = {
            "arms": [arm.name for arm in chosen],
            "left_out": [arm.name for arm in arms if arm not in chosen],
            "rungs": [],
        }
        self.heats.append(facts)
        self.tried += sum(arm.weights is None for arm in chosen)
        for number in range(planned.rungs):
            facts["rungs"].append(self._rung(chosen, planned, number))
            keep = len(chosen) if number == planned.rungs - 1 else max(FINALISTS, math.ceil(len(chosen) / 2))
            chosen = [chosen[place] for place in survivors([arm.loss for arm in chosen], keep)]
            self._hold(chosen)
        return sorted(chosen, key=lambda arm: arm.loss or 0.0)

    def _rung(self, arms: Sequence[_Arm], heat: Heat, number: int) -> dict[str, Any]:
        """Train and judge each; the facts."""
        steps = heat.steps([arm.cost for arm in arms], self._judging)
        training = self._training(Budget(steps=steps), floor=1.0)
        for arm in arms:
            network = self._build(arm)
            result = self.bench.train(
                network, training=training, task=self.search.task, batch_at=self._batches(), watched=False
            )
            name = f"heat {len(self.heats)}, rung {number + 1}: {arm.name}"
            arm.loss = self._judged(name, arm, network) if result.state == "finished" else None
            arm.weights = self._keep(name, network)
            self._hold(arms)
        self._offset += steps
        return {"steps": steps, "losses": {arm.name: arm.loss for arm in arms}}

    def _go_on(self, winner: _Arm | None) -> Trained:
        """Train the winner with what is left; the whole zoo where there was no race."""
        used = self._used() / self._budget
        searched = self.bench.steps
        whole = self.search.structure
        network = self.search.build(whole) if winner is None else self._build(winner)
        chosen = [module.id for module in whole.live] if winner is None else list(winner.ids)
        self._hold([])
        result: TrainingResult = self.bench.train(network, training=self.search.rest(), batch_at=self._batches(True))
        facts = {"tried": self.tried, "chosen": chosen, "steps": searched, "share": used, "heats": self.heats}
        return self.search.answer(network, result, facts)

    # Within

    def _used(self) -> float:
        return self.bench.flops if self._in_flops else float(self.bench.steps)

    def _training(self, budget: Budget, floor: float) -> TrainingSettings:
        optimizer = self.bench.training.optimizer.model_copy(update={"floor": floor})
        return self.bench.training.model_copy(update={"budget": budget, "optimizer": optimizer})

    def _batches(self, last: bool = False) -> Any:
        """Batches from where the rung before ended: the same for all arms of a rung."""
        bench, offset = self.bench, self._offset
        task = bench.task if last else self.search.task

        def batch_at(step: int) -> Batch:
            batch: Batch = task.batch("train", bench.seed, step + offset, bench.training.batch_size)
            return batch

        return batch_at

    def _build(self, arm: _Arm) -> ModuleZoo:
        """The network as the last rung left it; where its next stage had begun, a checkpoint has its weights."""
        network = self.search.build(arm.structure)
        if arm.weights is not None and not self.bench.recalls:
            network.load_state_dict(self._weights(arm.weights))
        return network

    def _judged(self, name: str, arm: _Arm, network: ModuleZoo) -> float | None:
        samples = min(self.options.samples, self.search.task.count("architecture"))
        if self._in_flops:
            forward = arm.cost / (3 * self.bench.training.batch_size)
            self.bench.spend(f"judged: {name}", samples * forward)

        def compute() -> float | None:
            loss = self.bench.measure(network, "architecture", samples=samples, task=self.search.task).loss
            return loss if math.isfinite(loss) else None

        loss: float | None = self.bench.once(f"judged: {name}", compute)
        return loss

    def _keep(self, name: str, network: ModuleZoo) -> str:
        pool, tensors = self.bench.pool, network.state_dict()
        if pool is None:
            self._in_memory[name] = {key: value.clone() for key, value in tensors.items()}
            return name
        return str(self.bench.once(f"weights: {name}", lambda: save_part(pool, tensors)))

    def _weights(self, key: str) -> dict[str, Tensor]:
        pool = self.bench.pool
        return self._in_memory[key] if pool is None else load_part(pool, key, "weights of a race")

    def _hold(self, arms: Sequence[_Arm]) -> None:
        """Only the weights that some arm goes on with are kept."""
        held = {arm.weights for arm in arms if arm.weights is not None}
        if self.bench.pool is None:
            self._in_memory = {key: value for key, value in self._in_memory.items() if key in held}
        else:
            self.bench.held = sorted(held)
