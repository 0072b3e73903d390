"""Six languages in one causal model, whether it leaks, and whether its routes predict the language.

Source: docs/spec/h_model.md#experiments.
"""

from __future__ import annotations

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.h_model.aggregations.attention import AttentionAggregation
from evodevo.h_model.recipes import paper_tables
from evodevo.h_model.recipes.variants import evaluation, h_model, learning_rates, opponents
from evodevo.h_model.spec import HModelStructure
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import Recipe, Size, by_size


def languages(size: Size) -> ExperimentSettings:
    """The next byte; six invented languages unless ``--data`` names others."""
    full = size == "full"
    width = 128 if full else 64
    ours = HModelStructure(stream="paper", width=width, causal=True)
    four = ours.model_copy(update={"hidden": (TransformerLayer(),) * (4 if full else 2), "iterations": 4})
    once = ours.model_copy(update={"hidden": (TransformerLayer(),) * (6 if full else 4), "iterations": 1})
    arms = [h_model(four), h_model(once, "H-Model, T = 1"), *opponents(four, size)]
    if full:
        prefix = four.router.model_copy(update={"pool": "prefix_mean"})
        arms.append(h_model(four.model_copy(update={"router": prefix}), "H-Model, prefix mean"))
        arms.append(h_model(four.model_copy(update={"aggregation": AttentionAggregation()}), "H-Model, attention"))
    return ExperimentSettings(
        experiment=Comparison(
            title="several languages, next byte",
            arms=tuple(arms),
            learning_rates=learning_rates(size),
            seeds=3 if full else 1,
            paper=(paper_tables.LANGUAGES,),
            caveats=(
                "Accuracy is of next bytes; compare bits per byte with the bigram models below.",
                (
                    "'leak' is how much the answers before a position move when that position's token is changed; 0 is "
                    "causal."
                ),
                "Routes that predict the language count only beyond those of the same network before its training.",
            ),
        ),
        evaluation=evaluation(
            size,
            "languages",
            steps=20_000 if full else 1_400,
            batch_size=32,
            task_settings={"context_length": 128 if full else 64},
            routes="language",
        ),
    )


LANGUAGES = Recipe(
    "h_model.languages", "E2: six languages, causal, with a test for leaks", ("train",), by_size(languages)
)
