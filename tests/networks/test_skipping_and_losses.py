"""What inference modes keep, against naive loops; signs and exact values of the losses on routing."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evodevo.networks.routing import losses
from evodevo.networks.routing.skipping import harden, straight_through
from evodevo.networks.routing.spec import InferenceStructure

COSTS = [3.0, 1.0, 2.0, 5.0]
HIDDEN = 4


def drawn(seed: int, positions: int = 1) -> Tensor:
    return torch.rand(3, positions, 5, HIDDEN + 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def naive(here: Tensor, inference: InferenceStructure, steps: int) -> Tensor:
    """One decision, (K, N)."""
    kept = here.clone()
    if inference.mode == "threshold":
        kept[:, :HIDDEN][kept[:, :HIDDEN] < inference.threshold] = 0
    elif inference.mode == "source_topk":
        scope = HIDDEN + 2 if inference.outputs_count else HIDDEN
        for row in kept:
            for place in sorted(range(scope), key=lambda j: -float(row[j]))[inference.k :]:
                row[place] = 0
    else:
        inflow = here[:, :HIDDEN].sum(0).tolist()
        order = sorted(range(HIDDEN), key=lambda j: -inflow[j])
        if inference.mode == "target_topm":
            chosen = order[: inference.m]
        else:
            chosen, left = [], inference.flops / steps
            for place in order:
                left -= COSTS[place]
                if left < 0:
                    break
                chosen.append(place)
        for place in range(HIDDEN):
            if place not in chosen:
                kept[:, place] = 0
    return kept


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    positions=st.sampled_from([1, 4]),
    inference=st.one_of(
        st.builds(
            lambda k, o: InferenceStructure(mode="source_topk", k=k, outputs_count=o), st.integers(1, 6), st.booleans()
        ),
        st.builds(lambda m: InferenceStructure(mode="target_topm", m=m), st.integers(1, 4)),
        st.builds(lambda t: InferenceStructure(mode="threshold", threshold=t), st.floats(0, 1)),
        st.builds(lambda f: InferenceStructure(mode="budget", flops=f), st.floats(0, 40)),
    ),
    steps=st.integers(1, 4),
)
def test_each_mode_keeps_what_a_loop_keeps(
    seed: int, positions: int, inference: InferenceStructure, steps: int
) -> None:
    weights = drawn(seed, positions)
    kept = harden(weights, HIDDEN, inference, COSTS, steps)
    for sample in range(3):
        for position in range(positions):
            expected = naive(weights[sample, position], inference, steps)
            torch.testing.assert_close(kept[sample, position], expected)


def test_outputs_are_always_served_unless_they_count() -> None:
    weights = drawn(1)
    for inference in (
        InferenceStructure(mode="source_topk", k=1),
        InferenceStructure(mode="target_topm", m=1),
        InferenceStructure(mode="threshold", threshold=1.0),
        InferenceStructure(mode="budget", flops=0.0),
    ):
        assert torch.equal(harden(weights, HIDDEN, inference, COSTS, 1)[..., HIDDEN:], weights[..., HIDDEN:])
    printed = harden(weights, HIDDEN, InferenceStructure(mode="source_topk", k=1, outputs_count=True), COSTS, 1)
    assert ((printed > 0).sum(-1) == 1).all()


def test_dense_keeps_everything_and_without_hidden_targets_nothing_is_cut() -> None:
    weights = drawn(2)
    assert harden(weights, HIDDEN, InferenceStructure(), COSTS, 1) is weights
    assert harden(weights, 0, InferenceStructure(mode="target_topm", m=1), COSTS, 1) is weights


def test_straight_through_is_hard_forward_and_soft_backward() -> None:
    soft = drawn(3).requires_grad_()
    hard = (soft > 0.5).to(soft.dtype).detach()
    mixed = straight_through(soft, hard)
    torch.testing.assert_close(mixed, hard)
    (mixed * 3).sum().backward()
    assert soft.grad is not None
    assert (soft.grad == 3).all()


def test_balance_is_zero_only_where_all_hear_equally_much() -> None:
    assert losses.balance(torch.full((5, 1, 4), 0.3)) == pytest.approx(0, abs=1e-12)
    one_hot = torch.zeros(5, 1, 4)
    one_hot[..., 2] = 1
    # Mean 1/4, variance 3/16: the squared coefficient of variation is N - 1.
    assert float(losses.balance(one_hot)) == pytest.approx(3)
    # Samples that disagree are fine while the mean is even.
    assert float(losses.balance(torch.eye(4).unsqueeze(1))) == pytest.approx(0, abs=1e-12)
    # Weights near 0 gain nothing through a small mean.
    assert float(losses.balance(one_hot * 1e-9)) < 1e-6


def test_z_sparsity_and_self_routing_have_the_stated_values() -> None:
    logits = torch.zeros(2, 1, 3, 8)
    assert float(losses.z_loss(logits)) == pytest.approx(math.log(8) ** 2)
    weights = torch.full((2, 1, 3, 5), 0.25)
    assert float(losses.sparsity(weights)) == pytest.approx(0.25)
    weights[:, :, torch.arange(3), torch.arange(3)] = 0.75
    assert float(losses.self_routing(weights)) == pytest.approx(0.75)


def test_the_effective_number_counts_what_is_used() -> None:
    assert float(losses.effective_number(torch.eye(6))) == pytest.approx(6)
    collapsed = torch.zeros(10, 6)
    collapsed[:, 3] = 1
    assert float(losses.effective_number(collapsed)) == pytest.approx(1)
