"""Mixtures of experts and the routing of their tokens, against plain loops over tokens and experts."""

from __future__ import annotations

from math import ceil, exp
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from evodevo.networks.mixtures import routing
from evodevo.networks.mixtures.experts import Mixture
from evodevo.networks.mixtures.spec import MixtureStructure

STYLES = ("switch", "st_moe", "soft_moe", "dyn_moe")


def mixture(style: str, **more: Any) -> Mixture:
    torch.manual_seed(0)
    values = {"style": style, "width": 8, "hidden": 12, "experts": 3, "slots": 2, **more}
    built = Mixture(MixtureStructure.model_validate(values)).double().eval()
    if built.thresholds is not None:
        with torch.no_grad():
            built.thresholds.uniform_(-0.4, 0.4)
    return built


def expert(layer: Mixture, number: int, x: Tensor) -> Tensor:
    experts = layer.experts
    hidden = F.gelu(experts.inner[number] @ x + experts.inner_bias[number])
    return experts.outer[number] @ hidden + experts.outer_bias[number]


def by_loop(layer: Mixture, x: Tensor, real: Tensor) -> Tensor:
    """Token by token, sample by sample."""
    style, y = layer.structure.style, torch.zeros_like(x)
    for sample in range(len(x)):
        places = real[sample].nonzero().flatten().tolist()
        if style == "soft_moe" and places:
            y[sample, places] = _soft(layer, x[sample, places])
            continue
        for place in places:
            token = x[sample, place]
            if style == "dyn_moe":
                scores = torch.stack([F.cosine_similarity(token, gate, 0) for gate in layer.gates])
                open_ones = (scores > layer.thresholds).nonzero().flatten().tolist() or [int(scores.argmax())]
                y[sample, place] = torch.stack([expert(layer, one, token) for one in open_ones]).mean(0)
                continue
            shares = (layer.gates @ token).softmax(0)
            best = shares.argsort(descending=True)[: 1 if style == "switch" else 2].tolist()
            whole = sum(shares[one] for one in best) if style == "st_moe" else 1.0
            for one in best:
                y[sample, place] += shares[one] / whole * expert(layer, one, token)
    return y


def _soft(layer: Mixture, x: Tensor) -> Tensor:
    logits = F.normalize(x, dim=-1) @ (layer.scale * F.normalize(layer.gates, dim=-1)).T
    slots = logits.softmax(0).T @ x
    said = torch.stack([expert(layer, number // layer.structure.slots, one) for number, one in enumerate(slots)])
    return logits.softmax(1) @ said


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("style", STYLES)
def test_a_mixture_is_the_loop(style: str, padded: bool) -> None:
    layer = mixture(style)
    x = torch.randn(4, 7, 8, dtype=torch.float64)
    real = torch.arange(7) < torch.tensor([7, 3, 1, 0])[:, None] if padded else torch.ones(4, 7, dtype=torch.bool)
    with torch.no_grad():
        y, terms = layer(x, real if padded else None)
        torch.testing.assert_close(y, by_loop(layer, x, real), atol=1e-12, rtol=1e-9)
    assert all(term.isfinite() for term in terms.values())


@pytest.mark.parametrize("style", STYLES)
def test_nobody_to_route_is_no_error(style: str) -> None:
    layer = mixture(style).train()
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    y, terms = layer(x, torch.zeros(2, 5, dtype=torch.bool))
    assert not y.any()
    total = y.sum() + sum(terms.values())
    assert total.isfinite()
    total.backward()


@pytest.mark.parametrize("style", ["switch", "st_moe"])
def test_padding_takes_no_room(style: str) -> None:
    """With capacity for an even share, real tokens are treated alike, however much padding stands beside them."""
    layer = mixture(style, capacity=1.0).train()
    x = torch.randn(3, 6, 8, dtype=torch.float64)
    wide = torch.cat([x, torch.randn(3, 9, 8, dtype=torch.float64)], 1)
    mask = torch.arange(15).expand(3, -1) < 6
    with torch.no_grad():
        torch.testing.assert_close(layer(wide, mask)[0][:, :6], layer(x, None)[0])


def test_who_finds_no_room_passes_by() -> None:
    """Capacity for one token of an expert that all want: the first is seen, the others are left as they are."""
    layer = mixture("switch", experts=4, capacity=1.0).train()
    with torch.no_grad():
        layer.gates.zero_()[2] = 5.0
        x = torch.rand(1, 4, 8, dtype=torch.float64) + 0.5
        y, terms = layer(x, None)
        assert y[0, 0].any()
        assert not y[0, 1:].any()
        assert float(terms["balance"]) == pytest.approx(0.01 * 4, rel=1e-3)
        assert layer.eval()(x, None)[0].any(-1).all()


@pytest.mark.parametrize("style", STYLES)
def test_an_expert_that_nobody_wants_does_not_run(style: str) -> None:
    """But for soft slots, where all experts run always."""
    layer = mixture(style, experts=4)
    with torch.no_grad():
        layer.gates.zero_()[0], layer.gates[1] = 5.0, 4.0
        layer.experts.inner[2:] = float("nan")
        if layer.thresholds is not None:
            layer.thresholds[:] = torch.tensor([0.5, 0.5, 5.0, 5.0])
        y, _ = layer(torch.rand(1, 4, 8, dtype=torch.float64) + 0.5, None)
    assert bool(y.isnan().any()) == (style == "soft_moe")


# Routing


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairs(routes: routing.ExpertPairs) -> dict[tuple[int, int], float]:
    found = zip(routes.tokens.tolist(), routes.experts.tolist(), routes.weights.tolist(), strict=True)
    return {(token, expert): weight for token, expert, weight in found}


@given(tokens=st.integers(0, 9), experts=st.integers(2, 6), k=st.integers(1, 3), seed=st.integers(0, 99))
def test_top_k_is_the_loop(tokens: int, experts: int, k: int, seed: int) -> None:
    logits = numbers(tokens, experts, seed=seed).round(decimals=1)  # rounded, so that some are equal
    routes, probabilities = routing.top_k(logits, k)
    wanted: dict[tuple[int, int], float] = {}
    for token, row in enumerate(logits.tolist()):
        shares = [exp(one) / sum(exp(other) for other in row) for one in row]
        best = sorted(range(experts), key=lambda expert: (-row[expert], expert))[: min(k, experts)]
        whole = sum(shares[expert] for expert in best) if len(best) > 1 else 1.0
        wanted |= {(token, expert): shares[expert] / whole for expert in best}
        assert probabilities[token].tolist() == pytest.approx(shares)
    assert pairs(routes) == pytest.approx(wanted)
    assert routes.tokens.tolist() == list(range(tokens)) * min(k, experts)  # first choices come first


@given(chosen=st.lists(st.integers(0, 4), max_size=30), factor=st.sampled_from([0.25, 1.0, 1.25, 5.0]))
def test_capacity_takes_the_first_ones(chosen: list[int], factor: float) -> None:
    count = len(chosen)
    routes = routing.ExpertPairs(torch.arange(count), torch.tensor(chosen, dtype=torch.long), torch.ones(count))
    room = [ceil(factor * count / 5)] * 5
    wanted = []
    for token, expert in enumerate(chosen):
        if room[expert]:
            room[expert] -= 1
            wanted.append(token)
    assert routing.within_capacity(routes, 5, factor).tokens.tolist() == wanted


def test_losses_of_balance_diversity_and_simplicity_at_known_values() -> None:
    """Switch, eq. 4; never below 1 where probabilities order the choices as they do here."""
    even = torch.eye(4).repeat(3, 1)
    assert float(routing.balance_loss(even, torch.arange(4).repeat(3))) == pytest.approx(1.0)
    collapsed = torch.eye(4)[[2] * 6]
    assert float(routing.balance_loss(collapsed, torch.full((6,), 2))) == pytest.approx(4.0)
    assert float(routing.balance_loss(torch.zeros(0, 4), torch.zeros(0, dtype=torch.long))) == 0.0
    apart, alike = torch.eye(3, 5) * 2, torch.ones(3, 5)
    assert float(routing.diversity_loss(apart)) == pytest.approx(0.0, abs=1e-6)
    assert float(routing.diversity_loss(alike)) == pytest.approx(6**0.5)
    assert float(routing.simplicity_loss(apart)) == pytest.approx(2.0)


def test_balance_pushes_the_crowded_expert_down_and_thresholds_learn() -> None:
    logits = torch.tensor([[2.0, 0.0, 0.0]] * 5, requires_grad=True)
    routes, probabilities = routing.top_k(logits, 1)
    routing.balance_loss(probabilities, routes.experts).backward()
    assert (logits.grad[:, 0] > 0).all()
    assert (logits.grad[:, 1:] < 0).all()
    # Straight through: an open gate falls as its threshold rises.
    x, gates = numbers(5, 4), numbers(3, 4, seed=1)
    thresholds = torch.full((3,), -5.0, dtype=torch.float64, requires_grad=True)
    routes = routing.top_any(x, gates, thresholds)
    assert len(routes.tokens) == 15
    routes.weights.sum().backward()
    slope = 1 / (1 + exp(5)) * (1 - 1 / (1 + exp(5)))
    assert thresholds.grad.tolist() == pytest.approx([-slope * 5 / 3] * 3)
