"""The laws of networks for all kinds but the zoo's opponents, which have a file of their own."""

from __future__ import annotations

import pytest

from evodevo.spaces.layers import ConvolutionLayer, TransformerLayer
from evodevo.spaces.networks import (
    EnsembleNetwork,
    EnsembleStructure,
    HModelNetwork,
    StackNetwork,
    StackStructure,
)
from evodevo.testing.network_suite import NetworkCase, NetworkTests
from evodevo.testing.networks import small_structure

STACK = StackStructure(width=8, layers=(TransformerLayer(heads=2), ConvolutionLayer()), missing=True)
H_MODEL = small_structure(missing=True)
SILENT_AT_THE_START = ("core.routers", "core.input_routers")
"""Routers whose last layer starts at 0."""
CASES = {
    "h_model": NetworkCase(HModelNetwork(structure=H_MODEL), silent=SILENT_AT_THE_START, counted="elsewhere"),
    "stack": NetworkCase(StackNetwork(structure=STACK), counted="elsewhere"),
    "ensemble": NetworkCase(
        EnsembleNetwork(structure=EnsembleStructure(members=(STACK, STACK))), counted="elsewhere", joint=False
    ),
}


class TestNetworks(NetworkTests):
    """One of each kind."""

    @pytest.fixture(params=list(CASES))
    def case(self, request: pytest.FixtureRequest) -> NetworkCase:
        return CASES[request.param]
