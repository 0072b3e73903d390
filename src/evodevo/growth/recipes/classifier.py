"""A classifier of images, texts, numbers, or all of them, compared with honest opponents under the same budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import NetworkEvaluationSettings, WeightSelection
from evodevo.experiments.trials import Variant
from evodevo.growth.recipes.growing import FIXED, growing, growth_of_new_runs
from evodevo.growth.recipes.raced import LEARNING_RATE, NETWORK, raced_arms, raced_options
from evodevo.module_zoo.named import zoo_structure
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.recipes.baselines import opponents
from evodevo.module_zoo.spec import ZooStructure
from evodevo.runs.recipe import Baselines, Changes, Driver, Recipe, Size
from evodevo.settings import merge, validate
from evodevo.training.settings import Budget, OptimizerSettings, TrainingSettings

ZOO = "zoo"
"""Name of the arm in question, and of what ``--set`` changes of it: ``--set zoo.width=128``."""
RACE_SHARE = 0.15
QUICK_SECONDS, FULL_SECONDS = 120.0, 900.0
ABLATE: Mapping[str, Mapping[str, Any]] = {
    # All rows of block D with three seeds in less than a quarter of an hour on two cores.
    "quick": {
        ZOO: {"width": 32, "extractor": {"blocks": 1}},
        "evaluation": {
            "training": {"budget": {"seconds": None, "steps": 800}, "batch_size": 32},
            "select": {"patience": None},
            "exchange": False,
        },
    },
    "full": {
        "evaluation": {
            "training": {"budget": {"seconds": None, "steps": 8000}},
            "select": {"patience": None},
            "exchange": False,
        },
    },
}
"""Size -> what the command ``ablate`` changes."""
SHORT: Mapping[str, str] = {
    "batch_size": "evaluation.training.batch_size",
    "learning_rates": "experiment.learning_rates",
    "metric": "evaluation.select.metric",
    "patience": "evaluation.select.patience",
}


def comparison(structure: ZooStructure, which: Baselines, **more: Any) -> Comparison:
    """A zoo and its opponents, which have the same extractors and width.

    Args:
        structure: structure of the zoo.
        which: set of opponents.
        more: further fields of the comparison.
    """
    arm = Variant(name=ZOO, role="zoo", network=ModuleZooNetwork(structure=structure))
    return Comparison(arms=(arm, *opponents(structure, which, 0)), **more)


def classifier(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """One module of each of the six families; questions about images of digits unless ``--data`` is given.

    ``grow`` races, then grows, behind extractors of its own; where strategists are named the zoo of ``train`` grows by
    them, after a race. Opponents are there only where they are requested. ``ablate`` trains everything for equally
    long, so that nothing stops early.
    """
    full = size == "full"
    baselines = changes.baselines or ("none" if driver == "grow" else "all" if full else "quick")
    if driver == "ablate":
        structure = zoo_structure(merge(dict(ABLATE[size].get(ZOO, {})), dict(changes.part)))
    elif driver == "grow" and changes.strategists is None:
        structure = zoo_structure(merge(dict(NETWORK), dict(changes.part)))
    else:
        structure = zoo_structure(changes.part)
    made = ExperimentSettings(
        experiment=comparison(
            structure,
            baselines,
            title="a zoo of modules and its opponents, each with the same budget",
            learning_rates=(2e-3,),
            seeds=3 if full else 1,
        ),
        evaluation=NetworkEvaluationSettings(
            task="digits_questions",
            training=TrainingSettings(
                budget=Budget(seconds=FULL_SECONDS if full else QUICK_SECONDS),
                optimizer=OptimizerSettings(learning_rate=2e-3, weight_decay=0.01),
                batch_size=64,
                checkpoint_every=200,
            ),
            validation_samples=None,
            test_samples=None,
            curve_points=40 if full else 20,
            curve_samples=512,
            select=WeightSelection(metric="auc", patience=10, min_share=0.5),
            exchange=True,
            seconds=24 * 3600.0,
            memory_bytes=8 * 2**30,
        ),
    )
    if driver == "grow" and changes.strategists is None:
        return _raced(made)
    if driver == "grow":
        options = merge(growth_of_new_runs(), {"race": {"share": RACE_SHARE}})
        return growing(made, changes.strategists or (), options)
    if driver == "ablate":
        values = merge(made.model_dump(mode="json"), {"evaluation": ABLATE[size]["evaluation"]})
        return validate(ExperimentSettings, values, what="settings of an ablation")
    return made


def _raced(made: ExperimentSettings) -> ExperimentSettings:
    """The experiment whose zoo races, then grows, beside all of its modules; its opponents stay as they are.

    In budgets with too little room for a race of all networks the cheaper ones race.
    """
    zoo, *others = made.experiment.arms
    select, training = made.evaluation.select, made.evaluation.training
    experiment = {
        "title": "a race, and growth after it that a fork confirms, beside all modules",
        "arms": (*raced_arms(zoo.network, alone=True), *others),
        "reference": FIXED,
        "learning_rates": (LEARNING_RATE,),
    }
    optimizer = training.optimizer.model_copy(update={"learning_rate": LEARNING_RATE})
    evaluation = {
        "select": None if select is None else select.model_copy(update={"patience": None}),
        "training": training.model_copy(update={"optimizer": optimizer}),
        "options": raced_options(race={"partial": True}),
    }
    return made.model_copy(
        update={
            "experiment": made.experiment.model_copy(update=experiment),
            "evaluation": made.evaluation.model_copy(update=evaluation),
        }
    )


CLASSIFIER = Recipe(
    "module_zoo.classifier",
    "images, texts, numbers: a zoo of modules against its opponents",
    ("train", "grow", "ablate"),
    classifier,
    part=ZOO,
    short=SHORT,
    data_task="table",
)
