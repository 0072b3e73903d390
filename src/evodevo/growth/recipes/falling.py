"""One training under a cap that falls, beside small networks trained from scratch under the last cap.

Source: docs/spec/architect_thyself.md#falling-caps.

The zoos are those of the proof (``recipes.proof``) behind patches with a function after them, so that a network learns
without a module, too; for that one the zoo has a module that passes on what it reads. Two arms obey the falling cap, of
which one does nothing else. Two begin from scratch under the last cap: with the whole budget, and with what is left of
it after the last fall, as a retraining has it. A fixed zoo without a cap is the reference, which no network under one
has to reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from evodevo.errors import UsageError
from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.growth.caps.smaller import only
from evodevo.growth.growable import TaskSizes
from evodevo.growth.recipes.classifier import SHORT, ZOO
from evodevo.growth.recipes.growing import FIXED, GROW, NOTHING_HAPPENS, RACE_THEN_GROW
from evodevo.growth.recipes.proof import NETWORK, QUICK_SHARE, proof
from evodevo.growth.recipes.proof_data import GENERATED, ProofTrial, trial_of
from evodevo.growth.resources import Resources
from evodevo.growth.zoo.growable import GrowableZoo
from evodevo.module_zoo.modules.zoo import identity
from evodevo.module_zoo.named import zoo_structure
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.plain_surroundings import PLAIN_SURROUNDINGS
from evodevo.module_zoo.procedures.room import IDENTITY
from evodevo.module_zoo.procedures.search_settings import RaceOptions
from evodevo.module_zoo.spec import ZooStructure
from evodevo.runs.recipe import Changes, Driver, Recipe, Size
from evodevo.settings import merge

FALLS = ((0.25, 3), (0.5, 2))
"""Shares of the budget, and how many modules every network may have from there on, whichever they are."""
OBEYS = "falling cap"
SMALL = "small from the start"
RETRAINED = "retrained"
RACE: Mapping[str, Any] = {name: RACE_THEN_GROW["race"][name] for name in ("share", "least", "singles", "judge")}
"""Options of the races from scratch, those of new runs: modules alone, and none."""
FALL_RACE: Mapping[str, Any] = {"share": 0.15, "least": 20, "networks": 7, "samples": 512}
"""Options of the races at falls: seats for the seven modules alone. Networks of several, which have the lower loss
right after the removal and the dearer steps, had won in their place and were worse in the end (generated questions)."""
STRATEGIST = "heuristic"


def with_identity(structure: ZooStructure) -> ZooStructure:
    """The zoo with a module more, which passes on what it reads; a zoo that has it stays as it is."""
    if IDENTITY in (module.id for module in structure.modules):
        return structure
    return structure.model_copy(update={"modules": (*structure.modules, identity(structure.width, IDENTITY))})


def caps(structure: ZooStructure, trial: ProofTrial) -> list[dict[str, float]]:
    """The schedule: at each fall the FLOPs of the dearest network of so many modules.

    Raises:
        UsageError: A zoo that has no more modules than may stay.
    """
    zoo, sizes = GrowableZoo.of(structure), TaskSizes(trial.inputs, trial.outputs)
    names = [module.id for module in zoo.live]
    if len(names) <= FALLS[0][1]:
        raise UsageError(
            f"the cap falls to {FALLS[0][1]} modules, and the zoo has {len(names)}, with the one that passes on "
            "what it reads; give it more."
        )

    def dearest(count: int) -> int:
        return max(Resources.of(only(zoo, ids), sizes).flops for ids in combinations(names, count))

    return [{"at": at, "flops": dearest(count)} for at, count in FALLS]


def falling(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """The whole experiment on one data set; arguments as for ``proof``, without mixtures of experts."""
    changes.refuse_baselines()
    settings = proof(size, driver, changes)
    trial = GENERATED if changes.data is None else trial_of(changes.data)
    structure = with_identity(zoo_structure(merge(merge(dict(NETWORK), dict(PLAIN_SURROUNDINGS)), dict(changes.part))))
    experiment = settings.experiment
    caveats = [caveat for caveat in experiment.caveats if not caveat.startswith("All arms")]
    return settings.model_copy(
        update={
            "experiment": Comparison(
                title=f"one training under a cap that falls, and from scratch under the last cap, on {trial.name}",
                arms=_arms(structure, trial, 1.0 if size == "full" else QUICK_SHARE),
                learning_rates=experiment.learning_rates,
                seeds=experiment.seeds,
                reference=RETRAINED,
                caveats=(
                    f"All arms but {RETRAINED} end when they have computed as many FLOPs, all that is beside counted.",
                    f"{FIXED} has no cap.",
                    *caveats,
                ),
            )
        }
    )


def _fewer(race: Mapping[str, Any], samples: int, part: float) -> dict[str, Any]:
    """A race for a part of the full budget, with as few steps in a rung and samples: it would not fit in otherwise."""
    if part == 1:
        return dict(race)
    return {**race, "least": max(1, int(part * race["least"])), "samples": max(1, int(part * samples))}


def _arms(structure: ZooStructure, trial: ProofTrial, part: float) -> tuple[Variant, ...]:
    schedule = caps(structure, trial)
    fall = {"caps": {"schedule": schedule, "race": _fewer(FALL_RACE, FALL_RACE["samples"], part)}}
    race = {**_fewer(RACE, RaceOptions().samples, part), "flops": schedule[-1]["flops"]}

    def arm(name: str, procedure: str, options: Mapping[str, Any]) -> Variant:
        network = ModuleZooNetwork(structure=structure)
        return Variant(name=name, role="zoo", network=network, procedure=procedure, options=dict(options))

    return (
        arm(OBEYS, GROW, merge(dict(NOTHING_HAPPENS), fall)),
        arm(f"{OBEYS}, grown by {STRATEGIST}", GROW, {"strategist": STRATEGIST, **fall}),
        arm(SMALL, "race", race),
        arm(RETRAINED, "race", {**race, "begin": FALLS[-1][0]}),
        arm(FIXED, GROW, NOTHING_HAPPENS),
    )


FALLING_CAP = Recipe(
    "module_zoo.falling_cap",
    "a zoo whose allowed cost falls while it trains, and small ones trained from scratch under the last cap",
    ("grow", "train"),
    falling,
    part=ZOO,
    short=SHORT,
    reads_data=True,
)
