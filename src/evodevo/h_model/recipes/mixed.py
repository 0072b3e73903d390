"""Convolution and transformer layers in one H-Model, with equal and with unequal routers.

Source: docs/spec/h_model.md#experiments.
"""

from __future__ import annotations

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.h_model.recipes.variants import evaluation, h_model, learning_rates, opponents
from evodevo.h_model.spec import HModelStructure
from evodevo.operators.layers.convolution import ConvolutionLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import Recipe, Size, by_size


def mixed(size: Size) -> ExperimentSettings:
    """The paper's convolutions had the simpler router; here both have the same one, and that as it was."""
    full = size == "full"
    half = 3 if full else 2
    transformers, convolutions = (TransformerLayer(),) * half, (ConvolutionLayer(),) * half
    simple = (ConvolutionLayer(router="channel"),) * half
    base = HModelStructure(width=128 if full else 64, hidden=(*transformers, *convolutions), iterations=3)

    def of(*layers: TransformerLayer | ConvolutionLayer) -> HModelStructure:
        return base.model_copy(update={"hidden": layers})

    arms = [
        h_model(base, "H-Model, equal routers"),
        h_model(of(*transformers, *simple), "H-Model, channel routers of convolutions"),
        h_model(of(*transformers, *transformers), "H-Model, transformers alone"),
        h_model(of(*convolutions, *convolutions), "H-Model, convolutions alone"),
        *opponents(base, size),
    ]
    return ExperimentSettings(
        experiment=Comparison(
            title="convolutions and transformers in one network, on images and captions",
            arms=tuple(arms),
            learning_rates=learning_rates(size),
            seeds=3 if full else 1,
            caveats=(
                (
                    "The paper reads simpler routes of convolutions as their nature (Figure 16), but gave them a "
                    "simpler router; where routes differ with equal routers too, they differ by the layer."
                ),
                "'Tr(I+H+O)' here is the same layers one after the other, convolutions among them.",
            ),
        ),
        evaluation=evaluation(
            size, "image_text", steps=10_000 if full else 900, batch_size=32, task_settings={"form": "both"}
        ),
    )


MIXED = Recipe(
    "h_model.mixed", "E5: convolution and transformer layers, equal and unequal routers", ("train",), by_size(mixed)
)
