"""Short causal convolutions: the sum as written, its derivatives, and the same sum cut anywhere."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.operators.taps import _ShiftAndAdd, _TransformableShiftAndAdd, causal_taps, taps_after


def naive(x: Tensor, taps: Tensor) -> Tensor:
    rows = []
    for i in range(x.shape[1]):
        terms = [taps[k] * x[:, i - k] for k in range(taps.shape[0]) if i >= k]
        rows.append(torch.stack(terms).sum(0))
    return torch.stack(rows, 1) if rows else torch.zeros_like(x)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("tokens", [0, 1, 2, 3, 4, 9])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_it_is_the_sum(tokens: int, count: int) -> None:
    x, taps = drawn(2, tokens, 5), drawn(count, 5)
    y = causal_taps(x, taps)
    torch.testing.assert_close(y, naive(x, taps))
    padded = F.pad(x.mT, (count - 1, 0))
    if tokens:
        torch.testing.assert_close(y.mT, F.conv1d(padded, taps.flip(0).t().unsqueeze(1), groups=5))


@pytest.mark.parametrize("tokens", [1, 2, 6])
def test_derivatives(tokens: int) -> None:
    inputs = drawn(2, tokens, 3).requires_grad_(), drawn(4, 3).requires_grad_()
    assert torch.autograd.gradcheck(causal_taps, inputs)
    assert torch.autograd.gradgradcheck(causal_taps, inputs)


def test_under_vmap() -> None:
    x, taps = drawn(3, 2, 6, 5), drawn(3, 4, 5)
    mapped = torch.func.vmap(causal_taps)(x, taps)
    torch.testing.assert_close(mapped, torch.stack([naive(*pair) for pair in zip(x, taps, strict=True)]))


@pytest.mark.parametrize("cut", [0, 1, 2, 5, 8, 9])
def test_any_cut_gives_the_same(cut: int) -> None:
    x, taps = drawn(2, 9, 5), drawn(4, 5)
    past, outputs = torch.zeros(2, 3, 5, dtype=torch.float64), []
    for piece in (x[:, :cut], x[:, cut:]):
        y, past = taps_after(piece, past, taps)
        outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs, 1), naive(x, taps))
    torch.testing.assert_close(past, x[:, -3:])


def test_what_is_kept_is_no_view_of_the_prompt() -> None:
    _, kept = taps_after(drawn(1, 1000, 5), torch.zeros(1, 3, 5, dtype=torch.float64), drawn(4, 5))
    assert kept.untyped_storage().nbytes() == kept.numel() * kept.element_size()


def test_under_autocast_the_derivatives_arrive() -> None:
    x, taps = drawn(1, 8, 4).float().bfloat16().requires_grad_(), drawn(3, 4).float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        causal_taps(x, taps).sum().backward()
    assert x.grad is not None
    assert taps.grad is not None
    assert (x.grad.dtype, taps.grad.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize(("tokens", "count"), [(1, 4), (3, 4), (17, 4), (9, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_with_and_without_a_rule_for_transforms_it_is_the_same_bit_for_bit(
    tokens: int, count: int, dtype: torch.dtype
) -> None:
    x, taps = (drawn(*shape).to(dtype).requires_grad_() for shape in ((2, tokens, 5), (count, 5)))
    results = []
    for kind in (_ShiftAndAdd, _TransformableShiftAndAdd):
        y = kind.apply(x, taps)
        results.append((y, *torch.autograd.grad(y.square().sum(), (x, taps))))
    assert all(torch.equal(left, right) for left, right in zip(*results, strict=True))


def test_many_at_once_are_each_alone() -> None:
    x, taps = drawn(3, 2, 7, 5), drawn(3, 4, 5)
    together = torch.vmap(causal_taps)(x, taps)
    alone = torch.stack([causal_taps(one, weights) for one, weights in zip(x, taps, strict=True)])
    torch.testing.assert_close(together, alone)
    slopes = torch.func.vmap(torch.func.grad(lambda a, b: causal_taps(a, b).square().sum()))(x, taps)
    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(
        sum(causal_taps(one, weights).square().sum() for one, weights in zip(leaf, taps, strict=True)), leaf
    )
    torch.testing.assert_close(slopes, wanted)
