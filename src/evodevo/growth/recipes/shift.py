"""A shift of the data in the middle of a training: networks that may change there, beside fixed ones.

The zoos are those of the proof (``recipes.proof``). Two arms begin with what a race of modules on the first data
decided; in one of them networks race once more at the shift. Fixed are every module alone, none, and all of them. Equal
steps have equal samples, before the shift and after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.errors import UsageError
from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.growth.recipes.classifier import SHORT, ZOO
from evodevo.growth.recipes.growing import FIXED, GROW, NOTHING_HAPPENS
from evodevo.growth.recipes.proof import NETWORK, QUICK_SHARE, RACE, RACE_LEAST, RACED, proof
from evodevo.growth.recipes.proof_data import GENERATED, ProofTrial, trial_of
from evodevo.module_zoo.named import zoo_structure
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.procedures.room import IDENTITY, network_of
from evodevo.module_zoo.spec import ZooStructure
from evodevo.runs.recipe import Changes, Driver, Recipe, Size
from evodevo.settings import merge
from evodevo.tasks.before_shift import ShiftKind

AT = 0.5
AGAIN = f"{RACED}, then at the shift"
NO_MODULE = "no module"
RACER = "heuristic"
"""A strategist other than the fixed one, which never races; without events it does nothing else."""
SHIFT_RACE: Mapping[str, Any] = {"share": 0.15, "samples": 512, "least": 20}
"""Options of the race at the shift."""


def alone(name: str) -> str:
    """``mlp-1 alone``: name of the arm of one module."""
    return f"{name} alone"


def shifting(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """The whole experiment on one data set; arguments as for ``proof``, without mixtures of experts.

    A modality appears where the data have two, else classes do (``grow.shift.kind``).

    Raises:
        UsageError: A zoo of one module, in which nothing can race.
    """
    changes.refuse_baselines()
    settings = proof(size, driver, changes)
    trial = GENERATED if changes.data is None else trial_of(changes.data)
    structure = zoo_structure(merge(dict(NETWORK), dict(changes.part)))
    if len(structure.live) < 2:
        raise UsageError("modules race at the start, and the zoo has one; give it more.")
    experiment, part = settings.experiment, 1.0 if size == "full" else QUICK_SHARE
    grow = merge(settings.evaluation.options[GROW], {"events": {"count": 0}, **_races(trial, part)})
    caveats = [caveat for caveat in experiment.caveats if not caveat.startswith("All arms")]
    return settings.model_copy(
        update={
            "experiment": Comparison(
                title=f"a shift of the data in the middle of the training, on {trial.name}",
                arms=_arms(structure),
                learning_rates=experiment.learning_rates,
                seeds=experiment.seeds,
                reference=AGAIN,
                caveats=(
                    "All arms end when they have computed as many FLOPs; those of races, judgements and probes count.",
                    "Weights are selected after the shift alone, on validation samples of the data after it.",
                    *caveats,
                ),
            ),
            "evaluation": settings.evaluation.model_copy(update={"options": {GROW: grow}}),
        }
    )


def _races(trial: ProofTrial, part: float) -> dict[str, Any]:
    """Both races and the shift, for a part of the full budget."""
    kind: ShiftKind = "modality" if len(trial.inputs) > 1 else "classes"

    def fewer(race: Mapping[str, Any]) -> dict[str, Any]:
        less = {name: max(1, int(part * race[name])) for name in ("least", "samples") if name in race}
        return {**race, **(less if part < 1 else {})}

    start = fewer({**RACE, "least": RACE_LEAST, "partial": True})
    return {"race": start, "shift": {"kind": kind, "at": AT, "race": fewer(SHIFT_RACE)}}


def _arms(structure: ZooStructure) -> tuple[Variant, ...]:
    # The race at the shift is among the options of all, so that a user can change it.
    still = {"shift": {"race": {"share": 0.0}}}

    def arm(name: str, network: ZooStructure, options: Mapping[str, Any]) -> Variant:
        kind = ModuleZooNetwork(structure=network)
        return Variant(name=name, role="zoo", network=kind, procedure=GROW, options=dict(options))

    fixed = merge(dict(NOTHING_HAPPENS), still)
    singles = [module.id for module in structure.live if module.id != IDENTITY]
    return (
        arm(AGAIN, structure, {"strategist": RACER}),
        arm(RACED, structure, merge({"strategist": RACER}, still)),
        arm(FIXED, structure, fixed),
        *(arm(alone(name), network_of(structure, [name]), fixed) for name in singles),
        arm(NO_MODULE, network_of(structure, ()), fixed),
    )


SHIFT = Recipe(
    "module_zoo.shift",
    "data that shift while a zoo trains: networks that race at the shift, beside every fixed one",
    ("grow", "train"),
    shifting,
    part=ZOO,
    short=SHORT,
    reads_data=True,
)
