"""The conformance suite over every kind of router, every gate, and every switch of the graph attention router."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from evodevo.module_zoo.spec import Gate, ZooRouterStructure
from evodevo.testing.module_routers import ModuleRouterCase, ModuleRouterTests

SWITCHES: tuple[dict[str, Any], ...] = (
    {"top_k": None},
    {"top_k": 2, "train_top_k": "straight_through"},
    {"top_k": 2, "train_top_k": "gumbel"},
    {"synergy": "off"},
    {"synergy": "complement", "synergy_self": True, "synergy_activation": "relu"},
    {"synergy": "bilinear", "synergy_activation": "tanh"},
    {"head_mix": "learned", "temperature": "one", "contribution": 0.0},
    {"values": "paper", "residual": False, "norm": False},
    {"values": "paper", "identity": True},
    {"identity": True, "residual": False},
    {"heads": 1},
)


def cases() -> Iterator[ModuleRouterCase]:
    for kind in get_args(ZooRouterStructure.model_fields["kind"].annotation):
        if kind == "mean":  # has no gate
            continue
        for gate in get_args(Gate):
            yield ModuleRouterCase(ZooRouterStructure(kind=kind, gate=gate), f"{kind}-{gate}")
    yield ModuleRouterCase(ZooRouterStructure(kind="mean"), "mean")
    yield ModuleRouterCase(ZooRouterStructure(kind="mean", values="paper", identity=True), "mean-identity")
    for switches in SWITCHES:
        name = ",".join(f"{key}={value}" for key, value in switches.items())
        yield ModuleRouterCase(ZooRouterStructure(**switches), name)


class TestEveryRouter(ModuleRouterTests):
    @pytest.fixture(params=list(cases()), ids=lambda case: case.name)
    def case(self, request: pytest.FixtureRequest) -> ModuleRouterCase:
        assert isinstance(request.param, ModuleRouterCase)
        return request.param
