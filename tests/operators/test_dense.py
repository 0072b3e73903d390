"""Dense maps: whichever library makes the product, it is x Wᵀ with its gradients of any order."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from evodevo.operators import dense
from evodevo.operators.dense import affine, linear

needs_one_dnn = pytest.mark.skipif(
    not dense.one_dnn(), reason="this processor has no AVX-512: torch's own product serves"
)


def inputs(rows: tuple[int, ...], width: int, channels: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = (*rows, width), (channels, width), (*rows, channels)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)  # type: ignore[return-value]


@pytest.mark.parametrize("rows", [(0,), (1,), (31,), (2, 1, 17), (3, 33), (64,)])
@pytest.mark.parametrize(("width", "channels"), [(8, 1), (24, 12), (16, 100), (65, 33)])
def test_values_and_gradients_are_those_of_torch(rows: tuple[int, ...], width: int, channels: int) -> None:
    x, weight, gradient = inputs(rows, width, channels)
    results = []
    for function in (linear, F.linear):
        leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
        y = function(*leaves)
        results.append((y, *torch.autograd.grad(y, leaves, gradient)))
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-4)


def test_second_derivatives_are_those_of_torch() -> None:
    x, weight, _ = inputs((40,), 9, 50)
    results = []
    for function in (linear, F.linear):
        leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
        first = torch.autograd.grad(function(*leaves).sin().sum(), leaves, create_graph=True)
        results.append(torch.autograd.grad(sum((g**2).sum() for g in first), leaves))
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-3)


def test_strided_inputs_and_expanded_gradients() -> None:
    x, weight, _ = inputs((48,), 40, 20)
    leaf = x.t().contiguous().requires_grad_()
    y = linear(leaf.t(), weight.t().contiguous().t())
    torch.testing.assert_close(y, F.linear(x, weight), rtol=1e-5, atol=1e-5)
    y.sum().backward()
    torch.testing.assert_close(leaf.grad, weight.sum(0)[:, None].expand(40, 48), rtol=1e-5, atol=1e-5)


@needs_one_dnn
def test_the_fast_product_serves_training_in_float32_and_nothing_else() -> None:
    x, weight, _ = inputs((64,), 16, 16)
    weight.requires_grad_()
    assert "_Dense" in type(linear(x, weight).grad_fn).__name__
    assert "_Dense" not in type(linear(x[:8], weight).grad_fn).__name__
    assert "_Dense" not in type(linear(x.double(), weight.double()).grad_fn).__name__
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16
    batched = torch.func.vmap(lambda a: linear(a, weight))(x.view(2, 32, 16))
    torch.testing.assert_close(batched.flatten(0, 1), F.linear(x, weight), rtol=1e-5, atol=1e-5)


def test_without_it_torch_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, _ = inputs((64,), 16, 16)
    monkeypatch.setattr(dense, "one_dnn", lambda: False)
    assert torch.equal(linear(x, weight), F.linear(x, weight))


@pytest.mark.parametrize("rows", [(0,), (3, 5), (20, 40)])
@pytest.mark.parametrize("bias", [True, False])
def test_affine_is_the_layer(rows: tuple[int, ...], bias: bool) -> None:
    x, _, gradient = inputs(rows, 64, 48)
    layer = nn.Linear(64, 48, bias=bias)
    results = []
    for function in (lambda u: affine(u, layer), layer):
        leaf = x.clone().requires_grad_()
        y = function(leaf)
        results.append((y, *torch.autograd.grad(y, [leaf, *layer.parameters()], gradient)))
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-4)


def test_counters_of_flops_see_every_product() -> None:
    x, weight, _ = inputs((64,), 32, 16)
    with FlopCounterMode(display=False) as counter:
        linear(x, weight)
    assert counter.get_total_flops() == 2 * 64 * 32 * 16


def test_affine_follows_autocast_as_the_layer_does() -> None:
    x, layer = torch.randn(20, 40, 64), nn.Linear(64, 64)
    dense.one_dnn.cache_clear()  # the first product of a process may be one under autocast
    with torch.autocast("cpu", torch.bfloat16):
        assert affine(x, layer).dtype == layer(x).dtype == torch.bfloat16
