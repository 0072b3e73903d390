"""Routers without attention, and what decides before modules run (docs/spec/architect_thyself.md#keys)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.errors import UsageError
from evodevo.module_zoo.router.others import (
    GenotypeKeys,
    ModuleRows,
    RouterPredictor,
    build_router,
    chosen,
)
from evodevo.module_zoo.spec import ZooRouterStructure

IDS = ("mlp-1", "lstm-1", "cnn-1", "cnn-2")
WIDTH = 8


def test_the_mean_is_the_mean() -> None:
    structure = ZooRouterStructure(kind="mean", norm=False, identity=True, values="paper", residual=False, top_k=2)
    router = build_router(WIDTH, structure, IDS).eval()
    query, outputs = torch.randn(3, WIDTH), torch.randn(3, 4, WIDTH)
    decision = router.decide(query, outputs)
    torch.testing.assert_close(decision.weights, torch.full((3, 4), 0.25))
    torch.testing.assert_close(router.mix(decision, outputs, query), outputs.mean(1))
    partly = router.decide(query, outputs, legal=torch.tensor([True, False, True, False]))
    torch.testing.assert_close(partly.weights[0], torch.tensor([0.5, 0.0, 0.5, 0.0]))


def test_an_architecture_is_the_same_for_all_and_a_gate_is_not() -> None:
    torch.manual_seed(0)
    query, outputs = torch.randn(3, WIDTH), torch.randn(3, 4, WIDTH)
    for kind, differs in (("architecture", False), ("mlp_gate", True)):
        for gate in ("relu", "softmax"):
            router = build_router(WIDTH, ZooRouterStructure(kind=kind, gate=gate, top_k=None), IDS).train()
            decision = router.decide(query, outputs)
            torch.testing.assert_close(decision.weights, torch.full((3, 4), 0.25))  # nobody is preferred at the start
            assert not decision.unrouted.any()
        weights = decision.weights
        torch.testing.assert_close(router.decide(query, torch.zeros(3, 4, WIDTH)).weights, weights)
        with torch.no_grad():
            for parameter in router.parameters():
                parameter.add_(torch.randn_like(parameter))
        weights = router.decide(query, outputs).weights
        assert bool((weights[0] - weights[1]).abs().max() > 1e-3) is differs


@pytest.mark.parametrize("kind", ["mlp_gate", "architecture"])
def test_rows_follow_ids_and_not_places(kind: str) -> None:
    torch.manual_seed(1)
    router = build_router(WIDTH, ZooRouterStructure(kind=kind, gate="softmax", top_k=None), IDS)
    with torch.no_grad():
        for parameter in router.parameters():
            parameter.add_(torch.randn_like(parameter))
    query = torch.randn(2, WIDTH)
    whole = router.decide(query, torch.randn(2, 4, WIDTH)).logits
    part = router.decide(query, torch.randn(2, 2, WIDTH), ids=("cnn-2", "lstm-1")).logits
    torch.testing.assert_close(part, whole[..., [3, 1]])
    with pytest.raises(UsageError, match="unknown module 'cnn-3'"):
        router.decide(query, torch.randn(2, 1, WIDTH), ids=("cnn-3",))


# Rows by id


def test_modules_come_and_go() -> None:
    rows = ModuleRows(IDS, 3, spread=1.0)
    before = {one: rows((one,)) for one in IDS}
    rows.insert("hybrid-5")
    rows.remove("lstm-1")
    assert rows.ids == ("mlp-1", "cnn-1", "cnn-2", "hybrid-5")
    for one in ("mlp-1", "cnn-1", "cnn-2"):
        assert torch.equal(rows((one,)), before[one])
    assert sorted(dict(rows.named_parameters())) == ["of.cnn-1", "of.cnn-2", "of.hybrid-5", "of.mlp-1"]
    with pytest.raises(UsageError, match="already"):
        rows.insert("mlp-1")
    with pytest.raises(UsageError, match="lstm-1"):
        rows.remove("lstm-1")
    for word in ("keys", "pop", "train", "forward"):
        with pytest.raises(UsageError, match="a word of PyTorch"):
            ModuleRows((word,), 3)


# Before modules run


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), count=st.integers(1, 6), levels=st.integers(1, 9))
def test_who_is_run(seed: int, count: int, levels: int) -> None:
    source = torch.Generator().manual_seed(seed)
    logits = torch.randint(levels, (4, 6), generator=source).float()  # with ties
    legal = torch.rand(4, 6, generator=source) < 0.7
    picked, among = chosen(logits, count), chosen(logits, count, legal)
    for sample in range(4):
        order = sorted(range(6), key=lambda m: (-logits[sample, m].item(), m))
        assert set(picked[sample].nonzero().flatten().tolist()) == set(order[:count])
        allowed = [m for m in order if legal[sample, m]][:count]
        assert set(among[sample].nonzero().flatten().tolist()) == set(allowed)


def test_a_predictor_speaks_of_the_modules_that_it_is_asked_for() -> None:
    predictor, query = RouterPredictor(WIDTH, ZooRouterStructure(predictor_hidden=5), IDS), torch.randn(3, WIDTH)
    assert predictor(query).abs().max() == 0, "it starts without an opinion"
    with torch.no_grad():
        for parameter in predictor.parameters():
            parameter.add_(torch.randn_like(parameter))
    whole = predictor(query)
    torch.testing.assert_close(predictor(query, ("cnn-2", "mlp-1")), whole[:, [3, 0]])
    hidden = torch.nn.functional.gelu(query @ predictor.inner.weight.T + predictor.inner.bias)
    row = predictor.rows(("cnn-1",))[0]
    torch.testing.assert_close(whole[:, 2], hidden @ row[:-1] + row[-1])
    assert predictor(query.bfloat16().float()).dtype == torch.float32


def test_keys_from_genotypes_tell_twins_apart_and_follow_ids() -> None:
    torch.manual_seed(3)
    vectors = {"mlp-1": (0.1, 0.9), "mlp-2": (0.1, 0.9), "cnn-1": (1.0, 0.0)}
    keys = GenotypeKeys(WIDTH, vectors)
    whole = keys()
    assert whole.shape == (3, WIDTH)
    assert not torch.allclose(whole[0], whole[1])
    twins, others = (whole[0] - whole[1]).norm(), (whole[0] - whole[2]).norm()
    assert twins < others
    torch.testing.assert_close(keys(("cnn-1", "mlp-1")), whole[[2, 0]])
    with pytest.raises(UsageError, match="cnn-1"):
        keys(("cnn-2",))
    whole.sum().backward()
    assert all(parameter.grad is not None for parameter in keys.parameters())
