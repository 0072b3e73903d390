"""Images and captions, two answers in one run, and whether the image stays connected when alpha is small.

Source: docs/spec/h_model.md#experiments.
"""

from __future__ import annotations

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import ProbeSettings
from evodevo.h_model.aggregations.attention import AttentionAggregation
from evodevo.h_model.recipes.variants import evaluation, h_model, learning_rates, opponents
from evodevo.h_model.spec import HModelStructure
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import Recipe, Size, by_size


def image_text(size: Size) -> ExperimentSettings:
    """An answer about the picture, and whether the caption is its own; generated scenes unless ``--data`` is given."""
    full = size == "full"
    base = HModelStructure(
        stream="paper", width=128 if full else 64, hidden=(TransformerLayer(),) * (4 if full else 2), iterations=4
    )
    alphas = (0.1, 0.3, 3.0) if full else (0.1,)
    arms = [h_model(base), *opponents(base, size)]
    arms += [h_model(base.model_copy(update={"alpha": a}), "H-Model, alpha", cell={"alpha": a}) for a in alphas]
    if full:
        arms.append(h_model(base.model_copy(update={"canvas": "latents"}), "H-Model, latents"))
        arms.append(h_model(base.model_copy(update={"aggregation": AttentionAggregation()}), "H-Model, attention"))
        for form in ("multilabel", "caption_match", "match"):
            arms += [
                h_model(
                    base.model_copy(update={"alpha": a}), f"H-Model, {form}", cell={"alpha": a}, task={"form": form}
                )
                for a in (0.1, 1.0)
            ]
    return ExperimentSettings(
        experiment=Comparison(
            title="images and captions: an answer and a match",
            arms=tuple(arms),
            learning_rates=learning_rates(size),
            seeds=3 if full else 1,
            caveats=(
                (
                    "'other image' and 'other text' give that input of another sample: what is lost is what was read "
                    "from it. The match cannot be derived from one side alone."
                ),
                "The paper says that at alpha = 0.1 the image input lost its connections (Figure 17); see the trace.",
            ),
        ),
        evaluation=evaluation(
            size,
            "image_text",
            steps=10_000 if full else 1_300,
            batch_size=32,
            task_settings={"form": "both"},
            probes=()
            if full
            else (
                ProbeSettings(name="other image", shuffle=("image",)),
                ProbeSettings(name="other text", shuffle=("text",)),
            ),
        ),
    )


IMAGE_TEXT = Recipe("h_model.image_text", "E4: image and caption, two answers at once", ("train",), by_size(image_text))
