"""The baselines of a zoo of modules: other zoos, other searches, other networks.

Source: docs/spec/architect_thyself.md#opponents.

All have the zoo's width, extractors, dropout and treatment of missing inputs. Networks have about as many parameters as
the zoo; searches have its whole budget, of which the search is a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from evodevo.errors import unknown_name
from evodevo.experiments.trials import Role, Variant
from evodevo.module_zoo.baselines.cost import baseline_cost
from evodevo.module_zoo.baselines.ensemble import ModuleEnsembleNetwork
from evodevo.module_zoo.baselines.network import BaselineNetwork
from evodevo.module_zoo.baselines.spec import BaselineStructure, FusionStyle
from evodevo.module_zoo.cost import zoo_cost
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.zoo import random_zoo, table_3_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.canvas import fitting_heads
from evodevo.networks.mixtures.spec import MixtureStyle
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.randomness import generator
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec

Opponents = Literal["none", "quick", "all"]
Style = FusionStyle | MixtureStyle

STYLES: dict[Style, str] = {
    "concat_mlp": "concat MLP",
    "late_fusion": "late fusion",
    "gated_unit": "gated multimodal unit",
    "two_stream": "two streams (ViLBERT-like)",
    "cross_modality": "cross-modality (LXMERT-like)",
    "switch": "Switch",
    "st_moe": "ST-MoE",
    "soft_moe": "Soft MoE",
    "dyn_moe": "DynMoE-like",
}
SEARCHES = {
    "best_single": "best single archetype",
    "darts": "DARTS-like",
    "enas": "ENAS-like",
    "random_pools": "random search over pools",
}
"""Procedure -> name of its arm. Each searches within the budget that the others are trained with."""
CONTROLS: dict[Literal["mean", "mlp_gate"], str] = {"mean": "mean of all modules", "mlp_gate": "gate by a small MLP"}
"""Kind of router -> name of its arm."""
QUICK = frozenset(
    {STYLES["concat_mlp"], STYLES["late_fusion"], SEARCHES["best_single"], STYLES["switch"], CONTROLS["mean"]}
)

DEPTHS = (2, 1)
"""Layers that are tried, the first that leaves room for ``FEWEST_UNITS`` is taken."""
FEWEST_UNITS = 8
IMAGE = InputSpec("image", "image", height=32, width=32, channels=3)
TEXT = InputSpec("text", "tokens", length=32, vocabulary=256)
ANSWER = OutputSpec("answer", "class", 2)


def opponents(
    structure: ZooStructure,
    which: Opponents,
    seed: int = 0,
    *,
    inputs: Sequence[InputSpec] = (IMAGE, TEXT),
    outputs: Sequence[OutputSpec] = (ANSWER,),
) -> tuple[Variant, ...]:
    """The arms beside a zoo.

    Args:
        structure: structure of the zoo, which is no opponent of its own: arms that would be the same network are left
            out.
        which: ``none``; ``quick``, five that are cheap and informative; ``all``.
        seed: seed of the random zoo.
        inputs, outputs: inputs and outputs for which networks are made as large as the zoo; an image and a text if left
            out.

    Raises:
        UsageError: an unknown ``which``.
    """
    if which not in get_args(Opponents):
        raise unknown_name("set of opponents", which, get_args(Opponents))
    if which == "none":
        return ()
    arms = (
        *_zoos(structure, seed),
        *(_zoo_arm(name, "opponent", structure, procedure) for procedure, name in SEARCHES.items()),
        *(
            Variant(
                name=name,
                role="opponent",
                network=BaselineNetwork(structure=matched(style, structure, inputs, outputs)),
            )
            for style, name in STYLES.items()
        ),
        Variant(
            name="mean of modules trained alone",
            role="opponent",
            network=ModuleEnsembleNetwork(structure=structure),
        ),
        *(
            _zoo_arm(
                name,
                "control",
                structure.model_copy(update={"router": structure.router.model_copy(update={"kind": kind})}),
            )
            for kind, name in CONTROLS.items()
            if structure.router.kind != kind
        ),
    )
    return tuple(arm for arm in arms if which == "all" or arm.name in QUICK)


def matched(
    style: Style,
    structure: ZooStructure,
    inputs: Sequence[InputSpec] = (IMAGE, TEXT),
    outputs: Sequence[OutputSpec] = (ANSWER,),
) -> BaselineStructure:
    """An opponent with as many parameters as the zoo, as near as its hidden units allow.

    A mixture has as many experts as the zoo has modules. Where even the smallest is larger than the zoo, it is taken.

    Args:
        style: kind of the opponent.
        structure: structure of the zoo.
        inputs, outputs: inputs and outputs for which they are equally large; both read them with the built-in
            extractors here, whatever the structure, since they share them anyway.
    """
    live = len(structure.live)
    plain = structure.model_copy(update={"extractors": {}, "extractor": ExtractorStructure(blocks=0)})
    cost = zoo_cost(plain, inputs=inputs, outputs=outputs)
    wanted = cost.parameters + cost.embedding_parameters

    def opponent(layers: int, hidden: int) -> BaselineStructure:
        return BaselineStructure(
            style=style,
            width=structure.width,
            layers=layers,
            heads=fitting_heads(structure.width),
            hidden=hidden,
            experts=max(2, live),
            extractor=plain.extractor,
            dropout=structure.dropout,
            missing=structure.missing,
        )

    def size(layers: int, hidden: int) -> int:
        cost = baseline_cost(opponent(layers, hidden), inputs=inputs, outputs=outputs)
        return cost.parameters + cost.embedding_parameters

    layers = next((depth for depth in DEPTHS if size(depth, FEWEST_UNITS) <= wanted), DEPTHS[-1])
    low, high = FEWEST_UNITS, 2 * FEWEST_UNITS
    while size(layers, high) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(layers, middle) <= wanted else (low, middle)
    hidden = min((low, high), key=lambda units: abs(size(layers, units) - wanted))
    own = {"extractors": structure.extractors, "extractor": structure.extractor}
    return opponent(layers, hidden).model_copy(update=own)


def _zoos(structure: ZooStructure, seed: int) -> tuple[Variant, ...]:
    """Other pools with the same router: that of Table 3, and a random one of the same number of modules."""
    width, own = structure.width, {module.genotype for module in structure.live}
    pools: dict[str, tuple[ZooModule, ...]] = {
        "fixed zoo of Table 3": table_3_zoo(width),
        "random zoo": random_zoo(width, max(1, len(structure.live)), generator(seed, "random zoo")),
    }
    return tuple(
        _zoo_arm(name, "zoo", structure.model_copy(update={"modules": modules, "disabled": ()}))
        for name, modules in pools.items()
        if {module.genotype for module in modules} != own
    )


def _zoo_arm(name: str, role: Role, structure: ZooStructure, procedure: str = "train") -> Variant:
    return Variant(name=name, role=role, network=ModuleZooNetwork(structure=structure), procedure=procedure)
