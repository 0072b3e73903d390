"""A race decides what a zoo begins with, no module among it, and a fork whether the position of its outputs matters.

Source: docs/growth.md#race-then-grow. No part of the paper.

Inputs are read by patches with a function after them and by embeddings, and joined side by side, without a loss of
alignment; a layer comes before the heads. So even the network without a module learns what is not linear, at the least
FLOPs a step. Beside the arm that grows there is the same race without growth, and all six modules from the start.
"""

from __future__ import annotations

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import NetworkEvaluationSettings, WeightSelection
from evodevo.growth.recipes.classifier import SHORT, ZOO
from evodevo.growth.recipes.growing import FIXED
from evodevo.growth.recipes.raced import LEARNING_RATE, NETWORK, raced_arms, raced_options
from evodevo.module_zoo.named import zoo_structure
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.runs.recipe import Changes, Driver, Recipe, Size
from evodevo.settings import merge
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

WIDTH = 32
QUICK_FLOPS, FULL_FLOPS = 200e9, 500e9
QUICK_SEEDS, FULL_SEEDS = 1, 5


def race_then_grow(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """The comparison; questions about images of digits unless ``--data`` is given.

    Raises:
        UsageError: Baselines or strategists, which this recipe has not.
    """
    changes.refuse_strategists()
    changes.refuse_baselines()
    full = size == "full"
    network = ModuleZooNetwork(structure=zoo_structure(merge({"width": WIDTH, **NETWORK}, dict(changes.part))))
    return ExperimentSettings(
        experiment=Comparison(
            title="a race, and growth after it that forks confirm, each with the same budget",
            arms=raced_arms(network),
            learning_rates=(LEARNING_RATE,),
            seeds=FULL_SEEDS if full else QUICK_SEEDS,
            reference=FIXED,
            caveats=("All arms have the same budget; races, probes and forks count.",),
        ),
        evaluation=NetworkEvaluationSettings(
            task="digits_questions",
            training=TrainingSettings(
                budget=Budget(flops=FULL_FLOPS if full else QUICK_FLOPS),
                optimizer=OptimizerSettings(learning_rate=LEARNING_RATE, weight_decay=0.01),
                batch_size=64,
                checkpoint_every=500,
            ),
            options=raced_options(),
            validation_samples=2000,
            test_samples=None,
            curve_points=20,
            curve_samples=512,
            select=WeightSelection(metric="accuracy"),
            exchange=True,
            seconds=24 * 3600.0,
            memory_bytes=4 * 2**30,
        ),
    )


RACE_THEN_GROW_RECIPE = Recipe(
    "module_zoo.race_then_grow",
    "images, texts, numbers: begin with what wins a race, and grow around it what a fork confirms",
    ("grow", "train"),
    race_then_grow,
    part=ZOO,
    short=SHORT,
    data_task="table",
)
