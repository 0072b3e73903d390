"""Alpha and its rate over iterations: accuracy, depth that is used, and what is left after top-k.

Source: docs/spec/h_model.md#experiments.
"""

from __future__ import annotations

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import ProbeSettings
from evodevo.h_model.recipes.variants import AT_THE_END, evaluation, h_model, learning_rates, opponents
from evodevo.h_model.spec import HModelStructure
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import Recipe, Size, by_size

ALPHAS = (0.1, 0.3, 1.0, 3.0)
RATES = (0.7, 1.0, 1.4)


def alpha(size: Size) -> ExperimentSettings:
    """On k-hop pointers, where depth is needed."""
    full = size == "full"
    count = 4 if full else 2
    base = HModelStructure(hidden=(TransformerLayer(),) * count, iterations=4, output_blocks=0, router=AT_THE_END)
    cells = [(a, r) for a in ALPHAS for r in RATES] if full else [(0.1, 1.0), (1.0, 0.7)]
    arms = [h_model(base), *opponents(base, size)]
    arms += [
        h_model(base.model_copy(update={"alpha": a, "alpha_rate": r}), "H-Model, alpha", cell={"alpha": a, "rate": r})
        for a, r in cells
    ]
    if full:
        arms += [
            h_model(base.model_copy(update={"alpha": a, "alpha_end": 0.1}), "H-Model, annealed", cell={"alpha": a})
            for a in (1.0, 3.0)
        ]
    return ExperimentSettings(
        experiment=Comparison(
            title="alpha and its rate, on k-hop pointers",
            arms=tuple(arms),
            learning_rates=learning_rates(size, 2e-3),
            seeds=3 if full else 1,
            caveats=(
                (
                    "A small alpha does not make routing sparse but binary: before training about half of all c are "
                    "above 0.5 at every alpha (docs/spec/h_model.md#starting-biases)."
                ),
            ),
        ),
        evaluation=evaluation(
            size,
            "pointer",
            steps=4_000 if full else 1_400,
            probes=(
                *(
                    ProbeSettings(name=f"top-{k}", inference=InferenceStructure(mode="source_topk", k=k))
                    for k in (1, 2)
                ),
                ProbeSettings(name="c above 0.5", inference=InferenceStructure(mode="threshold", threshold=0.5)),
            ),
        ),
    )


ALPHA = Recipe("h_model.alpha", "E6: alpha and its rate: accuracy, depth, sparsity", ("train",), by_size(alpha))
