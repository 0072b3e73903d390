"""Evolution of routes: tables from symbols to layers are the genomes, and each is judged by a short training.

The loss of a network under its table, on samples that are neither for training nor for choosing or testing models, is
what an algorithm of ``evodevo.search`` minimises. Where a sample goes is decided by the table alone, so that no
gradient has to find it; that is left to variation and selection.

Source: docs/spec/h_model.md#evolution-of-routes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from evodevo.experiments.kept_weights import KeptWeights
from evodevo.experiments.racing.race import batches_from
from evodevo.experiments.trainer import Trainer
from evodevo.h_model.cost import h_model_cost
from evodevo.h_model.model import HModel, as_h_model
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.routes.genome import RoutesGenome
from evodevo.h_model.routes.settings import RouteSearchSettings
from evodevo.h_model.routes.space import space_of
from evodevo.h_model.spec import HModelStructure, imposed
from evodevo.randomness import generator
from evodevo.search.base import Proposal, Scored, SpaceExhausted
from evodevo.tasks.base import Split
from evodevo.tasks.held.back import with_architecture_split
from evodevo.training.loop import TrainingResult
from evodevo.training.settings import Budget


@dataclass(frozen=True)
class Tried:
    """A table that has been tried.

    Attributes:
        genome: The table.
        parent: Number of its parent among those tried; None where it was drawn.
        loss: Loss by which it was judged, in nats; None where its training failed.
        steps: Steps of training behind its weights, those of its ancestors included.
        weights: Key of its weights; None where its training failed.
    """

    genome: RoutesGenome
    parent: int | None
    loss: float | None
    steps: int
    weights: str | None


class RouteSearch:
    """One search, the first stages of a training.

    Args:
        bench: Trainer of the procedure.
        settings: Settings of the search.
        structure: Structure of the H-Model whose layers the routes lead through.

    Attributes:
        space: Space of the tables.
        tried: All tables so far, in order.
        weights: Weights of the networks that somebody may go on with.
        result: Result of the last short training; None before the first.

    Raises:
        UsageError: A slot that is given twice, or hidden layers that are disabled.
    """

    def __init__(self, bench: Trainer, settings: RouteSearchSettings, structure: HModelStructure) -> None:
        self.bench = bench
        self.settings = settings
        self.structure = structure
        self.task = with_architecture_split(bench.task) if settings.judged_by == "architecture" else bench.task
        self.space = space_of(settings, structure)
        self.tried: list[Tried] = []
        self.weights = KeptWeights(bench, "weights of a search for routes")
        self.result: TrainingResult | None = None

    def run(self) -> Tried | None:
        """The best table; None where every training failed. Tables that have been tried are not tried again."""
        algorithm = self.settings.create()
        state, known = algorithm.start(), set[str]()
        for generation in range(self.settings.generations):
            count = algorithm.offspring if generation else self.settings.population
            try:
                proposals = algorithm.ask(state, self.space, partial(self._draw, generation), count, known.__contains__)
                exhausted = False
            except SpaceExhausted as end:
                proposals, exhausted = end.proposals, True
            known |= {self.space.hash(proposal.genome) for proposal in proposals}
            scored = []
            for proposal in proposals:
                number = len(self.tried)
                self.tried.append(self._try(number, proposal))
                loss = self.tried[-1].loss
                scored.append(Scored(str(number), proposal.genome, None if loss is None else (loss,)))
                # Who may have children, who is as old as these, and the best one, with which the training goes on.
                living = {int(one.id) for one in state.population} | {int(one.id) for one in scored}
                self._hold(living)
            state = algorithm.tell(state, scored)
            if exhausted:
                break
        best = self.best()
        self.weights.hold([] if best is None or best.weights is None else [best.weights])
        return best

    def best(self) -> Tried | None:
        """The table with the lowest loss so far; of equal ones the first."""
        judged = [one for one in self.tried if one.loss is not None]
        return min(judged, key=lambda one: one.loss or 0.0, default=None)

    def begin(self, network: HModel, found: Tried) -> None:
        """Give a network of the same layers, with or without a router, the weights of a tried one; the search ends."""
        assert found.weights is not None, "its training did not fail"
        self.weights.give(network, found.weights, strict=False)
        self.weights.hold([])

    def to_json(self) -> list[dict[str, Any]]:
        """All tables that have been tried, for the record."""
        return [{"routes": self.space.print(one.genome), "parent": one.parent, "loss": one.loss} for one in self.tried]

    # Within

    def _draw(self, generation: int, slot: int, purpose: str) -> np.random.Generator:
        return generator(self.bench.seed, "routes", generation, slot, purpose)

    def _try(self, number: int, proposal: Proposal) -> Tried:
        """Train for a while under a table, and judge."""
        parent = int(proposal.parents[0]) if proposal.parents else None
        donor = self.tried[parent] if parent is not None and self.settings.inherit else None
        routed = imposed(self.structure, proposal.genome.structure(self.settings.input))
        network = as_h_model(self.bench.build(HModelNetwork(structure=routed)))
        assert network is not None
        before = 0
        if donor is not None and donor.weights is not None:
            self.weights.give(network, donor.weights)
            before = donor.steps
        # A schedule that falls would end in a training that is not over.
        optimizer = self.bench.training.optimizer.model_copy(update={"floor": 1.0})
        budget = Budget(steps=self.settings.steps)
        training = self.bench.training.model_copy(update={"budget": budget, "optimizer": optimizer})
        result = self.bench.train(
            network,
            training=training,
            task=self.task,
            batch_at=batches_from(self.bench, self.task, before),
            watched=False,
        )
        self.result = result
        loss = self._judged(number, network) if result.state == "finished" else None
        weights = None if loss is None else self.weights.keep(f"routes {number}", network)
        return Tried(proposal.genome, parent, loss, before + self.settings.steps, weights)

    def _judged(self, number: int, network: HModel) -> float | None:
        split: Split = self.settings.judged_by
        samples = min(self.settings.samples, self.task.count(split))
        forward = h_model_cost(network.structure, inputs=self.task.inputs, outputs=self.task.outputs)
        self.bench.spend(f"judged: routes {number}", samples * forward.executed_flops)

        def compute() -> float | None:
            loss = self.bench.measure(network, split, samples=samples, task=self.task).loss
            return loss if math.isfinite(loss) else None

        loss: float | None = self.bench.once(f"judged: routes {number}", compute)
        return loss

    def _hold(self, living: set[int]) -> None:
        """Only the weights that somebody may go on with are kept."""
        best = self.best()
        held = {self.tried[number].weights for number in living if self.settings.inherit}
        held |= {best.weights} if best is not None else set()
        self.weights.hold(key for key in held if key is not None)
