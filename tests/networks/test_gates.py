"""Laws of gates: simplex, exact zeros, equivariance, against naive references (docs/spec/h_model.md#laws)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evodevo.networks.routing.gates import Gate, doubly_stochastic, iteration_alpha, open_gates

GATES: tuple[Gate, ...] = ("sigmoid", "softmax_out", "softmax_in", "sparsemax_in", "gumbel")
SUMS = {"softmax_out": -1, "softmax_in": -2, "sparsemax_in": -2}


def drawn(seed: int, sources: int, targets: int, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
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
    logits, legal = drawn(seed, sources, targets, scale, dtype)
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
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("gate", GATES)
def test_a_target_without_any_legal_source_is_silent(gate: Gate) -> None:
    weights = open_gates(torch.randn(2, 1, 4, 3), gate, 1.0, torch.zeros(4, 3, dtype=torch.bool))
    assert (weights == 0).all()


@pytest.mark.parametrize("gate", GATES)
def test_order_of_sources_and_targets_does_not_matter(gate: Gate) -> None:
    logits, legal = drawn(1, 5, 6, 2.0, torch.float64)
    rows, columns = torch.randperm(5), torch.randperm(6)
    permuted = open_gates(logits[..., rows, :][..., columns], gate, 0.7, legal[rows][:, columns])
    torch.testing.assert_close(permuted, open_gates(logits, gate, 0.7, legal)[..., rows, :][..., columns])


def project_onto_simplex(point: np.ndarray) -> np.ndarray:
    """Held et al. (1974): the nearest point of the simplex, by trying every size of support."""
    for size in range(len(point), 0, -1):
        largest = np.sort(point)[::-1][:size]
        shift = (largest.sum() - 1) / size
        if largest[-1] > shift:
            return np.maximum(point - shift, 0)
    raise AssertionError


def test_sparsemax_is_the_projection() -> None:
    logits, _ = drawn(2, 7, 3, 1.5, torch.float64)
    weights = open_gates(logits, "sparsemax_in", 1.0)
    for sample in range(3):
        for target in range(3):
            expected = project_onto_simplex(logits[sample, 0, :, target].numpy())
            np.testing.assert_allclose(weights[sample, 0, :, target].numpy(), expected, atol=1e-9)


def test_why_sparsemax_reads_logits_and_not_probabilities() -> None:
    logits, _ = drawn(3, 5, 2, 3.0, torch.float64)
    soft = open_gates(logits, "softmax_in", 1.0)
    torch.testing.assert_close(open_gates(soft, "sparsemax_in", 1.0), soft)


def test_gumbel_draws_while_training_and_is_a_sigmoid_else() -> None:
    logits, _ = drawn(4, 3, 3, 1.0, torch.float32)
    calm = open_gates(logits, "gumbel", 0.5)
    torch.testing.assert_close(calm, torch.sigmoid(logits / 0.5))
    torch.manual_seed(0)
    first = open_gates(logits, "gumbel", 0.5, noise=True)
    second = open_gates(logits, "gumbel", 0.5, noise=True)
    assert not torch.equal(first, second)
    # The chance that a binary concrete variable exceeds 1/2 is sigmoid(logit) at any temperature.
    many = torch.stack([open_gates(logits, "gumbel", 0.1, noise=True) > 0.5 for _ in range(4000)]).float().mean(0)
    torch.testing.assert_close(many, torch.sigmoid(logits), atol=0.04, rtol=0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), sources=st.integers(1, 8), targets=st.integers(1, 8))
def test_sinkhorn_gives_one_to_every_target(seed: int, sources: int, targets: int) -> None:
    weights = torch.rand(2, 1, sources, targets, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weights = weights + 0.05
    weights[..., 0] = 0
    doubled = doubly_stochastic(weights, rounds=200)
    assert (doubled[..., 0] == 0).all()
    torch.testing.assert_close(doubled[..., 1:].sum(-2), torch.ones(2, 1, targets - 1, dtype=torch.float64))
    if sources >= targets:
        assert (doubled.sum(-1) <= 1 + 1e-3).all()


def test_alpha_is_geometric_and_bounded_below() -> None:
    assert iteration_alpha(2.0, 0.5, 3) == 0.25
    assert iteration_alpha(1.0, 1.4, 2) == pytest.approx(1.96)
    assert iteration_alpha(0.1, 0.01, 9) == 1e-3
