"""Losses on what routers over modules decide: analytic values, signs and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

import pytest
import torch
from torch import Tensor

from evodevo.module_zoo.router import losses
from evodevo.module_zoo.router.base import RouterOutput
from evodevo.module_zoo.router.gates import ModuleGate
from evodevo.module_zoo.spec import Gate
from evodevo.networks.routing.losses import z_loss

GATES = get_args(Gate)
N = 6
SHARP = 50.0
"""A logit that makes a softmax one-hot but for 1e-21."""


def drawn(seed: int, batch: int = 8, heads: int = 2, count: int = N) -> Tensor:
    return torch.randn(batch, heads, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def one_hot(places: list[int]) -> Tensor:
    """(B, 1, N) logits."""
    return SHARP * torch.eye(N, dtype=torch.float64)[places].unsqueeze(1)


def decided(weights: Tensor, legal: Tensor | None = None) -> RouterOutput:
    if legal is None:
        legal = torch.ones_like(weights, dtype=torch.bool)
    return RouterOutput(weights.unsqueeze(1).clamp(min=1e-9).log(), weights.unsqueeze(1), weights, legal)


# Values


def test_load_is_zero_where_all_are_used_alike_of_those_that_a_sample_may_use() -> None:
    assert losses.load(one_hot(list(range(N)))).item() == pytest.approx(0, abs=1e-12)
    assert losses.load(torch.zeros(3, 2, N)).item() == pytest.approx(0, abs=1e-12)
    # (1 - 1/N)^2 + (N - 1) / N^2 = 1 - 1/N
    assert losses.load(one_hot([2] * 5)).item() == pytest.approx(1 - 1 / N)
    # One module half of the time, another the other half: 2 (1/2 - 1/N)^2 + (N - 2) / N^2
    assert losses.load(one_hot([0, 1])).item() == pytest.approx(2 * (0.5 - 1 / N) ** 2 + (N - 2) / N**2)
    heads = torch.cat([one_hot([place]) for place in range(N)], 1)
    assert losses.load(heads).item() == pytest.approx(0, abs=1e-12), "a module that one head uses is not dead"
    # Even use of what each sample may use is even.
    legal = torch.tensor([[True, True, False], [False, True, True], [False, False, False]])
    assert losses.load(torch.zeros(3, 2, 3), legal).item() == pytest.approx(0, abs=1e-12)
    everybody = torch.ones(8, N, dtype=torch.bool)
    assert losses.load(drawn(1), everybody).item() == pytest.approx(losses.load(drawn(1)).item())


@pytest.mark.parametrize("seed", range(4))
def test_load_is_zero_only_there(seed: int) -> None:
    logits = drawn(seed)
    shares = logits.softmax(-1).mean((0, 1))
    assert losses.load(logits).item() == pytest.approx(((shares - 1 / N) ** 2).sum().item())
    assert losses.load(logits).item() > 0


def test_entropy_is_between_zero_and_log_n_and_effective_modules_between_zero_and_n() -> None:
    assert losses.entropy(torch.zeros(3, 2, N)).item() == pytest.approx(math.log(N))
    assert losses.entropy(one_hot([1, 4])).item() == pytest.approx(0, abs=1e-12)
    legal = torch.tensor([[True] * 2 + [False] * 4, [False] * N])
    assert losses.entropy(torch.zeros(2, 3, N), legal).item() == pytest.approx(math.log(2))
    # Rewarded alone it wants even weights; the sign that the paper prints would do the opposite.
    assert -losses.entropy(torch.zeros(1, 1, N)) < -losses.entropy(one_hot([0]))
    weights = torch.tensor([[1.0, 0, 0, 0], [0.25] * 4, [0.5, 0.5, 0, 0], [0.0] * 4])
    torch.testing.assert_close(losses.effective_modules(weights), torch.tensor([1.0, 4.0, 2.0, 0.0]))


def test_budget_is_the_squared_excess() -> None:
    even = torch.full((3, 4), 0.25)
    assert losses.budget(even, 2).item() == pytest.approx((2 / 4) ** 2)
    assert losses.budget(torch.eye(4), 2).item() == pytest.approx((1 / 4) ** 2)
    assert losses.budget(torch.tensor([[0.5, 0.5, 0, 0]]), 2).item() == pytest.approx(0)
    assert losses.budget(torch.stack([even[0], torch.eye(4)[0]]), 2).item() == pytest.approx((1 / 4 + 1 / 16) / 2)
    # Samples for which nobody counts say nothing, and K is at most N.
    assert losses.budget(torch.stack([even[0], torch.zeros(4)]), 2).item() == pytest.approx(1 / 4)
    assert losses.budget(even, 9).item() == pytest.approx(0)


def test_orthogonality_is_the_mean_squared_cosine() -> None:
    angle = math.pi / 3
    outputs = torch.tensor([[[1.0, 0.0], [3 * math.cos(angle), 3 * math.sin(angle)], [0.0, 2.0]]])
    wanted = (math.cos(angle) ** 2 + 0 + math.sin(angle) ** 2) / 3
    for per_sample in (True, False):
        assert losses.orthogonality(outputs, per_sample=per_sample).item() == pytest.approx(wanted)
        assert losses.orthogonality(outputs[:, :1], per_sample=per_sample).item() == 0
        nothing = torch.zeros(2, 3, 4, requires_grad=True)
        loss = losses.orthogonality(nothing, per_sample=per_sample)
        assert loss.item() == 0
        assert torch.autograd.grad(loss, nothing)[0].isfinite().all()
        same = torch.ones(4, 5, 3)
        assert losses.orthogonality(same, per_sample=per_sample).item() == pytest.approx(1)
        u = torch.tensor([[1.0, 2.0], [-1.0, -2.0]])  # (B, d): means over the batch hide opposite signs
        found = losses.orthogonality(torch.stack([u, u], 1), per_sample=per_sample).item()
        assert found == pytest.approx(float(per_sample))


def test_complexity_is_the_share_of_parameters_in_use() -> None:
    parameters = torch.tensor([100, 300, 600])
    assert losses.complexity(torch.eye(3)[[1]], parameters).item() == pytest.approx(0.3)
    # Even weights are half of the bound 2 / N, so that the gradient does not vanish.
    assert losses.complexity(torch.full((2, 3), 1 / 3), parameters).item() == pytest.approx(0.5)
    assert losses.complexity(torch.zeros(2, 3), parameters).item() == 0
    assert losses.complexity(torch.ones(2, 3), torch.zeros(3)).item() == 0


def test_z_loss_leaves_illegal_modules_out() -> None:
    logits = torch.zeros(2, 3, N)
    legal = torch.tensor([[True, True, False, False, False, False], [True] * N]).unsqueeze(1)
    wanted = (math.log(2) ** 2 + math.log(N) ** 2) / 2
    assert z_loss(logits.masked_fill(~legal, 1e6), legal).item() == pytest.approx(wanted)
    legal = legal.clone()
    legal[0] = False
    assert z_loss(logits, legal).item() == pytest.approx(math.log(N) ** 2 / 2)


def test_the_predictor_is_right_where_it_says_the_weights_and_alone_learns_them() -> None:
    weights = ModuleGate("softmax")(drawn(4)).mean(1)
    assert losses.predictor_loss(weights.log() + 3, decided(weights)).item() == pytest.approx(0, abs=1e-9)
    # KL of one-hot from even is log N.
    target = torch.eye(N)[[1, 3]]
    assert losses.predictor_loss(torch.zeros(2, N), decided(target)).item() == pytest.approx(math.log(N))
    legal = torch.tensor([[True, True, False, False, False, False]] * 2)
    found = losses.predictor_loss(torch.zeros(2, N), decided(torch.eye(N)[[0, 1]], legal)).item()
    assert found == pytest.approx(math.log(2))
    assert losses.predictor_loss(torch.zeros(2, N), decided(torch.zeros(2, N))).item() == 0
    logits, predicted = drawn(5).requires_grad_(), torch.zeros(8, N, dtype=torch.float64, requires_grad=True)
    weights = ModuleGate("sparsemax")(logits).mean(1)
    losses.predictor_loss(predicted, decided(weights)).backward()
    assert logits.grad is None
    torch.testing.assert_close(predicted.grad, (1 / N - weights.detach()) / 8)


# Gradients


@pytest.mark.parametrize("loss", [losses.load, losses.entropy, z_loss])
def test_losses_on_logits_reach_modules_that_the_gate_has_shut_out(loss: Callable[[Tensor], Tensor]) -> None:
    """Through sparsemax itself a dead module could never come back."""
    logits = torch.tensor([[[0.0, 3.0, -2.0]]], requires_grad=True)
    (through_gate,) = torch.autograd.grad(ModuleGate("sparsemax")(logits).square().sum(), logits)
    assert not through_gate.any()
    (gradient,) = torch.autograd.grad(loss(logits), logits)
    assert (gradient != 0).all()


@pytest.mark.parametrize("gate", GATES)
def test_gradients_are_finite_through_every_gate_and_teach_the_router(gate: Gate) -> None:
    parameters = torch.arange(1, N + 1) * 1000
    for scale, legal_share in ((0.0, 1.0), (1.0, 0.6), (1e3, 0.6), (1.0, 0.0)):
        logits = (drawn(6).float() * scale).requires_grad_()
        legal = torch.rand(8, N, generator=torch.Generator().manual_seed(7)) < legal_share
        weights = ModuleGate(gate)(logits, legal.unsqueeze(1)).mean(1)
        total = (
            losses.load(logits, legal)
            - losses.entropy(logits, legal)
            + losses.budget(weights, 2)
            + losses.complexity(weights, parameters)
            + z_loss(logits, legal.unsqueeze(1))
        )
        (gradient,) = torch.autograd.grad(total, logits)
        assert total.isfinite()
        assert gradient.isfinite().all()
    for loss in (lambda w: losses.budget(w, 2), lambda w: losses.complexity(w, parameters)):
        logits = drawn(8).requires_grad_()
        (gradient,) = torch.autograd.grad(loss(ModuleGate(gate)(logits).mean(1)), logits)
        assert gradient.abs().max() > 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    logits = drawn(11).to(dtype)
    for loss in (losses.load, losses.entropy):
        assert loss(logits).dtype == torch.float32
        assert loss(logits).item() == pytest.approx(loss(logits.float()).item())
    outputs = drawn(12).to(dtype)
    assert losses.orthogonality(outputs, per_sample=True).dtype == torch.float32
