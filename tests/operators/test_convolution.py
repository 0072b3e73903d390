"""Convolutions against torch's own and against the sum; what a filter means, in every form."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.operators.classes import OPERATORS
from evodevo.operators.featurizers import FeatureGroup, ImplicitFilter, ModalFilter, build_group
from evodevo.operators.fourier import convolve, convolve_after
from evodevo.operators.spec import Dimensions

CHANNELS = 8


def signal(tokens: int, *, seed: int = 0, batch: int = 2) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(batch, tokens, CHANNELS, generator=source, dtype=torch.float64)


def kernel_of(length: int) -> Tensor:
    return torch.randn(CHANNELS, length, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def torch_convolution(x: Tensor, kernel: Tensor) -> Tensor:
    """Causal and depthwise, by ``conv1d``. x (B, T, C), kernel (C, K)."""
    padded = F.pad(x.transpose(1, 2), (kernel.shape[1] - 1, 0))
    return F.conv1d(padded, kernel.flip(1).unsqueeze(1), groups=x.shape[2]).transpose(1, 2)


@pytest.mark.parametrize("tokens", [1, 2, 3, 31, 32, 33, 100])
def test_transform_is_a_convolution(tokens: int) -> None:
    x = signal(tokens)
    for length in {1, tokens // 2 + 1, tokens}:
        kernel = kernel_of(length)
        torch.testing.assert_close(convolve(x, kernel), torch_convolution(x, kernel), rtol=0, atol=1e-12)


@pytest.mark.parametrize("taps", [3, 8, 9, 20])
@pytest.mark.parametrize("tokens", [0, 1, 5, 30])
def test_convolution_goes_on_from_the_past(tokens: int, taps: int) -> None:
    x, kernel = signal(taps - 1 + tokens), kernel_of(taps)
    whole = torch_convolution(x, kernel)
    after = convolve_after(x[:, taps - 1 :], x[:, : taps - 1], kernel)
    torch.testing.assert_close(after, whole[:, taps - 1 :], rtol=0, atol=1e-12)
    half = convolve_after(x[:, taps - 1 :].bfloat16(), x[:, : taps - 1], kernel.float())
    assert half.dtype == torch.bfloat16


@pytest.mark.parametrize("tokens", [255, 1024])
def test_transform_in_single_precision(tokens: int) -> None:
    """float32 loses rounding only; bfloat16 inputs lose their own rounding and nothing to the transform."""
    x = signal(tokens, batch=1)
    kernel = kernel_of(tokens) * torch.exp(-0.01 * torch.arange(tokens))
    exact = torch_convolution(x, kernel)
    assert float((convolve(x.float(), kernel.float()) - exact).abs().max() / exact.abs().max()) < 1e-6
    half = x.bfloat16()
    exact = torch_convolution(half.double(), kernel)
    assert float((convolve(half, kernel.float()) - exact).abs().max() / exact.abs().max()) < 2**-8


def test_gradients() -> None:
    x, kernel = signal(5)[..., :2].contiguous().requires_grad_(), kernel_of(5)[:2].contiguous().requires_grad_()
    assert torch.autograd.gradcheck(convolve, [x, kernel])
    past = signal(4, seed=1)[..., :2].contiguous().requires_grad_()
    assert torch.autograd.gradcheck(convolve_after, [x, past, kernel])


def filter_group(kind: str, **sizes: int) -> FeatureGroup:
    torch.manual_seed(0)
    dims = Dimensions(width=CHANNELS, head_size=2, long_filter=kind, **({"modes": 3, "chunk": 4} | sizes))  # type: ignore[arg-type]
    return build_group(OPERATORS.get("GConv-2").spec, "filter", dims).double()


@pytest.mark.parametrize("chunk", [1, 4, 32])
def test_modal_filter_is_a_sum_of_exponentials(chunk: int) -> None:
    group = filter_group("modal", chunk=chunk)
    assert isinstance(group, ModalFilter)
    poles = torch.exp(-torch.exp(group.log_rates))
    for length in (1, 3, 4, 5, 33):
        wanted = torch.stack([(group.residues * poles**t).sum(1) for t in range(length)], 1)
        wanted[:, 0] += group.direct
        torch.testing.assert_close(group.kernel(length), wanted, rtol=0, atol=1e-12)


def test_modal_filter_is_its_recurrence() -> None:
    """Transform = closed form of a piece = step, outputs and modes (docs/spec/star.md#long-gated-convolution)."""
    group = filter_group("modal")
    assert isinstance(group, ModalFilter)
    x, modes = signal(21), torch.zeros(2, CHANNELS, 3, dtype=torch.float64)
    whole, end = group.advance(x, modes)
    torch.testing.assert_close(whole, convolve(x, group.kernel(21)), rtol=0, atol=1e-13)
    outputs = []
    for t in range(21):
        y, modes = group.advance(x[:, t : t + 1], modes)
        outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs, 1), whole, rtol=0, atol=1e-13)
    torch.testing.assert_close(modes, end, rtol=0, atol=1e-13)


def test_modal_gradients_by_state_and_filter() -> None:
    group = filter_group("modal")
    assert isinstance(group, ModalFilter)
    x = signal(6, batch=1).requires_grad_()
    modes = torch.randn(1, CHANNELS, 3, dtype=torch.float64, requires_grad=True)
    parameters = [group.residues, group.log_rates, group.direct]
    for tokens in (1, 6):
        assert torch.autograd.gradcheck(lambda x, m, *_: group.advance(x, m), [x[:, :tokens], modes, *parameters])


@pytest.mark.parametrize("kind", ["modal", "mlp"])
def test_filters_are_made_in_full_precision(kind: str) -> None:
    group = filter_group(kind).float()
    assert isinstance(group, ModalFilter | ImplicitFilter)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = group.kernel(40)
    assert torch.equal(inside, group.kernel(40))


@pytest.mark.parametrize("kind", ["modal", "mlp"])
def test_filters_start_with_about_unit_energy(kind: str) -> None:
    torch.manual_seed(0)
    dims = Dimensions(width=64, long_filter=kind, max_length=2048)  # type: ignore[arg-type]
    group = build_group(OPERATORS.get("GConv-2").spec, "filter", dims)
    assert isinstance(group, ModalFilter | ImplicitFilter)
    kernel = group.kernel(2048).detach()
    energy = kernel.square().sum(1).mean()
    assert 0.5 < float(energy) < 5.0  # the direct term alone has 1


@pytest.mark.parametrize("rate", [-20.0, 0.0, 5.0, 50.0])
def test_extreme_poles_stay_finite(rate: float) -> None:
    group = filter_group("modal").float()
    assert isinstance(group, ModalFilter)
    with torch.no_grad():
        group.log_rates.fill_(rate)
    for tokens in (1, 40):
        x, modes = signal(tokens).float(), torch.randn(2, CHANNELS, 3)
        y, end = group.advance(x, modes)
        assert bool(y.isfinite().all())
        gradients = torch.autograd.grad(y.square().sum() + end.square().sum(), list(group.parameters()))
        assert all(bool(gradient.isfinite().all()) for gradient in gradients)
