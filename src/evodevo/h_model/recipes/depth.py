"""Do H-Models stay trainable over many iterations, where deep stacks do not? And T in the test beyond T trained.

Source: docs/spec/h_model.md#experiments.
"""

from __future__ import annotations

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.settings import ProbeSettings
from evodevo.experiments.trials import Variant
from evodevo.h_model.opponents import compute_matched
from evodevo.h_model.recipes.variants import AT_THE_END, evaluation, h_model, learning_rates, opponents, stack
from evodevo.h_model.spec import HModelStructure, RegularisationStructure
from evodevo.networks.stacks.spec import StackStructure
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import Recipe, Size, by_size


def depth(size: Size) -> ExperimentSettings:
    """On k-hop pointers: T from 1 to 16 beside stacks as deep."""
    full = size == "full"
    base = HModelStructure(hidden=(TransformerLayer(),) * 2, iterations=4, output_blocks=0, router=AT_THE_END)
    times = (1, 2, 6, 8, 12, 16) if full else (12,)
    arms = [h_model(base), *opponents(base, size)]
    for iterations in times:
        arms += _as_deep(base.model_copy(update={"iterations": iterations}))
    if full:
        random = RegularisationStructure(iterations_min=2, iterations_max=8)
        arms.append(h_model(base.model_copy(update={"regularisation": random}), "H-Model, random T"))
    return ExperimentSettings(
        experiment=Comparison(
            title="stability over depth, on k-hop pointers",
            arms=tuple(arms),
            learning_rates=learning_rates(size, 2e-3),
            seeds=3 if full else 1,
            caveats=(
                "Each stack has as many blocks as the H-Model of its cell runs, and so T times its parameters.",
                "Norms of gradients per layer, before and after training, are among the facts of each individual.",
            ),
        ),
        evaluation=evaluation(
            size,
            "pointer",
            steps=4_000 if full else 1_200,
            probes=tuple(ProbeSettings(name=f"T = {t}", iterations=t) for t in (2, 8, 16)),
        ),
    )


def _as_deep(structure: HModelStructure) -> list[Variant]:
    """The H-Model, and stacks of as many blocks, with and without residual connections."""
    cell: dict[str, str | float] = {"T": float(structure.iterations)}
    deep: StackStructure = compute_matched(structure)
    return [
        h_model(structure, "H-Model, deep", cell=cell),
        stack(deep, "stack", cell=cell),
        stack(deep.model_copy(update={"residual": False}), "stack without residuals", role="control", cell=cell),
    ]


DEPTH = Recipe(
    "h_model.depth", "E7: stability over T, beside deep stacks with and without residuals", ("train",), by_size(depth)
)
