"""The conformance suite over every kind of router, every gate, and every switch of the graph attention router; what is
shared between passes changes no decision, and a part of the modules has a part of it.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch

from evodevo.module_zoo.spec import Gate, ZooRouterStructure
from evodevo.testing.module_routers import IDS, ModuleRouterCase, ModuleRouterTests

SWITCHES: tuple[dict[str, Any], ...] = (
    {"top_k": 2, "train_top_k": "straight_through", "values": "paper", "identity": True},
    {"top_k": 2, "train_top_k": "gumbel", "synergy": "off"},
    {"synergy": "complement", "synergy_self": True, "synergy_activation": "relu", "top_k": None},
    {"synergy": "bilinear", "synergy_activation": "tanh", "heads": 1},
    {"head_mix": "learned", "temperature": "one", "contribution": 0.0, "identity": True, "residual": False},
    {"values": "paper", "residual": False, "norm": False},
    {"kind": "mean"},
    {"kind": "mean", "values": "paper", "identity": True},
    {"kind": "mlp_gate", "gate": "softmax"},
    {"kind": "mlp_gate", "gate": "relu"},
    {"kind": "architecture", "gate": "sparsemax"},
    {"kind": "architecture", "gate": "gumbel"},
    *({"gate": gate} for gate in get_args(Gate)),
)
CASES = [
    ModuleRouterCase(ZooRouterStructure(**switches), ",".join(f"{key}={value}" for key, value in switches.items()))
    for switches in SWITCHES
]


def test_every_kind_is_among_the_cases() -> None:
    kinds = get_args(ZooRouterStructure.model_fields["kind"].annotation)
    assert {case.structure.kind for case in CASES} == set(kinds)


class TestEveryRouter(ModuleRouterTests):
    @pytest.fixture(params=CASES, ids=lambda case: case.name)
    def case(self, request: pytest.FixtureRequest) -> ModuleRouterCase:
        return request.param


# What is shared between passes

STRUCTURES = [
    *(ZooRouterStructure(heads=2, synergy=synergy) for synergy in ("similar", "complement", "bilinear", "off")),
    *(ZooRouterStructure(kind=kind) for kind in ("mlp_gate", "architecture", "mean")),
]


def drawn(seed: int, count: int = len(IDS)) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    query = torch.randn(5, 16, generator=source, dtype=torch.float64)
    return query, torch.randn(5, count, 16, generator=source, dtype=torch.float64)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_part_of_what_is_shared_is_a_part_of_the_zoo(structure: ZooRouterStructure) -> None:
    router, (query, outputs) = ModuleRouterCase(structure).build(), drawn(3)
    for places in (range(len(IDS)), (0, 2, 5), (4, 1), (3,)):
        ids = [IDS[place] for place in places]
        wanted = router.decide(query, outputs[:, list(places)], ids=ids)
        found = router.decide(query, router.relate(query, outputs).only(places), ids=ids)
        torch.testing.assert_close(found.head_weights, wanted.head_weights, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.logits, wanted.logits, rtol=0, atol=1e-12)
        assert torch.equal(found.legal, wanted.legal)


SWITCHED = [
    ZooRouterStructure(heads=2, synergy_self=True),
    ZooRouterStructure(heads=2, synergy_self=True, synergy="bilinear", synergy_activation="tanh"),
    ZooRouterStructure(heads=2, synergy="complement", synergy_activation="relu"),
    ZooRouterStructure(heads=2, keys="genotype"),
]


@pytest.mark.parametrize("structure", [*STRUCTURES, *SWITCHED])
@pytest.mark.parametrize(("size", "count"), [(1.0, 2), (30.0, len(IDS))])
def test_each_left_out_is_a_zoo_without_it(structure: ZooRouterStructure, size: float, count: int) -> None:
    """Also where one module agrees so much more than others that it hides them."""
    router, ids = ModuleRouterCase(structure).build(), IDS[:count]
    query, outputs = drawn(4, count)
    outputs = outputs * size
    outputs[:, 1] *= size
    contribution = torch.linspace(0.9, 0.1, count, dtype=torch.float64)
    each = router.each_left_out(router.relate(query, outputs))
    assert len(each) == count
    for place, relations in enumerate(each):
        rest = [one for one in range(count) if one != place]
        given = {"ids": [ids[one] for one in rest], "contribution": contribution[rest], "dense": True}
        wanted = router.decide(query, outputs[:, rest], **given)
        found = router.decide(query, relations, **given)
        torch.testing.assert_close(found.logits, wanted.logits, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found.head_weights, wanted.head_weights, rtol=0, atol=1e-10)


def test_what_was_summed_before_does_not_count_for_fewer_modules() -> None:
    """Newborns and illegal modules are left out of the sum: then it is made again."""
    router = ModuleRouterCase(ZooRouterStructure(heads=2, norm=False)).build()
    query, outputs = drawn(5)
    births = torch.tensor([1.0] * (len(IDS) - 2) + [0.5], dtype=torch.float64)
    for place, relations in enumerate(router.each_left_out(router.relate(query, outputs))):
        rest = [one for one in range(len(IDS)) if one != place]
        legal = torch.tensor([True] * (len(rest) - 1) + [False])
        for given in ({"births": births}, {"legal": legal}):
            wanted = router.decide(query, outputs[:, rest], ids=[IDS[one] for one in rest], **given)
            found = router.decide(query, relations, ids=[IDS[one] for one in rest], **given)
            torch.testing.assert_close(found.head_weights, wanted.head_weights, rtol=0, atol=1e-12)
