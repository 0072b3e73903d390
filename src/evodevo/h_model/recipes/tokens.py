"""The next byte of real text: routing of single tokens to few layers, against what costs as much for a token."""

from __future__ import annotations

from typing import Any

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.h_model.recipes.variants import evaluation, h_model, stack
from evodevo.h_model.spec import CarriedStructure, HModelStructure, RegularisationStructure
from evodevo.networks.mixtures.mixture import MixtureNetwork
from evodevo.networks.mixtures.spec import MixtureStructure
from evodevo.networks.stacks.spec import StackStructure
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import Baselines, Changes, Driver, Recipe, Size

WIDTHS = {"quick": 64, "full": 128}
HEADS = 4
BLOCKS = 5
"""Transformer blocks that a token may cost, 16 d² multiply-adds each and the scores."""
COUNT = 16
EXPERTS = 8
BALANCE = 0.02
SHARP = 0.1
"""Another alpha, for comparison: the router decides sooner, and its gradients are larger."""
RATES = (2e-3, 4e-3, 8e-3)


def tokens(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """Every arm costs a token about five transformer blocks, besides its routing.

    ``baselines``: ``none`` leaves the H-Model and what does not route; ``quick`` adds Switch; ``all`` adds other uses
    of the same layers.
    """
    changes.refuse_strategists()
    full = size == "full"
    chosen: Baselines = changes.baselines or ("all" if full else "quick")
    return ExperimentSettings(
        experiment=Comparison(
            title="next byte of several texts, layers of each token",
            arms=tuple(_arms(WIDTHS["full" if full else "quick"], chosen)),
            learning_rates=RATES if full else RATES[-1:],
            seeds=3 if full else 1,
            caveats=(
                "All arms cost a token about as much and are not of one size: those that route have more parameters.",
                "Routes that predict the language count only beyond those of the same network before its training.",
            ),
        ),
        evaluation=evaluation(
            size,
            "languages",
            steps=4_000 if full else 1_000,
            batch_size=32,
            task_settings={"context_length": 64},
            routes="language",
        ),
    )


def _arms(width: int, chosen: Baselines) -> list[Variant]:
    block, layer = TransformerLayer(heads=HEADS), MLPLayer(hidden=4 * width)

    def ends(blocks: int) -> dict[str, Any]:
        return {"width": width, "input_blocks": blocks, "output_blocks": 0, "causal": True}

    def switch(blocks: int, **changes: Any) -> MixtureNetwork:
        values = {**ends(blocks), "experts": EXPERTS, "balance": BALANCE, **changes}
        return MixtureNetwork(structure=MixtureStructure.model_validate(values))

    routed = HModelStructure(
        **ends(BLOCKS - 2),
        hidden=(layer,) * COUNT,
        iterations=2,
        stream="carried",
        carried=CarriedStructure(iteration_router=True),
        regularisation=RegularisationStructure(balance=BALANCE),
    )
    loop = StackStructure(**ends(1), layers=(block,), repeats=BLOCKS - 1, iteration_embedding=True)
    # Feed-forward layers of 4 d units cost as much as transformer blocks of 2 d units without their scores.
    arms = [
        h_model(routed, "H-Model, carried stream, top-1"),
        stack(StackStructure(**ends(1), layers=(block,) * (BLOCKS - 1)), "stack of five"),
        stack(loop, "one layer four times", role="control"),
    ]
    if chosen != "none":
        arms.append(_opponent(switch(1, depth=BLOCKS - 1, hidden=2 * width, heads=HEADS), "Switch, four mixtures"))
    if chosen == "all":
        arms += [
            stack(StackStructure(**ends(BLOCKS - 2), layers=(layer,) * 2), "three blocks and two feed-forward layers"),
            _opponent(switch(BLOCKS - 2, depth=2, hidden=4 * width), "three blocks and two Switch mixtures"),
            h_model(routed.model_copy(update={"alpha": SHARP}), "H-Model, carried stream, top-1, alpha 0.1"),
        ]
    return arms


def _opponent(network: MixtureNetwork, name: str) -> Variant:
    return Variant(name=name, role="opponent", network=network)


TOKENS = Recipe(
    "h_model.tokens",
    "next byte of several texts: a route for each token at equal executed FLOPs",
    ("train",),
    tokens,
)
