"""The race that decides which backbone a growth begins with: short trainings of several, the best of which goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from evodevo.backbone.model import Backbone
from evodevo.backbone.network import BackboneNetwork
from evodevo.backbone.spec import BackboneStructure
from evodevo.experiments.racing.plan import plan_first
from evodevo.experiments.racing.race import Racer, TrainingRace, batches_from, best_of
from evodevo.experiments.trainer import Trainer
from evodevo.growth.backbone.records import BackboneRaceRecord
from evodevo.growth.backbone.spec import GrowthPlan, starts_of
from evodevo.growth.backbone.windows import cut_windows, forward_flops
from evodevo.growth.forks.budget import STEP
from evodevo.growth.forks.unit import amount_in_words
from evodevo.settings import validate
from evodevo.tasks.base import SampleTask
from evodevo.tasks.inputs import Batch
from evodevo.training.settings import TrainingSettings

NO_ROOM = "{:g} of the budget has no room for two of the networks with rungs of at least {} steps; give {} or more"
TWO = 2
"""Networks of the smallest race, each of which is trained once."""
DIVERGED = "no network of the race could be trained"


@dataclass(frozen=True)
class BackboneStart:
    """What a growth begins with.

    Attributes:
        network: The backbone, with the weights that a race gave it.
        trained: Number of its steps so far, which is the number of its next batch.
        training: Settings of the training that follows: what is left of the budget.
        race: The race; None where none was wanted.
    """

    network: Backbone
    trained: int
    training: TrainingSettings
    race: BackboneRaceRecord | None = None


def start_of(bench: Trainer, plan: GrowthPlan, task: SampleTask, window: int) -> BackboneStart:
    """Let the backbones race where it is wanted and the budget permits it.

    Args:
        bench: Trainer of the procedure.
        plan: Plan of the growth.
        task: Task with an architecture split, where there is a race.
        window: Tokens of a training window.
    """
    planned: BackboneStructure = bench.arm.network.structure
    if not plan.starts:
        return BackboneStart(cast(Backbone, bench.build()), 0, bench.training)
    return _BackboneRace(bench, plan, task, window).run(starts_of(planned, plan.starts))


class _BackboneRace(TrainingRace[Racer]):
    def __init__(self, bench: Trainer, plan: GrowthPlan, task: SampleTask, window: int) -> None:
        super().__init__(bench, task, plan.race)
        self.settings = plan.race
        self.window = window

    def run(self, structures: tuple[BackboneStructure, ...]) -> BackboneStart:
        arms = [self._arm(structure) for structure in structures]
        costs = [arm.cost for arm in arms]
        # Where the budget is in seconds, steps of all were timed for their costs. Recorded, as all that is measured.
        timed: float = self.bench.once("used before the race", lambda: self.used)
        race = self.room.race(self.settings, costs) - timed
        planned = plan_first(costs, race, self.settings.least, self.judging_of(0))
        if planned is None:
            return self._outcome(arms[0], self._no_room(costs))
        best = best_of(self.heat(arms, planned))
        if best is None:  # the planned one anew, not with the weights with which it diverged
            return self._outcome(replace(arms[0], weights=None, steps=0), DIVERGED)
        return self._outcome(best, "")

    def _arm(self, structure: BackboneStructure) -> Racer:
        # By the cost model, as judgements are; the FLOPs of its training are counted.
        flops = STEP * self.bench.training.batch_size * forward_flops(self.task, structure, self.window)
        arm = Racer(name=structure.genome, network=BackboneNetwork(structure=structure), cost=flops)
        arm.cost = self.cost_of(arm)
        return arm

    def _batches(self, arm: Racer, first: int) -> Callable[[int], Batch]:
        """See ``TrainingRace``; in windows as long as at the start."""
        cut, batches = cut_windows(self.task.inputs[0].length, self.window), batches_from(self.bench, self.task, first)
        return lambda step: cut(batches(step))

    def _no_room(self, costs: Sequence[float]) -> str:
        share, least = self.settings.share, self.settings.least
        second = sorted(costs)[min(1, len(costs) - 1)]
        need = TWO * second * (least + self.judging_of(0)) / share
        unit = self.room.unit
        return NO_ROOM.format(share, least, f"{need:.3g} steps" if unit == "steps" else amount_in_words(need, unit))

    def _outcome(self, winner: Racer, instead: str) -> BackboneStart:
        network = cast(Backbone, self.build(winner))
        self.hold([])
        # Recorded: after an interruption the account has what was spent later.
        used: float = self.bench.once("used by the race", lambda: self.used)
        facts: dict[str, Any] = {
            "chosen": winner.name,
            "livs": [plan.row.name for plan in network.plans],
            "steps": self.bench.steps,
            "share": used / self.room.budget,
            "heats": self.heats,
            "instead": instead,
        }
        record = validate(BackboneRaceRecord, facts, what="a race")
        return BackboneStart(network, winner.steps, self.rest(used), record)
