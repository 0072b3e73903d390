"""Laws of gates (docs/spec/h_model.md#laws), what inference modes keep, and exact values of the losses on routing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evodevo.networks.routing import losses
from evodevo.networks.routing.gates import Gate, iteration_alpha, open_gates
from evodevo.networks.routing.skipping import harden, straight_through
from evodevo.networks.routing.spec import InferenceStructure

GATES: tuple[Gate, ...] = ("sigmoid", "softmax_out", "softmax_in", "sparsemax_in", "gumbel")
SUMS = {"softmax_out": -1, "softmax_in": -2, "sparsemax_in": -2}


def gate_logits(seed: int, sources: int, targets: int, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(seed)
    logits = (torch.randn(3, 1, sources, targets, generator=source) * scale).to(dtype)
    return logits, torch.rand(sources, targets, generator=source) < 0.7


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    sources=st.integers(1, 12),
    targets=st.integers(1, 12),
    scale=st.sampled_from([0.1, 1.0, 30.0, 1e4]),
    gate=st.sampled_from(GATES),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64]),
    alpha=st.sampled_from([1e-3, 0.3, 1.0, 50.0]),
)
def test_weights_are_a_simplex_where_promised_and_zero_where_illegal(
    seed: int, sources: int, targets: int, scale: float, gate: Gate, dtype: torch.dtype, alpha: float
) -> None:
    logits, legal = gate_logits(seed, sources, targets, scale, dtype)
    logits.requires_grad_()
    weights = open_gates(logits, gate, alpha, legal)
    assert weights.dtype == torch.promote_types(dtype, torch.float32)
    assert (weights >= 0).all()
    assert (weights <= 1 + 1e-5).all()
    assert (weights[..., ~legal] == 0).all()
    if gate in SUMS:
        axis = SUMS[gate]
        alive = legal.any(axis).expand_as(weights.sum(axis))
        torch.testing.assert_close(weights.sum(axis)[alive], torch.ones_like(weights.sum(axis)[alive]))
        assert (weights.sum(axis)[~alive] == 0).all()
    weights.sum().backward()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("gate", GATES)
def test_order_does_not_matter_and_a_target_without_any_legal_source_is_silent(gate: Gate) -> None:
    logits, legal = gate_logits(1, 5, 6, 2.0, torch.float64)
    rows, columns = torch.randperm(5), torch.randperm(6)
    permuted = open_gates(logits[..., rows, :][..., columns], gate, 0.7, legal[rows][:, columns])
    torch.testing.assert_close(permuted, open_gates(logits, gate, 0.7, legal)[..., rows, :][..., columns])
    assert not open_gates(logits, gate, 1.0, torch.zeros(5, 6, dtype=torch.bool)).any()


def project_onto_simplex(point: np.ndarray) -> np.ndarray:
    """Held et al. (1974): the nearest point of the simplex, by trying every size of support."""
    for size in range(len(point), 0, -1):
        largest = np.sort(point)[::-1][:size]
        shift = (largest.sum() - 1) / size
        if largest[-1] > shift:
            return np.maximum(point - shift, 0)
    raise AssertionError


def test_sparsemax_is_the_projection() -> None:
    logits, _ = gate_logits(2, 7, 3, 1.5, torch.float64)
    weights = open_gates(logits, "sparsemax_in", 1.0)
    for sample, target in np.ndindex(3, 3):
        expected = project_onto_simplex(logits[sample, 0, :, target].numpy())
        np.testing.assert_allclose(weights[sample, 0, :, target].numpy(), expected, atol=1e-9)


def test_gumbel_draws_while_training_and_is_a_sigmoid_else() -> None:
    logits, _ = gate_logits(4, 3, 3, 1.0, torch.float32)
    calm = open_gates(logits, "gumbel", 0.5)
    torch.testing.assert_close(calm, torch.sigmoid(logits / 0.5))
    torch.manual_seed(0)
    first = open_gates(logits, "gumbel", 0.5, noise=True)
    second = open_gates(logits, "gumbel", 0.5, noise=True)
    assert not torch.equal(first, second)
    # The chance that a binary concrete variable exceeds 1/2 is sigmoid(logit) at any temperature.
    many = open_gates(logits.expand(4000, 3, 1, 3, 3), "gumbel", 0.1, noise=True) > 0.5
    torch.testing.assert_close(many.float().mean(0), torch.sigmoid(logits), atol=0.04, rtol=0)


def test_alpha_is_geometric_and_bounded_below() -> None:
    assert iteration_alpha(2.0, 0.5, 3) == 0.25
    assert iteration_alpha(1.0, 1.4, 2) == pytest.approx(1.96)
    assert iteration_alpha(0.1, 0.01, 9) == 1e-3


# What inference keeps

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


MODES = st.one_of(
    st.builds(InferenceStructure, mode=st.just("source_topk"), k=st.integers(1, 6), outputs_count=st.booleans()),
    st.builds(InferenceStructure, mode=st.just("target_topm"), m=st.integers(1, 4)),
    st.builds(InferenceStructure, mode=st.just("threshold"), threshold=st.floats(0, 1)),
    st.builds(InferenceStructure, mode=st.just("budget"), flops=st.floats(0, 40)),
)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), positions=st.sampled_from([1, 4]), inference=MODES, steps=st.integers(1, 4))
def test_each_mode_keeps_what_a_loop_keeps(
    seed: int, positions: int, inference: InferenceStructure, steps: int
) -> None:
    weights = drawn(seed, positions)
    kept = harden(weights, HIDDEN, inference, COSTS, steps)
    for sample, position in np.ndindex(3, positions):
        torch.testing.assert_close(kept[sample, position], naive(weights[sample, position], inference, steps))
    if not inference.outputs_count:
        assert torch.equal(kept[..., HIDDEN:], weights[..., HIDDEN:]), "outputs are always served unless they count"


def test_straight_through_is_hard_forward_and_dense_keeps_everything() -> None:
    soft = drawn(3).requires_grad_()
    hard = (soft > 0.5).to(soft.dtype).detach()
    mixed = straight_through(soft, hard)
    torch.testing.assert_close(mixed, hard)
    (mixed * 3).sum().backward()
    assert (soft.grad == 3).all()
    weights = drawn(2)
    assert harden(weights, HIDDEN, InferenceStructure(), COSTS, 1) is weights
    assert harden(weights, 0, InferenceStructure(mode="target_topm", m=1), COSTS, 1) is weights
    printed = harden(weights, HIDDEN, InferenceStructure(mode="source_topk", k=1, outputs_count=True), COSTS, 1)
    assert ((printed > 0).sum(-1) == 1).all()


def test_losses_on_routing_have_the_stated_values() -> None:
    assert losses.balance(torch.full((5, 1, 4), 0.3)) == pytest.approx(0, abs=1e-12)
    one_hot = torch.zeros(5, 1, 4)
    one_hot[..., 2] = 1
    # Mean 1/4, variance 3/16: the squared coefficient of variation is N - 1.
    assert float(losses.balance(one_hot)) == pytest.approx(3)
    # Samples that disagree are fine while the mean is even.
    assert float(losses.balance(torch.eye(4).unsqueeze(1))) == pytest.approx(0, abs=1e-12)
    # Weights near 0 gain nothing through a small mean.
    assert float(losses.balance(one_hot * 1e-9)) < 1e-6
    logits = torch.zeros(2, 1, 3, 8)
    assert float(losses.z_loss(logits)) == pytest.approx(math.log(8) ** 2)
    weights = torch.full((2, 1, 3, 5), 0.25)
    assert float(losses.sparsity(weights)) == pytest.approx(0.25)
    weights[:, :, torch.arange(3), torch.arange(3)] = 0.75
    assert float(losses.self_routing(weights)) == pytest.approx(0.75)
