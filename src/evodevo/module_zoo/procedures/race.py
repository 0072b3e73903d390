"""A race, and the procedure ``race``: short trainings decide what a zoo begins with, and the winner goes on.

First each module alone, and no module where that is wanted, then pairs with the best two where the modules leave them
a share: heats of successive halving (``experiments.racing``) at equal cost, from the same first batch on, each network
with encoders of its own, judged by their loss on the architecture split, as it is or as its fall leads to. Steps and
judgements count against the budget. The winner keeps its weights, and is trained on with the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from evodevo.errors import UsageError
from evodevo.experiments.racing.plan import plan_first, plan_second
from evodevo.experiments.racing.race import Racer, TrainingRace, batches_from, best_of
from evodevo.experiments.racing.words import winner_words
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.procedures.room import IDENTITY, alone, network_of, step_flops, under_limit
from evodevo.module_zoo.procedures.search_settings import RaceOptions, training_after, without_race
from evodevo.module_zoo.procedures.searching import PoolSearch
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import validate
from evodevo.tasks.base import SampleTask
from evodevo.training.loop import TrainingResult
from evodevo.training.settings import TrainingSettings

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
    bench.tell(_told(raced.facts))
    batches = batches_from(bench, bench.task, raced.trained)
    result: TrainingResult = bench.train(raced.network, training=raced.rest, batch_at=batches)
    return race.search.answer(raced.network, result, raced.facts)


def _told(race: Mapping[str, Any]) -> str:
    """The sentence on who goes on."""
    if race["tried"]:
        return f"It goes on with {winner_words(race)}."
    return f"No race: the budget has no room for two networks; {' + '.join(race['chosen'])} is trained."


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
class _Arm(Racer):
    """A zoo of the race.

    Attributes:
        ids: Modules.
        structure: Structure with these alone.
    """

    ids: tuple[str, ...] = ()
    structure: ZooStructure = field(default_factory=ZooStructure)


class ModuleRace(TrainingRace[_Arm]):
    """One race: the first stages of a training.

    Args:
        bench: Trainer of the procedure.
        options: Share of the budget, samples and shortest rung.
        partial: Whether it is run where the budget has no room for every module alone; the dearest are left out then.
        data: Task with an architecture split that it uses; that of the bench if left out.

    Attributes:
        search: What it has in common with other searches.

    Raises:
        UsageError: No zoo, or a budget that is too small; while it runs, nothing that may race under its limit.
    """

    def __init__(
        self, bench: Trainer, options: RaceOptions, *, partial: bool = True, data: SampleTask | None = None
    ) -> None:
        self.search = PoolSearch(bench, options.share, options.samples, trainings=1, data=data)
        super().__init__(bench, self.search.task, options)
        self.options = options
        self.partial = partial

    def run(self) -> Raced:
        """Let the networks race; the steps that follow are the caller's."""
        least, judging = self.options.least, self.judging_of(0)  # no rung has more
        singles = self._under_limit([self._arm(name) for name in alone(self.search.structure, self.options)])
        if not singles:
            raise UsageError(f"no module alone is under the {self.options.flops:,.6g} FLOPs of the race; allow more.")
        race = self.room.race(self.options, [arm.cost for arm in singles])
        first = plan_first([arm.cost for arm in singles], race * self.options.singles, least, judging)
        if first is not None and not self.partial and len(first.arms) < len(singles):
            first = None
        best = [] if first is None else self.heat(singles, first)
        if first is not None and best and self.options.singles < 1:
            pairs = self._pairs(best, singles)
            # Recorded: after an interruption the account has judgements of the second heat already.
            used: float = self.bench.once("used by the first heat", lambda: self.used)
            second = plan_second([arm.cost for arm in pairs], race - used, first, least, judging)
            best += [] if second is None else self.heat(pairs, second, beside=best[:1])
        if not best and self.options.flops is not None:
            raise UsageError(
                f"the budget has no room for a race of two networks under {self.options.flops:,.6g} FLOPs."
            )
        return self._outcome(best_of(best))

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
        own = tuple(module.id for module in structure.modules)
        network = ModuleZooNetwork(structure=structure)
        arm = _Arm(name=" + ".join(own), network=network, cost=flops, ids=own, structure=structure)
        arm.cost = self.cost_of(arm)
        return arm

    def _outcome(self, winner: _Arm | None) -> Raced:
        unraced = without_race(self.search.structure, self.options.otherwise)
        network = self.search.build(unraced) if winner is None else cast(ModuleZoo, self.build(winner))
        self.hold([])
        # Recorded: after an interruption the account has what was spent later.
        used: float = self.bench.once("used by the race", lambda: self.used)
        facts = {
            "tried": self.tried,
            "chosen": [module.id for module in unraced.live] if winner is None else list(winner.ids),
            "steps": self.bench.steps,
            "share": used / self.room.budget,
            "heats": self.heats,
        }
        return Raced(network, 0 if winner is None else winner.steps, self.rest(used), facts)
