"""The start of a growth: the network as it is planned, or the one that a race of its modules and pairs chose.

The race is that of the procedure ``race``. The winner keeps its weights, and what was computed counts: what follows has
what is left of the budget, and its shares are of that. Without room for a race one module may be what begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evodevo.errors import UsageError
from evodevo.experiments.trainer import Trainer
from evodevo.growth.procedures.settings import pool_to_grow
from evodevo.growth.spec import GrowthSettings, StartingRaceSettings
from evodevo.growth.strategists.fixed import Fixed
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.procedures.race import ModuleRace
from evodevo.module_zoo.procedures.search_settings import (
    RaceOptions,
    check_budget,
    why_no_race,
    without_race,
    zoo_of,
)
from evodevo.networks.base import Network
from evodevo.settings import validate
from evodevo.tasks.base import SampleTask
from evodevo.training.settings import TrainingSettings

NO_ROOM = "{:g} of the budget has no room for {} modules, each alone, with rungs of at least {} steps."


@dataclass(frozen=True)
class GrowthStart:
    """What a growth begins with.

    Attributes:
        network: The network, with the weights that a race gave it.
        settings: Settings of the growth, where at most as many modules always stay as there are now.
        training: Settings of the training that follows: what is left of the budget.
        steps: Number of steps that were made before, by all networks.
        trained: Those of this network, which is the number of its next batch.
        flops, spent: FLOPs before, and those of them beside training steps.
        race: JSON: the facts of ``train_race``, and ``instead``, why there was no race, else empty, then with
            ``otherwise`` where not all modules begin; None where none was wanted.
    """

    network: Network
    settings: GrowthSettings
    training: TrainingSettings
    steps: int = 0
    trained: int = 0
    flops: float = 0.0
    spent: float = 0.0
    race: dict[str, Any] | None = None


def start_of(bench: Trainer, settings: GrowthSettings, data: SampleTask | None = None) -> GrowthStart:
    """Let the modules race where it is wanted and the budget permits it; never for the strategist ``fixed``.

    Args:
        bench: Trainer of the procedure.
        settings: Settings of the growth.
        data: Task with the split ``architecture``, as it is at the start; that of the bench if left out.
    """
    if not settings.race.share or settings.strategist == Fixed.name:
        return GrowthStart(bench.build(), settings, bench.training)
    instead = _why_none(bench, settings.race)
    if instead is not None:
        return _without_race(bench, settings, instead)
    race = settings.race
    options = validate(RaceOptions, race.model_dump(exclude={"partial"}), what="the race of a growth")
    raced = ModuleRace(bench, options, partial=race.partial, data=data).run()
    if not raced.facts["tried"]:
        count = 2 if race.partial else len(pool_to_grow(bench.arm).live)
        return _without_race(bench, settings, NO_ROOM.format(race.share * race.singles, count, race.least))
    # Recorded: after an interruption the account has what was spent later.
    before = bench.once("before the growth", lambda: {"flops": bench.flops, "spent": bench.spent})
    return GrowthStart(
        network=raced.network,
        settings=_keeping_at_most(settings, len(raced.facts["chosen"])),
        training=raced.rest,
        steps=raced.facts["steps"],
        trained=raced.trained,
        flops=before["flops"],
        spent=before["spent"],
        race={**raced.facts, "instead": ""},
    )


def _why_none(bench: Trainer, race: StartingRaceSettings) -> str | None:
    reason = why_no_race(zoo_of(bench.arm))
    if reason is None:
        try:
            check_budget(bench.training, race.share, 1)
        except UsageError as error:
            reason = str(error)
    return reason


def _without_race(bench: Trainer, settings: GrowthSettings, instead: str) -> GrowthStart:
    whole = zoo_of(bench.arm)
    structure = without_race(whole, settings.race.otherwise)
    chosen = [module.id for module in structure.live]
    facts = {"tried": 0, "chosen": chosen, "steps": 0, "share": 0.0, "heats": [], "instead": instead}
    if structure == whole:
        return GrowthStart(bench.build(), settings, bench.training, race=facts)
    return GrowthStart(
        network=bench.build(ModuleZooNetwork(structure=structure)),
        settings=_keeping_at_most(settings, len(chosen)),
        training=bench.training,
        race={**facts, "otherwise": settings.race.otherwise},
    )


def _keeping_at_most(settings: GrowthSettings, count: int) -> GrowthSettings:
    """Settings by which no more modules always stay than there are."""
    least = min(settings.prune.least, count)
    return settings.model_copy(update={"prune": settings.prune.model_copy(update={"least": least})})
