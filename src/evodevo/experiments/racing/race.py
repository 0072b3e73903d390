"""A race: short trainings of several networks from the same first batch on, the best of which goes on.

Heats of successive halving (``plan``) at equal cost, judged by the loss on the architecture split, as it is or as its
fall leads to. Steps and judgements count against the budget. Who leads is told after each rung.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from evodevo.experiments.kept_weights import KeptWeights
from evodevo.experiments.racing.account import SearchAccount
from evodevo.experiments.racing.plan import Heat, expected_loss, left_after, ranked, steps_for, survivors
from evodevo.experiments.racing.room import RaceRoom, RaceTerms
from evodevo.experiments.racing.words import first_words, place_words, rung_words
from evodevo.experiments.trainer import Trainer
from evodevo.networks.base import Network
from evodevo.networks.spec import NetworkSpec
from evodevo.tasks.base import SampleTask
from evodevo.tasks.inputs import Batch
from evodevo.training.loop import TrainingResult
from evodevo.training.settings import Budget, TrainingSettings
from evodevo.training.step_timer import seconds_of_steps


@dataclass
class Racer:
    """A network of a race.

    Attributes:
        name: Its name in the facts, of which each is there once.
        network: The network as plain data.
        cost: Cost of a training step, in the unit of the budget.
        weights: Key of its weights after the last rung; None before the first.
        loss: Loss after the last rung, in nats; None before the first, and where it cannot be trained.
        steps: Number of steps so far.
        looks: Its losses so far: (number of steps, loss in nats).
        score: What it is judged by, lower is better: the loss, or the expected one; None where there is no loss.
    """

    name: str
    network: NetworkSpec
    cost: float
    weights: str | None = None
    loss: float | None = None
    steps: int = 0
    looks: list[tuple[int, float]] = field(default_factory=list)
    score: float | None = None

    @property
    def order(self) -> tuple[float, float] | None:
        """By score, and where no loss is expected to remain, by loss; None for a network that cannot be trained."""
        return None if self.score is None or self.loss is None else (self.score, self.loss)


Entrant = TypeVar("Entrant", bound=Racer)


def best_of(entrants: Sequence[Entrant]) -> Entrant | None:
    """The best of those that could be trained; None where none could."""
    order = ranked([entrant.order for entrant in entrants])
    return entrants[order[0]] if order else None


def batches_from(bench: Trainer, task: SampleTask, first: int) -> Callable[[int], Batch]:
    """The training batches from one on: a network goes on where it was, and all begin with the same."""

    def batch_at(step: int) -> Batch:
        batch: Batch = task.batch("train", bench.seed, step + first, bench.training.batch_size)
        return batch

    return batch_at


class TrainingRace(Generic[Entrant]):
    """A race, the first stages of a training.

    Args:
        bench: Trainer of the procedure.
        task: Task with an architecture split.
        terms: Share of the budget, samples and criterion.

    Attributes:
        heats: Facts of the heats so far: the networks (``arms``), those that there was no room for (``left_out``), and
            ``rungs``: steps and loss (in nats) of each network, and the ``expected`` loss where that decides.
        tried: Number of networks so far.
        room: The budget.
    """

    def __init__(self, bench: Trainer, task: SampleTask, terms: RaceTerms) -> None:
        self.bench = bench
        self.task = task
        self.terms = terms
        self.account = SearchAccount(bench, terms.share)
        self.heats: list[dict[str, Any]] = []
        self.tried = 0
        self.room = RaceRoom.of(bench.training, terms)
        self._weights = KeptWeights(bench, "weights of a race")
        self._in_flops, self._in_seconds = (self.room.unit == unit for unit in ("flops", "seconds"))
        self._by_trend = terms.judge == "trend"

    def cost_of(self, arm: Entrant) -> float:
        """Cost of a training step in the unit of the budget, where ``arm.cost`` is in FLOPs."""
        if self._in_flops:
            return arm.cost
        return self._timed(arm) if self._in_seconds else 1.0

    def heat(self, arms: Sequence[Entrant], planned: Heat, beside: Sequence[Entrant] = ()) -> list[Entrant]:
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
            self._rung(chosen, planned, number, beside)
            facts["rungs"].append({arm.name: self._told(arm) for arm in chosen})
            last = number == planned.rungs - 1
            kept = survivors([arm.order for arm in chosen], len(chosen) if last else left_after(len(chosen)))
            if chosen:
                self._tell_rung(chosen, planned, number, 0 if last else len(kept))
            chosen = [chosen[place] for place in kept]
            self.hold([*chosen, *beside])
        return [chosen[place] for place in ranked([arm.order for arm in chosen])]

    def build(self, arm: Entrant) -> Network:
        """The network as the last rung left it; where its next stage had begun, a checkpoint has its weights."""
        network = self.bench.build(arm.network)
        if arm.weights is not None:
            self._weights.give(network, arm.weights)
        return network

    def hold(self, arms: Sequence[Entrant]) -> None:
        """Only the weights that some arm goes on with are kept."""
        self._weights.hold(arm.weights for arm in arms if arm.weights is not None)

    def judging_of(self, number: int) -> float:
        """Cost of judging a network in a rung, in steps of its own; a trend needs one look more in the first."""
        return self.room.judging_of(number, self.terms)

    @property
    def used(self) -> float:
        """What the race has used up so far, in the unit of the budget."""
        if self._in_seconds:
            return self.account.used_seconds
        return self.bench.flops if self._in_flops else float(self.bench.steps)

    def rest(self, used: float) -> TrainingSettings:
        """Settings of the training that follows, where the race has used up so much."""
        return self.account.rest(used if self._in_flops else None)

    # Within

    def _timed(self, arm: Entrant) -> float:
        """Seconds of a training step, measured once; what that takes counts against the budget."""

        def measure() -> dict[str, float]:
            bench = self.bench
            times = seconds_of_steps(
                bench.build(arm.network), self._batches(arm, 0), bench.precision, bench.training.optimizer
            )
            return {"value": min(times), "seconds": math.fsum(times)}

        return float(self.bench.once(f"seconds of a step: {arm.name}", measure)["value"])

    def _batches(self, arm: Entrant, first: int) -> Callable[[int], Batch]:
        """The batches of an arm from one on."""
        return batches_from(self.bench, self.task, first)

    def _rung(self, arms: Sequence[Entrant], planned: Heat, number: int, beside: Sequence[Entrant]) -> None:
        """Train each on for the same cost, and judge it."""
        amount = planned.amount
        for place, arm in enumerate(arms, 1):
            steps = steps_for(amount, arm.cost, self.judging_of(number))
            network = self.build(arm)
            name = f"heat {len(self.heats)}, rung {number + 1}: {arm.name}"
            half = steps // 2 if self._by_trend and number == 0 else 0
            result = self._train(arm, network, steps, amount, until=half or None)
            if result.state == "paused":
                self._look(f"{name}, half of it", arm, network, half)
                result = self._train(arm, network, steps, amount)
            arm.steps += result.steps
            self._look(name, arm, network, arm.steps, finished=result.state == "finished")
            arm.weights = self._weights.keep(name, network)
            self.hold([*arms, *beside])
            if not number and len(self.heats) == 1 and place < len(arms) and best_of(arms) is arm:
                # The first rung is the longest, and nothing is on the screen before it.
                words = place_words(1, 1, planned.rungs)
                self.bench.tell(first_words(words, arm.name, self._told(arm), place, len(arms)))

    def _tell_rung(self, arms: Sequence[Entrant], planned: Heat, number: int, left: int) -> None:
        """Tell who leads; so many go on."""
        leader = best_of(arms)
        name, told = (None, {}) if leader is None else (leader.name, self._told(leader))
        place = place_words(len(self.heats), number + 1, planned.rungs)
        self.bench.tell(rung_words(place, name, told, left, len(arms)))

    def _train(
        self, arm: Entrant, network: Network, steps: int, amount: float, until: int | None = None
    ) -> TrainingResult:
        """Train it for so many steps more, or until it has made some of them; in seconds no longer than planned."""
        budget = Budget(steps=steps, seconds=amount if self._in_seconds else None)
        return self.bench.train(
            network,
            training=self._training(budget, floor=1.0),
            task=self.task,
            batch_at=self._batches(arm, arm.steps),
            watched=False,
            until=until,
        )

    def _look(self, name: str, arm: Entrant, network: Network, steps: int, *, finished: bool = True) -> None:
        """Judge a network that has made so many steps; one that cannot be trained has no loss."""
        arm.loss = self._judged(name, arm, network) if finished else None
        if arm.loss is not None:
            arm.looks.append((steps, arm.loss))
        if arm.loss is None or not self._by_trend:
            arm.score = arm.loss
        else:
            total, most = self.room.budget / arm.cost, self.room.most_steps
            arm.score = expected_loss(arm.looks, total if most is None else min(total, most))

    def _told(self, arm: Entrant) -> dict[str, Any]:
        return {"steps": arm.steps, "loss": arm.loss} | ({"expected": arm.score} if self._by_trend else {})

    def _training(self, budget: Budget, floor: float) -> TrainingSettings:
        optimizer = self.bench.training.optimizer.model_copy(update={"floor": floor})
        return self.bench.training.model_copy(update={"budget": budget, "optimizer": optimizer})

    def _judged(self, name: str, arm: Entrant, network: Network) -> float | None:
        samples = min(self.terms.samples, self.task.count("architecture"))
        if self._in_flops:
            forward = arm.cost / (3 * self.bench.training.batch_size)
            self.bench.spend(f"judged: {name}", samples * forward)

        def compute() -> float | None:
            loss = self.bench.measure(network, "architecture", samples=samples, task=self.task).loss
            return loss if math.isfinite(loss) else None

        def timed() -> dict[str, float | None]:
            begin = time.perf_counter()
            return {"value": compute(), "seconds": time.perf_counter() - begin}

        told = self.bench.once(f"judged: {name}", timed if self._in_seconds else compute)
        loss: float | None = told["value"] if self._in_seconds else told
        return loss
