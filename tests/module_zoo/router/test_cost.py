"""Stated equals counted: parameters and matrix products of every router over modules, against the built ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.experiments.flop_counter import counting
from evodevo.module_zoo.router.cost import router_parameters, router_work
from evodevo.module_zoo.router.others import GenotypeKeys, RouterPredictor, build_router
from evodevo.module_zoo.spec import ZooRouterStructure

WIDTH, VECTOR = 24, 5
STRUCTURES = st.builds(
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
@given(structure=STRUCTURES, count=st.integers(1, 9))
@settings(max_examples=20, deadline=None)
def test_stated_parameters_are_built_and_stated_products_executed(structure: ZooRouterStructure, count: int) -> None:
    # oneDNN's products are not seen by the counter; on the meta device PyTorch's own are taken.
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
