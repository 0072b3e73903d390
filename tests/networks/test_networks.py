"""The laws of networks for all kinds but the zoo's opponents, which have a file of their own."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo.h_model.network import HModelNetwork
from evodevo.module_zoo.baselines.ensemble import ModuleEnsembleNetwork
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import FusionStructure, ZooRouterStructure, ZooStructure
from evodevo.networks.spec import NETWORKS
from evodevo.networks.stacks.ensemble import EnsembleNetwork
from evodevo.networks.stacks.spec import EnsembleStructure, StackStructure
from evodevo.networks.stacks.stack import StackNetwork
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.operators.layers.convolution import ConvolutionLayer
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.settings import merge, validate
from evodevo.testing.network_suite import TASKS, NetworkCase, NetworkTests
from evodevo.testing.networks import small_structure

STACK = StackStructure(width=8, layers=(TransformerLayer(heads=2), ConvolutionLayer()), missing=True)
H_MODEL = small_structure(missing=True)
SILENT_AT_THE_START = ("core.routers", "core.input_routers")
"""Routers whose last layer starts at 0."""
MODULES = [{"kind": "genotype", "module": one.model_dump(mode="json")} for one in start_zoo(8)[1:3]]
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


CASES = {
    "h_model": NetworkCase(HModelNetwork(structure=H_MODEL), silent=SILENT_AT_THE_START, counted="elsewhere"),
    "h_model of modules": NetworkCase(
        HModelNetwork(structure=small_structure(missing=True, hidden=MODULES, iterations=2)),
        silent=SILENT_AT_THE_START,
        counted="elsewhere",
    ),
    "stack": NetworkCase(StackNetwork(structure=STACK), counted="elsewhere"),
    "ensemble": NetworkCase(
        EnsembleNetwork(structure=EnsembleStructure(members=(STACK, STACK))), counted="elsewhere", joint=False
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
