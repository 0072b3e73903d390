"""Many tables that only weights can hold: routing to few layers, and opponents that run as many blocks for a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

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
from evodevo.operators.layers.base import LayerSpec
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.recipe import Baselines, Changes, Driver, Recipe, Size
from evodevo.settings import Settings, validate

PART = "blocks"
"""Name under which ``--set`` chooses: ``--set blocks.layer=transformer``."""
WIDTH = 32
HEADS = 4
ITERATIONS = 2
COUNT = 8
"""Hidden layers of the H-Model, and experts of a mixture."""
BALANCE_WEIGHT = 0.02
BALANCE = RegularisationStructure(balance=BALANCE_WEIGHT)
POOLED = RouterStructure(pool="mean")
"""There is one position; a pool of its own would only cost parameters."""
BARE: dict[str, Any] = {"width": WIDTH, "input_blocks": 0, "output_blocks": 0}
RATES = {"mlp": (2.5e-3, 5e-3, 1e-2), "transformer": (1.25e-3, 2.5e-3, 5e-3)}
"""By layer: a plain stack of two transformer layers is best at 2.5e-3."""
RATES_OF_DEEP = {"mlp": (1.25e-3, 2.5e-3), "transformer": (6.25e-4, 1.25e-3)}
"""Of eight blocks in a row; above, its error rises steadily."""
ATTENTION = (
    "A sample is one position: attention is a linear map of it, and its queries and keys decide nothing. A mixture has"
    " one attention for all of its experts, where each layer of an H-Model has its own."
)
WIDE = "Wide experts have no attention; they are as many parameters and FLOPs as the layers of an H-Model."


class BlocksSettings(Settings):
    """What all arms of ``h_model.domains`` are built of.

    Attributes:
        layer: ``mlp``, or ``transformer``: the same with attention in front, also in front of each mixture of experts.
            A sample is one position, so that attention is a linear map of it.
    """

    layer: Literal["mlp", "transformer"] = "mlp"

    @property
    def block(self) -> LayerSpec:
        """A layer of all arms."""
        if self.layer == "mlp":
            return MLPLayer(hidden=WIDTH)
        return TransformerLayer(heads=HEADS, feedforward=WIDTH)

    @property
    def half(self) -> LayerSpec:
        """A layer of half the parameters and FLOPs."""
        if self.layer == "mlp":
            return MLPLayer(hidden=WIDTH // 2)
        # At half the channels attention is a quarter; the adapters around it are the other.
        return TransformerLayer(width=WIDTH // 2, heads=HEADS // 2, feedforward=WIDTH)

    @property
    def heads(self) -> int | None:
        """Heads of the attention in front of each mixture."""
        return HEADS if self.layer == "transformer" else None


def domains(size: Size, driver: Driver, changes: Changes) -> ExperimentSettings:
    """Tables of 16 values, 32 of them: every arm runs about two blocks of width 32 for an answer, besides its routing.

    ``baselines``: ``none`` leaves the carried stream, the paper's, and what does not route; ``quick`` adds a mixture of
    experts in a loop; ``all`` adds every opponent.
    """
    changes.refuse_strategists()
    full = size == "full"
    chosen: Baselines = changes.baselines or ("all" if full else "quick")
    blocks = validate(BlocksSettings, dict(changes.part), what=f"settings of {PART}")
    arms = _arms(chosen, blocks)
    if full:
        arms.append(stack(_stack(blocks, COUNT), "stack of eight", learning_rates=RATES_OF_DEEP[blocks.layer]))
    return ExperimentSettings(
        experiment=Comparison(
            title="tables of many domains in the weights, applied once or twice",
            arms=tuple(arms),
            learning_rates=RATES[blocks.layer] if full else RATES[blocks.layer][-1:],
            seeds=3 if full else 1,
            caveats=(
                "A task of memory: all splits ask the same questions, so that errors are of learning alone.",
                "A plain stack of two holds 32 tables too; --set domains=96 tells the arms apart.",
                "The paper's stream is trained with all layers, at four times the FLOPs or more, and answers with one.",
                *_caveats(chosen, blocks),
            ),
        ),
        evaluation=evaluation(size, "domains", steps=3_000 if full else 800, batch_size=128),
    )


def _arms(chosen: Baselines, blocks: BlocksSettings) -> list[Variant]:
    routed = HModelStructure(
        **BARE, stream="paper", hidden=(blocks.block,) * COUNT, iterations=ITERATIONS, router=POOLED
    )
    carried = routed.model_copy(update={"stream": "carried", "regularisation": BALANCE})
    one = InferenceStructure(mode="target_topm", m=1)
    printed = routed.model_copy(update={"inference": one, "regularisation": BALANCE})
    fixed = RouterStructure(head="constant", value=1.0)
    loop = routed.model_copy(update={"hidden": (blocks.block,), "router": fixed})
    arms = [
        h_model(carried, "H-Model, carried stream, top-1"),
        h_model(printed, "H-Model, paper's stream, top-1 in use"),
        h_model(loop, "constant c = 1, one layer twice").model_copy(update={"role": "control"}),
        stack(_stack(blocks, ITERATIONS), "stack of two"),
    ]
    if chosen != "none":
        arms.append(
            _opponent(_mixture(blocks, tied=True, iteration_embedding=True), "mixture of experts in a loop, top-1")
        )
    if chosen == "all":
        # As many parameters and FLOPs as at top-1: twice the layers of half the units, of which twice as many run.
        halves = {"hidden": (blocks.half,) * (2 * COUNT), "carried": CarriedStructure(m=2, cap=2)}
        hyper = HyperConnectionsStructure(**_stack(blocks, ITERATIONS).model_dump(), streams=2, dynamic=True)
        # Uniform over 1 to 3 passes, two in the mean, if the loss on balance has its way.
        depth = RecursionStructure(
            **BARE, layers=(blocks.block,), most=2 * ITERATIONS - 1, iteration_embedding=True, balance=BALANCE_WEIGHT
        )
        arms += [
            h_model(carried.model_copy(update=halves), "H-Model, carried stream, top-2 of half layers"),
            _opponent(
                _mixture(
                    blocks, tied=True, iteration_embedding=True, style="st_moe", experts=2 * COUNT, hidden=WIDTH // 2
                ),
                "mixture of half experts in a loop, top-2",
            ),
            _opponent(_mixture(blocks), "Switch, two mixtures"),
            # A sample is one token here, which fills the slots of all experts: these share the units of one block.
            _opponent(
                _mixture(blocks, style="soft_moe", hidden=WIDTH // COUNT), "Soft MoE, two mixtures of small experts"
            ),
            _opponent(HyperConnectionsNetwork(structure=hyper), "stack of two, hyper-connections"),
            _opponent(RecursionNetwork(structure=depth), "one layer, 1 to 3 times by a router"),
        ]
    if chosen == "all" and blocks.layer == "transformer":
        # At one position attention costs as much as twice the width of hidden units.
        wide = {"hidden": 3 * WIDTH, "heads": None}
        arms += [
            _opponent(
                _mixture(blocks, tied=True, iteration_embedding=True, **wide),
                "mixture of wide experts in a loop, top-1",
            ),
            _opponent(_mixture(blocks, **wide), "Switch, two mixtures of wide experts"),
        ]
    return arms


def _stack(blocks: BlocksSettings, layers: int) -> StackStructure:
    return StackStructure(**BARE, layers=(blocks.block,) * layers)


def _mixture(blocks: BlocksSettings, **changes: Any) -> MixtureNetwork:
    losses = {} if changes.get("style") == "soft_moe" else {"balance": BALANCE_WEIGHT}
    values = {
        **BARE,
        "hidden": WIDTH,
        "depth": ITERATIONS,
        "experts": COUNT,
        "heads": blocks.heads,
        **losses,
        **changes,
    }
    return MixtureNetwork(structure=MixtureStructure.model_validate(values))


def _opponent(network: NetworkSpec, name: str) -> Variant:
    return Variant(name=name, role="opponent", network=network)


def _caveats(chosen: Baselines, blocks: BlocksSettings) -> Sequence[str]:
    said = _caveats_of_opponents(chosen)
    if blocks.layer == "transformer":
        said = (*said, ATTENTION, *((WIDE,) if chosen == "all" else ()))
    return said


def _caveats_of_opponents(chosen: Baselines) -> Sequence[str]:
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
    part=PART,
)
