"""Many tables that only weights can hold: routing to few layers, and opponents that run as many blocks for a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.trials import Variant
from evodevo.h_model.recipes.variants import evaluation, h_model, stack
from evodevo.h_model.spec import CarriedStructure, HModelStructure, RegularisationStructure, RouterStructure
from evodevo.networks.mixtures.mixture import MixtureNetwork
from evodevo.networks.mixtures.spec import MixtureStructure
from evodevo.networks.routing.spec import InferenceStructure
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.stacks.hyper_connections import HyperConnectionsNetwork
from evodevo.networks.stacks.recursion import RecursionNetwork
from evodevo.networks.stacks.spec import HyperConnectionsStructure, RecursionStructure, StackStructure
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.runs.recipe import Baselines, Changes, Driver, Recipe, Size

WIDTH = 32
BLOCK = MLPLayer(hidden=WIDTH)
ITERATIONS = 2
COUNT = 8
"""Hidden layers of the H-Model, and experts of a mixture."""
BALANCE_WEIGHT = 0.02
BALANCE = RegularisationStructure(balance=BALANCE_WEIGHT)
POOLED = RouterStructure(pool="mean")
"""There is one position; a pool of its own would only cost parameters."""
BARE: dict[str, Any] = {"width": WIDTH, "input_blocks": 0, "output_blocks": 0}
RATES = (2.5e-3, 5e-3, 1e-2)
RATES_OF_DEEP = (1.25e-3, 2.5e-3)
"""Of eight blocks in a row; above, its error rises steadily."""


def domains(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """Tables of 16 values, 32 of them: every arm runs about two blocks of width 32 for an answer, besides its routing.

    ``baselines``: ``none`` leaves the carried stream, the paper's, and what does not route; ``quick`` adds a mixture of
    experts in a loop; ``all`` adds every opponent.
    """
    changes.refuse_strategists()
    full = size == "full"
    chosen: Baselines = changes.baselines or ("all" if full else "quick")
    arms = _arms(chosen)
    if full:
        arms.append(stack(_stack(COUNT), "stack of eight", learning_rates=RATES_OF_DEEP))
    return ExperimentSettings(
        experiment=Comparison(
            title="tables of many domains in the weights, applied once or twice",
            arms=tuple(arms),
            learning_rates=RATES if full else RATES[-1:],
            seeds=3 if full else 1,
            caveats=(
                "A task of memory: all splits ask the same questions, so that errors are of learning alone.",
                "A plain stack of two holds 32 tables too; --set domains=96 tells the arms apart.",
                "The paper's stream is trained with all layers, at four times the FLOPs or more, and answers with one.",
                *_caveats(chosen),
            ),
        ),
        evaluation=evaluation(size, "domains", steps=3_000 if full else 800, batch_size=128),
    )


def _arms(chosen: Baselines) -> list[Variant]:
    routed = HModelStructure(**BARE, hidden=(BLOCK,) * COUNT, iterations=ITERATIONS, router=POOLED)
    carried = routed.model_copy(update={"stream": "carried", "regularisation": BALANCE})
    one = InferenceStructure(mode="target_topm", m=1)
    printed = routed.model_copy(update={"inference": one, "regularisation": BALANCE})
    fixed = RouterStructure(head="constant", value=1.0)
    loop = routed.model_copy(update={"hidden": (BLOCK,), "router": fixed})
    arms = [
        h_model(carried, "H-Model, carried stream, top-1"),
        h_model(printed, "H-Model, paper's stream, top-1 in use"),
        h_model(loop, "constant c = 1, one layer twice").model_copy(update={"role": "control"}),
        stack(_stack(ITERATIONS), "stack of two"),
    ]
    if chosen != "none":
        arms.append(_opponent(_mixture(tied=True, iteration_embedding=True), "mixture of experts in a loop, top-1"))
    if chosen == "all":
        # As many parameters and FLOPs as at top-1: twice the layers of half the units, of which twice as many run.
        halves = {"hidden": (MLPLayer(hidden=WIDTH // 2),) * (2 * COUNT), "carried": CarriedStructure(m=2, cap=2)}
        hyper = HyperConnectionsStructure(**_stack(ITERATIONS).model_dump(), streams=2, dynamic=True)
        # Uniform over 1 to 3 passes, two in the mean, if the loss on balance has its way.
        depth = RecursionStructure(
            **BARE, layers=(BLOCK,), most=2 * ITERATIONS - 1, iteration_embedding=True, balance=BALANCE_WEIGHT
        )
        arms += [
            h_model(carried.model_copy(update=halves), "H-Model, carried stream, top-2 of half layers"),
            _opponent(
                _mixture(tied=True, iteration_embedding=True, style="st_moe", experts=2 * COUNT, hidden=WIDTH // 2),
                "mixture of half experts in a loop, top-2",
            ),
            _opponent(_mixture(), "Switch, two mixtures"),
            # A sample is one token here, which fills the slots of all experts: these share the units of one block.
            _opponent(_mixture(style="soft_moe", hidden=WIDTH // COUNT), "Soft MoE, two mixtures of small experts"),
            _opponent(HyperConnectionsNetwork(structure=hyper), "stack of two, hyper-connections"),
            _opponent(RecursionNetwork(structure=depth), "one layer, 1 to 3 times by a router"),
        ]
    return arms


def _stack(layers: int) -> StackStructure:
    return StackStructure(**BARE, layers=(BLOCK,) * layers)


def _mixture(**changes: Any) -> MixtureNetwork:
    losses = {} if changes.get("style") == "soft_moe" else {"balance": BALANCE_WEIGHT}
    values = {**BARE, "hidden": WIDTH, "depth": ITERATIONS, "experts": COUNT, **losses, **changes}
    return MixtureNetwork(structure=MixtureStructure.model_validate(values))


def _opponent(network: NetworkSpec, name: str) -> Variant:
    return Variant(name=name, role="opponent", network=network)


def _caveats(chosen: Baselines) -> Sequence[str]:
    if chosen == "none":
        return ("At top-1 a carried stream is close to a mixture of experts in a loop; --baselines quick adds one.",)
    if chosen == "quick":
        return ("Switch, Soft MoE, hyper-connections and routing of depth are added by --baselines all.",)
    return (
        "Switch has a router and eight experts in each of two mixtures, twice the parameters of the loop's.",
        "Soft MoE is not sparse for samples of one token: all of its experts run, each an eighth of a block.",
    )


DOMAINS = Recipe(
    "h_model.domains",
    "tables of many domains in the weights: sparse routing at equal executed FLOPs",
    ("train",),
    domains,
)
