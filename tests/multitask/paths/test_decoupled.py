"""Decoupled routing (docs/spec/munet.md#decoupled-gradients)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.paths.multipath.decoupled import (
    aggregated,
    decoupled_sum,
    ema_coefficients,
    update_average,
    weighted_sum,
)
from evodevo.multitask.paths.multipath.router import PathRouter, scale_gradient
from evodevo.multitask.paths.multipath_spec import MultipathStructure, router_bias

BIASES = {
    (2, 0.5): 0.0,
    (2, 0.8): 1.386294,
    (2, 0.95): 2.944439,
    (3, 0.5): 0.693147,
    (3, 0.8): 2.079442,
    (3, 0.95): 3.637586,
    (5, 0.5): 1.386294,
    (5, 0.8): 2.772589,
    (5, 0.95): 4.330733,
}
"""(P, w*) -> b; docs/spec/munet.md#first-weights."""


def drawn(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def gradients(aggregation: str, representations: Tensor, weights: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
    """dL/dR and dL/dw where dL/da is ``upstream``."""
    r, w = representations.clone().requires_grad_(), weights.clone().requires_grad_()
    average = torch.full((weights.shape[1],), 1 / weights.shape[1], dtype=weights.dtype)
    aggregated(r, w, aggregation, average).backward(upstream)  # type: ignore[arg-type]
    return r.grad, w.grad if w.grad is not None else torch.zeros_like(weights)  # type: ignore[return-value]


@settings(max_examples=15, deadline=None)
@given(batch=st.integers(1, 5), paths=st.integers(1, 5), classes=st.integers(1, 6), seed=st.integers(0, 999))
def test_each_path_gets_the_gradient_of_the_sum_and_the_router_its_usual_one(
    batch: int, paths: int, classes: int, seed: int
) -> None:
    representations = drawn(batch, paths, classes, seed=seed)
    weights = drawn(batch, paths, seed=seed + 1).softmax(-1)
    upstream = drawn(batch, classes, seed=seed + 2)
    decoupled, to_router = gradients("decoupled", representations, weights, upstream)
    standard, usual = gradients("standard", representations, weights, upstream)
    assert torch.equal(decoupled, upstream.unsqueeze(1).expand_as(decoupled))
    torch.testing.assert_close(standard, upstream.unsqueeze(1) * weights.unsqueeze(-1))
    torch.testing.assert_close(to_router, usual)
    torch.testing.assert_close(usual, (representations * upstream.unsqueeze(1)).sum(-1))


def test_the_router_s_gradient_is_that_of_finite_differences() -> None:
    representations = drawn(3, 4, 5)

    def total(weights: Tensor) -> Tensor:
        return decoupled_sum(representations, weights)

    assert torch.autograd.gradcheck(total, (drawn(3, 4, seed=1).softmax(-1).requires_grad_(),))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_forward_is_the_weighted_sum_to_the_last_bit(dtype: torch.dtype) -> None:
    representations = (drawn(64, 3, 10) * 20).to(dtype)
    weights = drawn(64, 3, seed=1).softmax(-1).to(dtype)
    total = decoupled_sum(representations.requires_grad_(), weights)
    assert torch.equal(total, weighted_sum(representations, weights))
    assert total.dtype == dtype


def test_the_naive_form_errs_where_ours_does_not() -> None:
    """Equation 9 term by term: what cancels on paper leaves a rest in low precision."""
    representations, weights = (drawn(64, 3, 10) * 20).bfloat16(), drawn(64, 3, seed=1).softmax(-1).bfloat16()
    right = weighted_sum(representations, weights)
    naive = (representations * weights.unsqueeze(-1)).sum(1) + representations.sum(1) - representations.sum(1)
    assert (naive - right).abs().max() > 0.05
    wide = weighted_sum(representations.double(), weights.double())
    error = (decoupled_sum(representations, weights).double() - wide).abs()
    assert bool((error <= torch.finfo(torch.bfloat16).eps * wide.abs() + 1e-6).all()), "one rounding, at the end"


def test_weights_may_be_wider_than_what_they_weigh() -> None:
    representations = drawn(4, 3, 5).bfloat16().requires_grad_()
    weights = drawn(4, 3, seed=1).float().softmax(-1).requires_grad_()
    for aggregation in ("decoupled", "ema"):
        total = aggregated(representations, weights, aggregation, torch.full((3,), 0.3))  # type: ignore[arg-type]
        total.sum().backward()
        assert (representations.grad.dtype, weights.grad.dtype) == (torch.bfloat16, torch.float32)


def test_without_router_paths_are_added() -> None:
    representations, weights = drawn(4, 3, 5), drawn(4, 3, seed=1).softmax(-1)
    torch.testing.assert_close(aggregated(representations, weights, "sum"), representations.sum(1))
    upstream = drawn(4, 5, seed=2)
    to_paths, to_router = gradients("sum", representations, weights, upstream)
    assert torch.equal(to_paths, upstream.unsqueeze(1).expand_as(to_paths))
    assert not to_router.any()


def test_ema_scales_each_path_by_its_weight_over_its_average() -> None:
    representations, weights, upstream = drawn(4, 3, 5), drawn(4, 3, seed=1).softmax(-1), drawn(4, 5, seed=2)
    to_paths, to_router = gradients("ema", representations, weights, upstream)
    torch.testing.assert_close(to_paths, upstream.unsqueeze(1) * (weights * 3).unsqueeze(-1))
    torch.testing.assert_close(to_router, gradients("decoupled", representations, weights, upstream)[1])
    with pytest.raises(UsageError, match="average"):
        aggregated(representations.requires_grad_(), weights, "ema")


def test_ema_coefficients_are_one_in_the_mean() -> None:
    """E[w / EMA(w)] is about 1, also for a path that has become rare."""
    generator = torch.Generator().manual_seed(0)
    average = torch.full((3,), 1 / 3)
    shift = torch.tensor([4.0, 0.0, -4.0])
    seen = []
    for step in range(3000):
        weights = (torch.randn(32, 3, generator=generator) + shift).softmax(-1)
        if step >= 1000:
            seen.append(ema_coefficients(weights, average).mean(0))
        update_average(average, weights, 0.99)
    assert average[2] < 1e-2
    torch.testing.assert_close(torch.stack(seen).mean(0), torch.ones(3), atol=0.05, rtol=0)


def test_the_average_moves_by_one_part_in_a_hundred() -> None:
    """EMA <- 0.99 EMA + 0.01 mean over the batch."""
    average, weights = torch.tensor([0.8, 0.2]), torch.tensor([[0.5, 0.5], [0.1, 0.9]])
    update_average(average, weights, 0.99)
    torch.testing.assert_close(average, torch.tensor([0.99 * 0.8 + 0.01 * 0.3, 0.99 * 0.2 + 0.01 * 0.7]))


def test_a_path_given_up_for_good_gets_no_gradient_and_no_nan() -> None:
    coefficients = ema_coefficients(torch.zeros(2, 1), torch.zeros(1))
    assert torch.equal(coefficients, torch.zeros(2, 1))


@pytest.mark.parametrize(("paths", "weight"), sorted(BIASES))
def test_first_weights_are_as_wished_for_every_input(paths: int, weight: float) -> None:
    """docs/spec/munet.md#first-weights."""
    assert router_bias(paths, weight) == pytest.approx(BIASES[paths, weight], abs=1e-6)
    for norm in ("none", "layer"):
        router = PathRouter(MultipathStructure(main_weight=weight, router_norm=norm), 7, paths)  # type: ignore[arg-type]
        weights = router(drawn(6, 7, dtype=torch.float32) * 10)
        wanted = torch.full((6, paths), (1 - weight) / (paths - 1))
        wanted[:, 0] = weight
        torch.testing.assert_close(weights, wanted, atol=1e-6, rtol=0)


def test_a_uniform_start_prefers_nobody() -> None:
    router = PathRouter(MultipathStructure(router_start="uniform", aggregation="ema"), 4, 3)
    torch.testing.assert_close(router(drawn(2, 4, dtype=torch.float32)), torch.full((2, 3), 1 / 3))
    torch.testing.assert_close(router.average, torch.full((3,), 1 / 3))


@pytest.mark.parametrize("weight", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_first_weight_that_no_bias_gives_is_refused(weight: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        router_bias(3, weight)
    with pytest.raises(ValueError, match="main_weight"):
        MultipathStructure(main_weight=weight)
    with pytest.raises(UsageError, match="two paths"):
        router_bias(1, 0.8)


def test_a_router_draws_nothing() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    PathRouter(MultipathStructure(), 4, 3)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("norm", ["none", "layer"])
@pytest.mark.parametrize("factor", [0.0, 0.01, 0.5])
def test_lambda_scales_the_router_s_gradients_and_nothing_forward(norm: str, factor: float) -> None:
    """docs/spec/munet.md#router-rate."""
    main, upstream = drawn(5, 4), drawn(5, 3, seed=4)
    answers, found = [], []
    for rate in (1.0, factor):
        router = PathRouter(MultipathStructure(router_norm=norm, router_rate=rate), 4, 3).double()  # type: ignore[arg-type]
        with torch.no_grad():
            for number, parameter in enumerate(router.parameters()):
                parameter.copy_(drawn(*parameter.shape, seed=10 + number))
        weights = router(main)
        weights.backward(upstream)
        answers.append(weights.detach())
        found.append([parameter.grad for parameter in router.parameters()])
    assert torch.equal(*answers)
    for whole, scaled in zip(*found, strict=True):
        torch.testing.assert_close(scaled, whole * factor, rtol=1e-12, atol=1e-300)


def test_scaling_a_gradient_scales_what_stands_before_too() -> None:
    first, second = nn.Linear(3, 4).double(), nn.Linear(4, 2).double()
    parameters = [*first.parameters(), *second.parameters()]
    x = drawn(5, 3)
    plain = torch.autograd.grad(second(first(x)).square().sum(), parameters)
    scaled = torch.autograd.grad(scale_gradient(second(first(x)), 0.25).square().sum(), parameters)
    for one, other in zip(plain, scaled, strict=True):
        assert torch.equal(other, one * 0.25)  # a power of two: no rounding


@pytest.mark.parametrize("factor", [-0.1, 1.1, float("nan")])
def test_a_factor_outside_its_range_is_refused(factor: float) -> None:
    with pytest.raises(UsageError, match=r"\[0, 1\]"):
        scale_gradient(torch.zeros(1), factor)
