"""Mean and low-rank covariance against numpy, and a basis that stays orthonormal whatever the optimiser does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evodevo.module_zoo.encoders.moments import Statistics
from evodevo.module_zoo.spec import StatisticsStructure

CHANNELS, WIDTH, LENGTH = 6, 8, 5


def build(length: int = LENGTH, channels: int = CHANNELS, **changes: Any) -> Statistics:
    torch.manual_seed(0)
    return Statistics(channels, WIDTH, StatisticsStructure(**({"rank": 3} | changes)), length).to(torch.float64)


def basis_of(statistics: Statistics) -> torch.Tensor:
    return statistics.basis.detach().clone()


def features(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    h = torch.randn(4, LENGTH, CHANNELS, generator=source, dtype=torch.float64)
    mask = torch.arange(LENGTH) < torch.tensor([LENGTH, 3, 1, 2])[:, None]
    return h, mask


@torch.no_grad()
@pytest.mark.parametrize("rank", [1, 3, CHANNELS, 16])
def test_the_covariance_is_numpys_projected(rank: int) -> None:
    statistics = build(rank=rank)
    h, mask = features()
    basis = basis_of(statistics).numpy()
    kept = min(rank, CHANNELS)
    assert basis.shape == (CHANNELS, kept)
    summary = statistics.summary(h, mask)
    for row in range(4):
        real = h[row][mask[row]].numpy()
        covariance = np.cov(real, rowvar=False, bias=True)
        projected = basis.T @ covariance @ basis
        np.testing.assert_allclose(summary[row, :CHANNELS], real.mean(0), atol=1e-12)
        np.testing.assert_allclose(summary[row, CHANNELS:], projected[np.triu_indices(kept)], atol=1e-12)
    torch.testing.assert_close(statistics(h, mask), statistics.project(summary))


@pytest.mark.parametrize("kind", ["mean_covariance", "mean", "cls"])
def test_padding_and_empty_samples(kind: str) -> None:
    statistics = build(kind=kind)
    h, mask = features()
    noise = torch.where(mask.unsqueeze(-1), h, 100.0)
    torch.testing.assert_close(statistics(h, mask), statistics(noise, mask))
    torch.testing.assert_close(statistics(h, mask)[1], statistics(h[1:2, :3])[0])
    empty = mask.clone()
    empty[0] = False
    assert torch.equal(statistics.summary(h, empty)[0], torch.zeros_like(statistics.summary(h, empty)[0]))


def test_cls_is_the_first_token_and_one_position_has_no_covariance() -> None:
    h, mask = features()
    assert torch.equal(build(kind="cls").summary(h, mask), h[:, 0])
    assert not build().summary(h, mask)[2, CHANNELS:].any()
    lone = build(length=1)
    assert (lone.rank, lone.project.in_features) == (0, CHANNELS), "an input that never has more has no numbers for it"


@torch.no_grad()
def test_the_root_is_signed_and_normed() -> None:
    h, mask = features()
    plain = build().summary(h, mask)[:, CHANNELS:]
    rooted = build(root=True).summary(h, mask)[:, CHANNELS:]
    wanted = plain.sign() * plain.abs().sqrt()
    wanted = torch.nn.functional.layer_norm(wanted, wanted.shape[-1:])
    several = mask.sum(1) > 1  # the norm of zeros is of rounding
    torch.testing.assert_close(rooted[several], wanted[several], rtol=0, atol=0.02)


@pytest.mark.parametrize("root", [True, False])
def test_gradients_are_finite_also_of_zero_covariance(root: bool) -> None:
    statistics = build(root=root)
    h, mask = features()
    h = h.requires_grad_()
    mask[3] = False
    wanted = [h, *statistics.parameters()]
    for gradient in torch.autograd.grad(statistics(h, mask).square().sum(), wanted):
        assert bool(gradient.isfinite().all())
        assert bool(gradient.any())


@pytest.mark.parametrize("channels", [CHANNELS, 3])
def test_the_basis_stays_orthonormal_under_weight_decay(channels: int) -> None:
    """PyTorch's Householder parametrization becomes zero here: its signs lie on a diagonal that decays."""
    statistics = build(channels=channels)
    optimizer = torch.optim.AdamW(statistics.parameters(), lr=0.1, weight_decay=0.5)
    start = basis_of(statistics)
    for step in range(20):
        h = torch.randn(4, LENGTH, channels, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
        optimizer.zero_grad()
        statistics(h).square().sum().backward()
        optimizer.step()
    basis = basis_of(statistics)
    torch.testing.assert_close(basis.T @ basis, torch.eye(3, dtype=torch.float64))
    assert not torch.allclose(basis, start, atol=1e-2)


@settings(deadline=None, max_examples=15)
@given(st.floats(0.1, 10), st.integers(0, 1000))
def test_the_basis_does_not_depend_on_the_scale_and_moves_continuously(scale: float, seed: int) -> None:
    statistics = build()
    raw = dict(statistics.named_parameters())["parametrizations.basis.original"]
    with torch.no_grad():
        raw.copy_(torch.randn(raw.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
        before = basis_of(statistics)
        raw.mul_(scale)
        torch.testing.assert_close(basis_of(statistics), before)
        raw[0, 0] = 1e-9  # LAPACK changes the sign of a column where this number passes through zero
        one = basis_of(statistics)
        raw[0, 0] = -1e-9
        torch.testing.assert_close(basis_of(statistics), one, rtol=0, atol=1e-6)


def test_half_precision_is_taken_in_full() -> None:
    statistics = build().float()
    h, mask = features()
    with torch.autocast("cpu", torch.bfloat16):
        summary = statistics.summary(h.bfloat16(), mask)
    assert summary.dtype == torch.float32
    wanted = statistics.summary(h.bfloat16().float(), mask)
    assert math.isclose(float((summary - wanted).detach().abs().max()), 0, abs_tol=1e-6)
