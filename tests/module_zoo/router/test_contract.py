"""The conformance suite over every kind of router, every gate, and every switch of the graph attention router; what is
shared between passes changes no decision, and a part of the modules has a part of it; stated equals counted.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.experiments.flop_counter import counting
from evodevo.module_zoo.router.cost import router_parameters, router_work
from evodevo.module_zoo.router.others import GenotypeKeys, RouterPredictor, build_router
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
    {"kind": "mlp_gate", "gate": "relu"},
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
        for how in ({"births": births}, {"legal": legal}):
            wanted = router.decide(query, outputs[:, rest], ids=[IDS[one] for one in rest], **how)
            found = router.decide(query, relations, ids=[IDS[one] for one in rest], **how)
            torch.testing.assert_close(found.head_weights, wanted.head_weights, rtol=0, atol=1e-12)


# Stated equals counted


WIDTH, VECTOR = 24, 5
ROUTERS = st.builds(
    ZooRouterStructure,
    kind=st.sampled_from(["graph_attention", "graph_attention", "mean", "mlp_gate", "architecture"]),
    heads=st.sampled_from([1, 2, 4]),
    gate=st.sampled_from(["softmax", "sparsemax", "entmax15", "entmax", "relu", "gumbel"]),
    synergy=st.sampled_from(["off", "similar", "complement", "bilinear"]),
    synergy_self=st.booleans(),
    temperature=st.sampled_from(["learned", "one"]),
    head_mix=st.sampled_from(["average", "learned"]),
    values=st.sampled_from(["concat", "paper"]),
    norm=st.booleans(),
    identity=st.booleans(),
    keys=st.sampled_from(["output", "genotype", "predictor"]),
    predictor_hidden=st.sampled_from([None, 7]),
)


class Whole(torch.nn.Module):
    """A router with what decides before modules run, as a network has them."""

    def __init__(self, structure: ZooRouterStructure, count: int) -> None:
        super().__init__()
        ids = tuple(f"m-{number}" for number in range(count))
        self.router = build_router(WIDTH, structure, ids)
        attention = structure.kind == "graph_attention"
        vectors = {one: [0.5] * VECTOR for one in ids}
        self.keys = GenotypeKeys(WIDTH, vectors) if attention and structure.keys == "genotype" else None
        self.predictor = RouterPredictor(WIDTH, structure, ids) if attention and structure.keys == "predictor" else None

    def forward(self, query: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        keys = outputs if self.keys is None else self.keys().unsqueeze(0)
        if self.predictor is not None:
            self.predictor(query)
        return self.router.mix(self.router.decide(query, keys), outputs, query)


@pytest.mark.slow
@given(structure=ROUTERS, count=st.integers(1, 9))
@settings(max_examples=20, deadline=None)
def test_stated_parameters_are_built_and_stated_products_executed(structure: ZooRouterStructure, count: int) -> None:
    with torch.device("meta"), torch.no_grad():
        whole = Whole(structure, count).eval()
        with counting(whole) as counter:
            whole(torch.zeros(1, WIDTH), torch.zeros(1, count, WIDTH))
    assert router_parameters(structure, WIDTH, count, VECTOR) == sum(p.numel() for p in whole.parameters())
    assert router_work(structure, WIDTH, count, VECTOR).products == counter.flops


def test_the_papers_router() -> None:
    """W_q, W_k and W_v of width 512 are 0.79 million; the paper says 0.6 (docs/spec/architect_thyself.md#values)."""
    paper = ZooRouterStructure(heads=1, synergy="off", temperature="one", values="paper", norm=False)
    assert router_parameters(paper, 512, 9, 0) == 3 * 512**2 == 786_432
