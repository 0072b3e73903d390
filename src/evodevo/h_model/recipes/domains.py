"""Many tables that only weights can hold: routing to few layers, and arms that run as many blocks for all samples."""

from __future__ import annotations

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.h_model.recipes.variants import evaluation, h_model, learning_rates, stack
from evodevo.h_model.spec import CarriedStructure, HModelStructure, RegularisationStructure, RouterStructure
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.networks.stacks.spec import StackStructure
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.runs.recipe import Recipe, Size, by_size

WIDTH = 32
BLOCK = MLPLayer(hidden=WIDTH)
ITERATIONS = 2
BALANCE = RegularisationStructure(balance=0.02)
POOLED = RouterStructure(pool="mean")
"""There is one position; a pool of its own would only cost parameters."""


def domains(size: Size) -> ExperimentSettings:
    """32 tables of 16 values: every arm runs two blocks of width 32 for each answer, besides its routing."""
    full = size == "full"
    routed = HModelStructure(
        width=WIDTH, hidden=(BLOCK,) * 8, iterations=ITERATIONS, input_blocks=0, output_blocks=0, router=POOLED
    )
    carried = routed.model_copy(update={"stream": "carried", "regularisation": BALANCE})
    one = InferenceStructure(mode="target_topm", m=1)
    printed = routed.model_copy(update={"inference": one, "regularisation": BALANCE})
    fixed = RouterStructure(head="constant", value=1.0)
    loop = routed.model_copy(update={"hidden": (BLOCK,), "router": fixed})
    bare = StackStructure(width=WIDTH, layers=(BLOCK,) * ITERATIONS, input_blocks=0, output_blocks=0)
    arms = [
        h_model(carried, "H-Model, carried stream, top-1"),
        h_model(printed, "H-Model, paper's stream, top-1 in use"),
        h_model(loop, "constant c = 1, one layer twice").model_copy(update={"role": "control"}),
        stack(bare, "stack of two"),
    ]
    if full:
        two = carried.model_copy(update={"carried": CarriedStructure(m=2)})
        arms += [
            h_model(two, "H-Model, carried stream, top-2"),
            stack(bare.model_copy(update={"layers": (BLOCK,) * 8}), "stack of eight"),
        ]
    return ExperimentSettings(
        experiment=Comparison(
            title="tables of many domains in the weights, applied once or twice",
            arms=tuple(arms),
            learning_rates=learning_rates(size, 5e-3),
            seeds=3 if full else 1,
            caveats=(
                "A task of memory: all splits ask the same questions, so that errors are of learning alone.",
                "The paper's stream is trained with all layers, at four times the FLOPs or more, and answers with one.",
                "At top-1 a carried stream is close to a mixture of experts in a loop; that is no arm here.",
            ),
        ),
        evaluation=evaluation(size, "domains", steps=3_000 if full else 800, batch_size=128),
    )


DOMAINS = Recipe(
    "h_model.domains",
    "tables of many domains in the weights: sparse routing at equal executed FLOPs",
    ("train",),
    by_size(domains),
)
