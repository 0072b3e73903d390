"""The laws of networks for all kinds but the zoo's opponents, which have a file of their own; the cost of stacks."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from evodevo.errors import UsageError
from evodevo.h_model.cost import h_model_cost, h_model_parameters
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.opponents import compute_matched, parameter_matched, universal
from evodevo.h_model.spec import CarriedStructure, preset
from evodevo.module_zoo.baselines.ensemble import ModuleEnsembleNetwork
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import FusionStructure, ZooRouterStructure, ZooStructure
from evodevo.networks.mixtures.mixture import MixtureNetwork
from evodevo.networks.mixtures.spec import MixtureStructure, MixtureStyle
from evodevo.networks.spec import NETWORKS
from evodevo.networks.stacks.ensemble import EnsembleNetwork
from evodevo.networks.stacks.hyper_connections import HyperConnectionsNetwork
from evodevo.networks.stacks.recursion import RecursionNetwork
from evodevo.networks.stacks.spec import (
    EnsembleStructure,
    HyperConnectionsStructure,
    RecursionStructure,
    StackStructure,
)
from evodevo.networks.stacks.stack import StackNetwork, stack_cost
from evodevo.networks.stacks.stack_model import LayerStack
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.operators.layers.convolution import ConvolutionLayer
from evodevo.operators.layers.mlp import MLPLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.settings import merge, validate
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.network_suite import TASKS, NetworkCase, NetworkTests
from evodevo.testing.networks import small_structure

STACK = StackStructure(width=8, layers=(TransformerLayer(heads=2), ConvolutionLayer()), missing=True)
TRANSFORMER = {"kind": "transformer", "heads": 2, "feedforward": 12}
SILENT_AT_THE_START = ("core.routers", "core.input_routers")
"""Routers whose last layer starts at 0."""
MODULES = [{"kind": "genotype", "module": one.model_dump(mode="json")} for one in start_zoo(8)[1:3]]
CARRIED = small_structure(stream="carried", router={"hidden": None}, missing=True, hidden=[TRANSFORMER, *MODULES])
ZOO = ZooStructure(
    width=8,
    modules=start_zoo(8)[:3],
    fusion=FusionStructure(heads=2),
    router=ZooRouterStructure(heads=2),
    extractor=ExtractorStructure(blocks=1),
    dropout=0.0,
)
PAIR = ZOO.model_copy(update={"disabled": (ZOO.modules[0].id,)})


def zoo(**changes: Any) -> ZooStructure:
    """A small zoo with changes as nested plain data; its modules keep laws of their own."""
    values = ZOO.model_dump(mode="json")
    return validate(ZooStructure, merge(values, changes), what="a small zoo")


SMALL_MIXTURE: dict[str, Any] = {"width": 8, "hidden": 12, "missing": True, "z": 0.0}


def hyper(**changes: Any) -> HyperConnectionsStructure:
    """The small stack with hyper-connections."""
    return HyperConnectionsStructure.model_validate({**STACK.model_dump(), "streams": 3, **changes})


CASES = {
    "h_model": NetworkCase(
        HModelNetwork(structure=small_structure(missing=True, hidden=[TRANSFORMER, *MODULES])),
        silent=SILENT_AT_THE_START,
        counted="elsewhere",
    ),
    "h_model with a carried stream": NetworkCase(
        HModelNetwork(structure=CARRIED), silent=SILENT_AT_THE_START, counted="elsewhere"
    ),
    "stack": NetworkCase(StackNetwork(structure=STACK), counted="elsewhere"),
    "ensemble": NetworkCase(
        EnsembleNetwork(structure=EnsembleStructure(members=(STACK, STACK))), counted="elsewhere", joint=False
    ),
    **{
        f"mixture of the style {style}": NetworkCase(
            MixtureNetwork(structure=MixtureStructure(style=style, experts=3, slots=2, **SMALL_MIXTURE)),
            counted="most" if style == "dyn_moe" else "exactly",
        )
        for style in get_args(MixtureStyle)
    },
    "mixture in a loop": NetworkCase(
        MixtureNetwork(structure=MixtureStructure(tied=True, iteration_embedding=True, experts=3, **SMALL_MIXTURE))
    ),
    "mixture in a loop, a router for each pass": NetworkCase(
        MixtureNetwork(structure=MixtureStructure(tied=True, pass_routers=True, experts=3, **SMALL_MIXTURE))
    ),
    "mixture with attention": NetworkCase(
        MixtureNetwork(structure=MixtureStructure(heads=2, experts=3, **SMALL_MIXTURE))
    ),
    "mixture with attention in a loop": NetworkCase(
        MixtureNetwork(structure=MixtureStructure(heads=2, tied=True, depth=3, experts=3, **SMALL_MIXTURE))
    ),
    "hyper_connections, static": NetworkCase(HyperConnectionsNetwork(structure=hyper()), counted="elsewhere"),
    "hyper_connections, dynamic": NetworkCase(
        HyperConnectionsNetwork(structure=hyper(dynamic=True)),
        silent=("connections.0.scales", "connections.1.scales"),  # their factors begin at 0
        counted="elsewhere",
    ),
    "recursion": NetworkCase(
        RecursionNetwork(
            structure=RecursionStructure(
                width=8, layers=(TransformerLayer(heads=2),), iteration_embedding=True, missing=True
            )
        ),
        counted="most",
    ),
    "module_zoo": NetworkCase(ModuleZooNetwork(structure=ZOO), counted="most"),
    "module_zoo of genotype keys and one vector": NetworkCase(
        ModuleZooNetwork(structure=zoo(router={"keys": "genotype", "top_k": 2}, mode="vector", chunks=4)),
        counted="elsewhere",
    ),
    "module_zoo with a predictor, of a text": NetworkCase(
        ModuleZooNetwork(
            structure=zoo(
                router={"keys": "predictor", "top_k": 2, "gate": "softmax", "synergy": "bilinear"}, pool="attention"
            )
        ),
        inputs=TASKS["text"],
        silent=("predictor.inner", "senses.statistics"),  # the predictor's last layer starts at 0
        counted="elsewhere",
    ),
    "module_ensemble": NetworkCase(ModuleEnsembleNetwork(structure=PAIR), counted="most", joint=False),
}


class TestNetworks(NetworkTests):
    """One of each kind."""

    @pytest.fixture(params=list(CASES))
    def case(self, request: pytest.FixtureRequest) -> NetworkCase:
        return CASES[request.param]


def test_every_network_is_among_the_cases() -> None:
    """Of the library; ``baseline``, and ``backbone``, which answers in tokens, have test files of their own."""
    covered = {case.spec.kind for case in CASES.values()} | {"baseline", "backbone"}
    assert {name for name in NETWORKS if not name.startswith("testing.")} == covered


# The cost of stacks


TOKENS = InputSpec("words", "tokens", length=12, vocabulary=50)
VECTOR = InputSpec("numbers", "vector", size=7)
CLASS = OutputSpec("answer", "class", 5)
NEXT = OutputSpec("next", "tokens", 50, of="words")
ENDS: dict[str, Any] = {"inputs": (TOKENS,), "outputs": (CLASS,)}


@pytest.mark.slow
@given(
    layers=st.lists(st.sampled_from([TransformerLayer(), MLPLayer(width=48), ConvolutionLayer()]), max_size=4),
    repeats=st.integers(1, 3),
    causal=st.booleans(),
    residual=st.booleans(),
    timed=st.booleans(),
)
@settings(max_examples=8, deadline=None)
def test_stated_stacks_are_built_and_run(layers: Any, repeats: int, causal: bool, residual: bool, timed: bool) -> None:
    structure = StackStructure(
        width=32,
        layers=tuple(layers),
        repeats=repeats,
        causal=causal,
        residual=residual,
        iteration_embedding=timed,
    )
    inputs, outputs = ((TOKENS,), (NEXT,)) if causal else ((TOKENS, VECTOR), (CLASS,))
    batch = {"words": torch.zeros(1, 12, dtype=torch.long), "numbers": torch.zeros(1, 7)}
    with torch.device("meta"):
        model = LayerStack(structure, inputs, outputs)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model({name: tensor.to("meta") for name, tensor in batch.items()})
    cost = stack_cost(structure, inputs=inputs, outputs=outputs)
    assert cost.parameters + cost.embedding_parameters == sum(p.numel() for p in model.parameters())
    taps = 2 * 3 * 32 * sum(isinstance(layer, ConvolutionLayer) for layer in layers) * repeats
    assert cost.executed_flops - taps * (12 if causal else 13) == counter.get_total_flops()
    assert (cost.cache_bytes > 0) == causal


def test_matched_opponents_match() -> None:
    """Tr(I + H + O) has the H-Model's blocks, Tr(I + H T + O) runs as many (docs/spec/h_model.md#fair-comparison)."""
    structure = preset("balanced", stream="paper")
    parts = h_model_parameters(structure, (TOKENS,), (CLASS,))
    routing = parts["routers"] + parts["iterations"]
    whole = HModelNetwork(structure=structure).cost(**ENDS)
    few = StackNetwork(structure=parameter_matched(structure)).cost(**ENDS)
    many = StackNetwork(structure=compute_matched(structure)).cost(**ENDS)
    tied = StackNetwork(structure=universal(structure)).cost(**ENDS)
    assert few.parameters == whole.parameters - routing
    assert tied.parameters == few.parameters + structure.iterations * structure.width
    assert many.flops == tied.flops
    assert few.flops < many.flops < whole.flops < 1.1 * many.flops
    assert whole == h_model_cost(structure, **ENDS)


def test_the_opponent_of_equal_compute_runs_as_many_layers_as_a_carried_stream() -> None:
    """Two of four layers in each of four iterations are eight blocks."""
    structure = preset("balanced", carried=CarriedStructure(m=2))
    whole = HModelNetwork(structure=structure).cost(**ENDS)
    many = StackNetwork(structure=compute_matched(structure)).cost(**ENDS)
    assert len(compute_matched(structure).layers) == 8
    assert many.executed_flops < whole.executed_flops < 1.1 * many.executed_flops


@pytest.mark.parametrize("tied", [False, True])
def test_a_causal_mixture_with_attention_keeps_what_as_many_transformer_layers_keep(tied: bool) -> None:
    mixture = MixtureNetwork(structure=MixtureStructure(width=8, depth=3, heads=2, tied=tied, causal=True))
    layers = (TransformerLayer(heads=2),) * (1 if tied else 3)
    stack = StackNetwork(structure=StackStructure(width=8, layers=layers, repeats=3 if tied else 1, causal=True))
    sizes: dict[str, Any] = {"inputs": (TOKENS,), "outputs": (NEXT,), "batch": 2}
    assert mixture.cost(**sizes).cache_bytes == stack.cost(**sizes).cache_bytes > 0


def test_batch_and_training_multiply_and_members_add_up() -> None:
    structure = StackStructure(causal=True)
    one, four = (stack_cost(structure, length=9, batch=batch) for batch in (1, 4))
    assert (four.flops, four.cache_bytes, four.parameters) == (4 * one.flops, 4 * one.cache_bytes, one.parameters)
    assert stack_cost(structure, length=9, mode="train").flops == 3 * one.flops
    with pytest.raises(UsageError, match="positions"):
        stack_cost(structure)
    members = (StackStructure(width=32), StackStructure(width=64, repeats=2))
    whole = EnsembleNetwork(structure=EnsembleStructure(members=members)).cost(**ENDS)
    each = [StackNetwork(structure=member).cost(**ENDS) for member in members]
    for name, value in whole.to_json().items():
        assert value == sum(one.to_json()[name] for one in each)
