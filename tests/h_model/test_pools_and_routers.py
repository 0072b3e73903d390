"""Pools against naive loops; routers start with the stated biases (docs/spec/h_model.md#starting-biases)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.h_model.router import Router, start_biases
from evodevo.h_model.spec import RouterStructure
from evodevo.networks.routing.pools import Pooling, masked_mean, prefix_mean
from evodevo.networks.routing.spec import Pool

POOLS: tuple[Pool, ...] = ("attention", "mean", "max", "last", "token", "prefix_mean")
ONE_PER_SAMPLE: tuple[Pool, ...] = ("attention", "mean", "max", "last")


@pytest.fixture
def ragged() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 1, 0, 1, 0]], dtype=torch.bool)
    return torch.randn(3, 5, 4, dtype=torch.float64), mask


def naive(kind: Pool, rows: Tensor, query: Tensor | None) -> Tensor:
    """One sample without padding, (L, d) -> (d,)."""
    if kind == "max":
        return rows.max(0).values
    if kind == "last":
        return rows[-1]
    if kind == "mean" or query is None:
        return rows.mean(0)
    weights = torch.tensor([math.exp(float(row @ query) / math.sqrt(len(row))) for row in rows], dtype=rows.dtype)
    return (rows * (weights / weights.sum())[:, None]).sum(0)


@pytest.mark.parametrize("kind", ONE_PER_SAMPLE)
def test_pools_read_real_positions_alone(kind: Pool, ragged: tuple[Tensor, Tensor]) -> None:
    h, mask = ragged
    pool = Pooling(kind, 4).double()
    if pool.query is not None:
        torch.nn.init.normal_(pool.query)
    pooled = pool(h, mask)
    assert pooled.shape == (3, 1, 4)
    for sample in range(3):
        expected = naive(kind, h[sample][mask[sample]], None if pool.query is None else pool.query.detach())
        torch.testing.assert_close(pooled[sample, 0], expected)
    torch.testing.assert_close(pool(h[:1], None), pool(h[:1], mask[:1]))
    torch.testing.assert_close(Pooling("attention", 4).double()(h, mask)[:, 0], masked_mean(h, mask))  # as it starts


@pytest.mark.parametrize("kind", POOLS)
def test_a_sample_without_positions_is_harmless(kind: Pool, ragged: tuple[Tensor, Tensor]) -> None:
    h, _ = ragged
    h = h.clone().requires_grad_()
    pooled = Pooling(kind, 4).double()(h, torch.zeros(3, 5, dtype=torch.bool))
    if kind in ONE_PER_SAMPLE:
        assert (pooled == 0).all()
    pooled.sum().backward()
    assert h.grad.isfinite().all()


def test_prefix_means_of_pieces_equal_the_whole(ragged: tuple[Tensor, Tensor]) -> None:
    h, mask = ragged
    whole = prefix_mean(h, mask)
    for sample in range(3):
        for place in range(5):
            seen = h[sample, : place + 1][mask[sample, : place + 1]]
            expected = seen.mean(0) if len(seen) else torch.zeros(4, dtype=h.dtype)
            torch.testing.assert_close(whole[sample, place], expected)
    weights = mask[:, :2].double().unsqueeze(-1)
    before = ((h[:, :2] * weights).sum(1), weights.sum(1))
    torch.testing.assert_close(prefix_mean(h[:, 2:], mask[:, 2:], before), whole[:, 2:])


@pytest.mark.parametrize("head", ["feedforward", "linear", "channel", "independent"])
def test_a_new_router_says_its_biases(head: str) -> None:
    structure = RouterStructure.model_validate({"head": head})
    biases = torch.tensor([0.5, -1.0, 2.0])
    router = Router(structure, Pooling("mean", 8), 8, biases)
    h = torch.zeros(4, 6, 8) if head == "channel" else torch.randn(4, 6, 8)
    torch.testing.assert_close(router(h), biases.expand(4, 1, 3))


def test_learned_heads_react_to_the_input_and_independent_ones_do_not() -> None:
    a, b = torch.randn(1, 6, 8), torch.randn(1, 6, 8)
    for head in ("feedforward", "linear", "channel"):
        router = Router(RouterStructure.model_validate({"head": head}), Pooling("mean", 8), 8, torch.zeros(3))
        if router.outer is not None:
            torch.nn.init.normal_(router.outer.weight)
        assert not torch.allclose(router(a), router(b))
    independent = Router(RouterStructure(head="independent"), Pooling("mean", 8), 8, torch.zeros(3))
    assert torch.equal(independent(a), independent(b))
    assert [name for name, _ in independent.named_parameters()] == ["logits"]
    assert list(Router(RouterStructure(head="constant"), Pooling("mean", 8), 8, torch.zeros(3)).parameters()) == []
    with pytest.raises(UsageError, match="9 targets do not fit into width 8"):
        Router(RouterStructure(head="channel"), Pooling("mean", 8), 8, torch.zeros(9))


@pytest.mark.parametrize("alpha", [0.1, 3.0])
@pytest.mark.parametrize("hidden", [1, 2, 16])
def test_start_biases_keep_the_inflow_alive_at_any_alpha(hidden: int, alpha: float) -> None:
    structure = RouterStructure()
    biases = start_biases(structure, alpha, hidden, hidden, 2, of_input=False)
    c = torch.sigmoid(biases / alpha)
    if hidden > 1:
        assert hidden * c[0] >= 1 - 1e-6
    assert c[0] > 0.8 or hidden > 1
    torch.testing.assert_close(c[-2:], torch.tensor([0.5, 0.5]))
    first = torch.sigmoid(start_biases(structure, alpha, hidden, hidden, 2, of_input=True) / alpha)
    torch.testing.assert_close(first[:hidden], torch.full((hidden,), 0.8808), atol=1e-4, rtol=0)
    assert (start_biases(RouterStructure(bias="zero"), alpha, hidden, hidden, 2, of_input=True) == 0).all()
