"""Routing of tokens to experts, against plain loops over tokens, and the losses at values known by hand."""

from __future__ import annotations

from math import ceil, exp

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from evodevo.module_zoo.baselines import mixture_routing as routing


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


@given(
    chosen=st.lists(st.integers(0, 4), max_size=30),
    factor=st.sampled_from([0.25, 1.0, 1.25, 5.0]),
)
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


def test_balance_is_one_when_even_and_the_number_of_experts_after_a_collapse() -> None:
    """Switch, eq. 4; never below 1 where probabilities order the choices as they do here."""
    even = torch.eye(4).repeat(3, 1)
    assert float(routing.balance_loss(even, torch.arange(4).repeat(3))) == pytest.approx(1.0)
    collapsed = torch.eye(4)[[2] * 6]
    assert float(routing.balance_loss(collapsed, torch.full((6,), 2))) == pytest.approx(4.0)
    assert float(routing.balance_loss(torch.zeros(0, 4), torch.zeros(0, dtype=torch.long))) == 0.0


def test_balance_pushes_the_crowded_expert_down() -> None:
    logits = torch.tensor([[2.0, 0.0, 0.0]] * 5, requires_grad=True)
    routes, probabilities = routing.top_k(logits, 1)
    routing.balance_loss(probabilities, routes.experts).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert (logits.grad[:, 0] > 0).all()
    assert (logits.grad[:, 1:] < 0).all()


@given(tokens=st.integers(0, 8), experts=st.integers(2, 5), seed=st.integers(0, 99))
def test_top_any_is_the_loop(tokens: int, experts: int, seed: int) -> None:
    x, gates, thresholds = (
        numbers(tokens, 6, seed=seed),
        numbers(experts, 6, seed=seed + 1),
        numbers(experts, seed=seed),
    )
    wanted: dict[tuple[int, int], float] = {}
    for token in range(tokens):
        scores = [float(x[token] @ gates[one] / x[token].norm() / gates[one].norm()) for one in range(experts)]
        passed = [one for one in range(experts) if scores[one] > float(thresholds[one])]  # sigmoid keeps the order
        passed = passed or [int(np.argmax(scores))]
        wanted |= {(token, one): 1 / len(passed) for one in passed}
    assert pairs(routing.top_any(x, gates, thresholds)) == pytest.approx(wanted)


def test_thresholds_learn_through_the_decision() -> None:
    """Straight through: an open gate falls as its threshold rises."""
    x, gates = numbers(5, 4), numbers(3, 4, seed=1)
    thresholds = torch.full((3,), -5.0, dtype=torch.float64, requires_grad=True)
    routes = routing.top_any(x, gates, thresholds)
    assert len(routes.tokens) == 15
    routes.weights.sum().backward()  # type: ignore[no-untyped-call]
    slope = 1 / (1 + exp(5)) * (1 - 1 / (1 + exp(5)))
    assert thresholds.grad is not None
    assert thresholds.grad.tolist() == pytest.approx([-slope * 5 / 3] * 3)


def test_diversity_and_simplicity_at_known_values() -> None:
    apart, alike = torch.eye(3, 5) * 2, torch.ones(3, 5)
    assert float(routing.diversity_loss(apart)) == pytest.approx(0.0, abs=1e-6)
    assert float(routing.diversity_loss(alike)) == pytest.approx(6**0.5)
    assert float(routing.simplicity_loss(apart)) == pytest.approx(2.0)


def test_soft_slots_are_two_softmaxes_over_real_tokens() -> None:
    x, slots = numbers(2, 5, 4), numbers(6, 4, seed=1)
    mask = torch.tensor([[True, True, False, True, False], [False] * 5])
    dispatch, combine = routing.soft_slots(x, slots, torch.tensor(3.0, dtype=torch.float64), mask)
    real = [0, 1, 3]
    for slot in range(6):
        scores = [3.0 * float(x[0, one] @ slots[slot] / x[0, one].norm() / slots[slot].norm()) for one in real]
        shares = np.exp(scores) / np.exp(scores).sum()
        assert dispatch[0, real, slot].tolist() == pytest.approx(list(shares))
    assert combine[0, real].sum(-1).tolist() == pytest.approx([1.0] * 3)
    assert not dispatch[0, [2, 4]].any()
    assert not combine[0, [2, 4]].any()
    assert not dispatch[1].any()
    assert not combine[1].any()
