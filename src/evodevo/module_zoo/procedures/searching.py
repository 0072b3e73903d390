"""The common part of searches over zoos: one budget for search and training, and an evaluation on neither validation
nor test samples (docs/spec/architect_thyself.md#splits).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from evodevo.experiments.checkpoint_selection import LOWER_IS_BETTER, settle, value_of
from evodevo.experiments.measure import NetworkMeasurement
from evodevo.experiments.racing.account import SearchAccount
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.procedures.search_settings import check_budget, zoo_of
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.build import build_network
from evodevo.tasks.base import SampleTask
from evodevo.tasks.held.back import with_architecture_split
from evodevo.training.loop import TrainingResult
from evodevo.training.settings import TrainingSettings

DEFAULT_METRIC = "auc"


class PoolSearch:
    """A search, and the training of its result, within the budget of the bench.

    Args:
        bench: trainer of the procedure.
        share: share of the budget that the search may use, 0 to 1.
        samples: number of samples of the architecture split by which a network is judged.
        trainings: number of trainings before the last one.
        data: task with an architecture split that the search uses; that of the bench if left out.

    Attributes:
        task: task with an architecture split; the search trains on its training samples.
        structure: structure of the arm.

    Raises:
        UsageError: the arm is no zoo, or its budget is too small.
    """

    def __init__(
        self, bench: Trainer, share: float, samples: int, trainings: int, data: SampleTask | None = None
    ) -> None:
        self.bench = bench
        self._account = SearchAccount(bench, share)
        self.share = share
        self.samples = samples
        self.trainings = trainings
        self.structure = zoo_of(bench.arm)
        self.task = with_architecture_split(bench.task) if data is None else data
        check_budget(bench.training, share, trainings)

    def build(self, structure: ZooStructure, seed: int | None = None) -> ModuleZoo:
        """A network over the task, initialised by the bench's seed if none is given."""
        task, seed = self.bench.task, self.bench.seed if seed is None else seed
        network = build_network(ModuleZooNetwork(structure=structure), task.inputs, task.outputs, seed)
        return network.to(self.bench.precision.device)

    def only(self, *ids: str) -> ZooStructure:
        """The arm's zoo with these modules alone."""
        kept = tuple(module for module in self.structure.modules if module.id in ids)
        return self.structure.model_copy(update={"modules": kept, "disabled": ()})

    def settings(self) -> TrainingSettings:
        """Settings of one training of the search: its part of the search's share."""
        budget, part = self.bench.training.budget, self.share / self.trainings
        return self._account.limited(
            steps=None if budget.steps is None else max(1, int(budget.steps * part)),
            tokens=None if budget.tokens is None else max(self.bench.training.batch_size, int(budget.tokens * part)),
            seconds=None if budget.seconds is None else budget.seconds * part,
            flops=None if budget.flops is None else budget.flops * part,
        )

    def judge(self, name: str, network: ModuleZoo) -> float | None:
        """Score of a network on the architecture split, higher is better; None where that is no number.

        Computed once, also over interruptions; the seconds that it took count against the budget.
        """
        answer = self.bench.once(name, lambda: self._judged(network))
        value = answer["value"]
        return None if value is None else float(value)

    def finish(self, structure: ZooStructure, facts: Mapping[str, Any]) -> Trained:
        """Train what was found from scratch with what is left of the budget."""
        network = self.build(structure)
        searched = self.bench.steps
        result = self.bench.train(network, training=self.rest())
        return self.answer(
            network, result, {"chosen": [module.id for module in structure.modules], "steps": searched, **facts}
        )

    def answer(self, network: ModuleZoo, result: TrainingResult, facts: Mapping[str, Any]) -> Trained:
        """Result of the procedure; its facts have the entry ``search``."""
        return Trained(network, result, extra={"search": dict(facts)})

    def try_each(self, structures: Mapping[str, ZooStructure], options: Mapping[str, Any]) -> Trained:
        """Train each for its part of the search, judge it, and train the best one with the rest; ties go to the first.

        Args:
            structures: name -> candidate.
            options: facts beside those of the search.
        """
        values: dict[str, float | None] = {}
        result: TrainingResult | None = None
        network = self.build(next(iter(structures.values())))
        for name, structure in structures.items():
            network = self.build(structure)
            result = self.bench.train(network, training=self.settings(), task=self.task, watched=False)
            values[name] = self.judge(f"judged: {name}", network) if result.state == "finished" else None
        known = {name: value for name, value in values.items() if value is not None}
        facts = {"tried": len(structures), "values": values, **options}
        if not known:
            assert result is not None, "there is a candidate"
            return self.answer(network, result, facts)
        best = max(known, key=lambda name: known[name])
        return self.finish(structures[best], {**facts, "best": best})

    def _judged(self, network: ModuleZoo) -> dict[str, Any]:
        begin = time.monotonic()
        measured = self.bench.measure(network, "architecture", samples=self.samples, task=self.task)
        selection = self.bench.settings.select
        value = fitness(measured, DEFAULT_METRIC if selection is None else selection.metric)
        return {"value": value if math.isfinite(value) else None, "seconds": time.monotonic() - begin}

    def rest(self) -> TrainingSettings:
        """Settings of the last training: what the search has left of the budget."""
        return self._account.rest()


def fitness(measured: NetworkMeasurement, metric: str) -> float:
    """The metric, or what takes its place where it is not defined; higher is better."""
    settled, _ = settle(measured, metric)
    value = value_of(measured, settled)
    return -value if settled in LOWER_IS_BETTER else value
