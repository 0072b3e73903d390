"""Does growing pay? A zoo that grows beside the one that does not, at equal FLOPs, growth counted in.

Source: docs/spec/architect_thyself.md#events.

Some zoos begin with what a race of modules decides: one does not grow afterwards (the procedure ``race``),
one grows by the heuristic, and two by random edits, of which one forks at its events (``growth.forks``); one is edited
around its modules alone, where a fork confirms it (``growth.around``).
All zoos are read by extractors that mix no positions and joined side by side, so that whatever has to be compared
across patches and words is compared by the modules: which of them there are then matters. The positive control begins
without any family that mixes positions but by their mean: an MLP and a squeeze-and-excite. A cell of its own has what
new runs do, race, then grow, behind patches with a function after them: beside the same race without growth, with
random edits under forks, and all modules from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import NetworkEvaluationSettings, WeightSelection
from evodevo.experiments.trials import Cell, Variant
from evodevo.growth.recipes.classifier import SHORT, ZOO
from evodevo.growth.recipes.growing import (
    EDITED_AROUND,
    FIXED,
    GROW,
    NOTHING_HAPPENS,
    RACE_THEN_GROW,
    arm_name,
    growth_of_new_runs,
)
from evodevo.growth.recipes.proof_data import GENERATED, ProofTrial, trial_of
from evodevo.growth.recipes.raced import raced_arms
from evodevo.module_zoo.baselines.network import BaselineNetwork
from evodevo.module_zoo.named import zoo_structure
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.plain_surroundings import PLAIN_SURROUNDINGS
from evodevo.module_zoo.recipes.baselines import STYLES, matched
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.mixtures.spec import MixtureStyle
from evodevo.networks.spec import NetworkSpec
from evodevo.runs.recipe import Baselines, Changes, Driver, Recipe, Size
from evodevo.settings import merge
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

LEARNER = "ppo"
STRATEGISTS = (LEARNER, "random", "heuristic")
RACED_FIRST = "heuristic"
"""Strategist of the arm that grows after a race."""
UNGUIDED = "random"
"""Strategist of two further arms after a race; one of them forks, and so the two show what forks add."""
RACE: Mapping[str, Any] = {"share": 0.15, "singles": 1.0, "judge": "trend", "otherwise": "mlp"}
"""Options of all races here: those of new growths, in rungs of at least 30 steps."""
RACE_LEAST = 30
FORK_SHARE = 0.15
MIXTURES: Mapping[Baselines, tuple[MixtureStyle, ...]] = {
    "none": (),
    "quick": ("switch",),
    "all": ("switch", "st_moe", "soft_moe"),
}
CONTROL: Cell = {"start": "MLP and squeeze-and-excite"}
"""Cell of the arms of the positive control; differences and ranks are taken within a cell."""
CONTROL_MODULES = "mlp,squeeze_excite"
PLAINLY: Cell = {"read by": "patches with ReLU, and a layer before the heads"}
"""Cell of the arms that race, then grow, as new runs do."""
NETWORK: Mapping[str, Any] = {
    "width": 32,
    "modules": "start",
    "extractor": {"blocks": 0},
    "fusion": {"kind": "concat"},
}
LEARNING_RATE = 3e-3
POINTS, POINT_SAMPLES = 20, 512
RACED = "raced"
"""Name of the arm of the procedure ``race``."""
QUICK_SHARE = 0.2
"""Share of the full budget in the size ``quick``, which has a single seed: it shows that all works, and proves nothing.
"""
QUICK_GROWTH: Mapping[str, Any] = {"events": {"count": 3}}
"""More events would cost more than so short a training."""


def arms(structure: ZooStructure, trial: ProofTrial, mixtures: Baselines) -> tuple[Variant, ...]:
    """The arms of the comparison: the strategist that learns first, beside the fixed zoo.

    Args:
        structure: structure of the zoo before it grows.
        trial: whether the task decides anything (else few arms show the direction), and the inputs of the mixtures.
        mixtures: set of the mixtures of experts beside them.
    """
    plainly = ModuleZooNetwork(structure=zoo_structure(PLAIN_SURROUNDINGS, structure))
    raced = (*raced_arms(plainly, cell=PLAINLY, options=RACE_THEN_GROW), _random_after(plainly))
    if trial.direction_only:
        return (_grown(structure, LEARNER), _edited_around(structure), _fixed(structure), _raced(structure), *raced)
    control = zoo_structure({"modules": CONTROL_MODULES}, structure)
    return (
        *(_grown(structure, strategist) for strategist in STRATEGISTS),
        _raced_and_grown(structure, RACED_FIRST),
        _raced_and_grown(structure, UNGUIDED),
        _forked(_raced_and_grown(structure, UNGUIDED)),
        _edited_around(structure),
        _fixed(structure),
        _raced(structure),
        *(
            Variant(
                name=STYLES[style],
                role="opponent",
                network=BaselineNetwork(structure=matched(style, structure, trial.inputs, trial.outputs)),
            )
            for style in MIXTURES[mixtures]
        ),
        _grown(control, LEARNER, CONTROL),
        _fixed(control, CONTROL),
        *raced,
    )


def proof(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """The whole experiment on one data set.

    Args:
        size: ``quick`` (one seed, a fifth of the budget, three events) or ``full``.
        driver: both have the same arms.
        changes: changes of the zoo's structure in all arms; the mixtures of experts (``all`` three if left out); the
            user's data.
    """
    changes.refuse_strategists()
    full, trial = size == "full", GENERATED if changes.data is None else trial_of(changes.data)
    structure = zoo_structure(merge(dict(NETWORK), dict(changes.part)))
    return ExperimentSettings(
        experiment=Comparison(
            title=f"a zoo that grows and one that does not, with equal FLOPs, on {trial.name}",
            arms=arms(structure, trial, changes.baselines or "all"),
            learning_rates=(LEARNING_RATE,),
            seeds=trial.seeds if full else 1,
            reference=FIXED,
            caveats=_caveats(trial, full),
        ),
        evaluation=NetworkEvaluationSettings(
            task=trial.task,
            task_settings=dict(trial.settings),
            training=TrainingSettings(
                budget=Budget(flops=trial.flops if full else QUICK_SHARE * trial.flops),
                optimizer=OptimizerSettings(learning_rate=LEARNING_RATE, weight_decay=0.01),
                batch_size=64,
                checkpoint_every=200,
            ),
            options={GROW: merge(growth_of_new_runs(), {} if full else dict(QUICK_GROWTH))},
            validation_samples=2000,
            test_samples=None,
            curve_points=POINTS,
            curve_samples=POINT_SAMPLES,
            select=WeightSelection(metric="accuracy"),
            seconds=3600.0,
            memory_bytes=4 * 2**30,
        ),
    )


def _grown(structure: ZooStructure, strategist: str, cell: Cell | None = None) -> Variant:
    return Variant(
        name=arm_name(strategist),
        role="zoo",
        network=ModuleZooNetwork(structure=structure),
        cell=cell or {},
        procedure=GROW,
        options={"strategist": strategist},
    )


def _fixed(structure: ZooStructure, cell: Cell | None = None) -> Variant:
    return _grown(structure, FIXED, cell).model_copy(update={"name": FIXED, "options": dict(NOTHING_HAPPENS)})


def _raced_and_grown(structure: ZooStructure, strategist: str) -> Variant:
    grown = _grown(structure, strategist)
    options = {**grown.options, "race": {**RACE, "least": RACE_LEAST, "partial": True}}
    return grown.model_copy(update={"name": f"{RACED}, then {grown.name}", "options": options})


def _forked(arm: Variant) -> Variant:
    options = {**arm.options, "forks": {"share": FORK_SHARE}}
    return arm.model_copy(update={"name": f"{arm.name}, forked", "options": options})


def _random_after(network: NetworkSpec) -> Variant:
    """The race of new runs, and random edits after it of which forks keep those that pay."""
    options = {"strategist": UNGUIDED, "race": RACE_THEN_GROW["race"], "forks": {"share": FORK_SHARE}}
    name = f"{RACED}, then {arm_name(UNGUIDED)}, forked"
    return Variant(name=name, role="zoo", network=network, cell=PLAINLY, procedure=GROW, options=options)


def _edited_around(structure: ZooStructure) -> Variant:
    arm = _raced_and_grown(structure, RACED_FIRST)
    return arm.model_copy(
        update={"name": f"{RACED}, then edited around, forked", "options": {**arm.options, **EDITED_AROUND}}
    )


def _raced(structure: ZooStructure) -> Variant:
    return Variant(
        name=RACED,
        role="zoo",
        network=ModuleZooNetwork(structure=structure),
        procedure="race",
        options={**RACE, "least": RACE_LEAST},
    )


def _caveats(trial: ProofTrial, full: bool) -> tuple[str, ...]:
    caveats = ["All arms end when they have computed as many FLOPs; those of probes, distillation and replay count."]
    if trial.direction_only:
        caveats.append(f"{trial.name} is too small to decide anything: it shows a direction.")
    if not full:
        caveats.append("The size quick shows that all works; one seed and a fifth of the budget prove nothing.")
    return tuple(caveats)


GROWTH_PROOF = Recipe(
    "module_zoo.growth_proof",
    "whether growing pays: zoos that grow, fixed ones, mixtures of experts, each with the same FLOPs",
    ("grow", "train"),
    proof,
    part=ZOO,
    short=SHORT,
    reads_data=True,
)
