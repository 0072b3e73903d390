"""The classifier as section 4.1 of Architect Thyself trains it; it needs data, two towers and a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import PAPER_SELECTION, NetworkEvaluationSettings
from evodevo.growth.recipes.classifier import SHORT, ZOO, comparison
from evodevo.growth.recipes.growing import growing
from evodevo.module_zoo.named import PAPER_LENGTH, PAPER_PIXELS, TEXT_TOWER, paper, zoo_structure
from evodevo.runs.recipe import STRATEGIST, Changes, Driver, Recipe, Size
from evodevo.training.settings import paper_training

EPOCHS = 25
GROWTH: Mapping[str, Any] = {
    "events": {"warm_rate": 0.1},
    "fitness": {"kind": "contribution", "price": "parameters", "inform": True},
    "prune": {"rule": "quantile", "quantile": 0.15},
    "birth": {"entry": "gate"},
    "reward": {"price": "start"},
}
"""What the paper does where new runs do otherwise: newborns at a tenth of the rate and in the gate at once (zeta), the
fitness of eq. 71, both halves of the contribution in the router's bias (10, 69), and its quantile rule (72)."""
SAMPLES = {"quick": 1_000, "full": 10_000}
"""Training samples for which the budget is made; the paper's tasks have from 2,400 to 3.3 million."""


def paper_classifier(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """Nine modules of width 512 behind a DistilBERT and a CLIP-ViT, 25 epochs at most."""
    structure = zoo_structure(changes.part, paper())
    training = paper_training(SAMPLES[size])
    made = ExperimentSettings(
        experiment=comparison(
            structure,
            changes.baselines or "none",
            title="a zoo of modules, trained as in section 4.1 of Architect Thyself",
            learning_rates=(training.optimizer.learning_rate,),
            seeds=3,
            caveats=(
                f"25 epochs are counted for {SAMPLES[size]:,} training samples; with other data give --budget.",
                "The paper leaves weights of losses, heads of the router and K open; here: the defaults, and no K.",
            ),
        ),
        evaluation=NetworkEvaluationSettings(
            task="table",
            task_settings={
                "size": [PAPER_PIXELS, PAPER_PIXELS],
                "colour": "rgb",
                "length": PAPER_LENGTH,
                "tokenizer": TEXT_TOWER,
            },
            training=training,
            validation_samples=None,
            test_samples=None,
            curve_points=EPOCHS,
            curve_samples=4096,
            select=PAPER_SELECTION,
            exchange=True,
            seconds=7 * 24 * 3600.0,
        ),
    )
    if driver == "grow":
        return growing(made, (STRATEGIST,) if changes.strategists is None else changes.strategists, GROWTH)
    return made


PAPER = Recipe(
    "module_zoo.paper",
    "the same with the settings of the paper: d = 512, nine modules, pretrained towers",
    ("train", "grow"),
    paper_classifier,
    part=ZOO,
    short=SHORT,
)
