"""Dense maps x Wᵀ, by the faster of the two matrix libraries that torch carries on a CPU.

torch gives float32 products to MKL, which on processors of other makers than its own stays with AVX2 even where they
have AVX-512. oneDNN, which torch carries too, uses what is there: about twice the speed in training
(benchmarks/training_step.py prints both). All other cases are ``torch.nn.functional.linear``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FEWEST_ROWS = 32  # below it MKL is as fast, and a call costs less
FEWEST_PRODUCTS = 1 << 21  # the same for products with a bias, which costs a pass of its own
WIDE = 4  # a weight with so many times more rows than columns has its gradient made transposed, twice as fast


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x (..., D), weight (C, D) -> (..., C)."""
    return F.linear(x, weight) if _plain(x, weight) else _Dense.apply(x, weight)  # type: ignore[no-untyped-call]


def affine(x: Tensor, layer: nn.Linear) -> Tensor:
    """The linear layer applied to x (..., D): x Wᵀ + b."""
    rows = x.numel() // max(x.shape[-1], 1)
    small = rows * layer.weight.numel() < FEWEST_PRODUCTS
    # A program for any number of rows must not depend on how many this call has: that question comes first.
    if torch.compiler.is_compiling() or layer.bias is None or small or _plain(x, layer.weight):
        return F.linear(x, layer.weight, layer.bias)
    product: Tensor = _Dense.apply(x, layer.weight)  # type: ignore[no-untyped-call]
    return product + layer.bias


def _plain(x: Tensor, weight: Tensor) -> bool:
    """Whether torch's own product serves."""
    return (
        x.device.type != "cpu"
        or x.dtype != torch.float32
        or weight.dtype != torch.float32
        or torch.compiler.is_compiling()  # before any question about rows; see ``affine``
        or x.numel() < FEWEST_ROWS * x.shape[-1]
        or torch.is_autocast_enabled("cpu")
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0  # counters of FLOPs do not count oneDNN's product
        or not one_dnn()  # last: its check must run under none of the above
    )


@cache
def one_dnn() -> bool:
    """Whether oneDNN's product is used: on processors with AVX-512, if it passes a check."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    if not torch._C._has_mkldnn or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    x, weight = torch.linspace(-1, 1, 40 * 24).view(40, 24), torch.linspace(1, -2, 16 * 24).view(16, 24)
    return torch.allclose(_product(x, weight), F.linear(x, weight), rtol=1e-4, atol=1e-4)


def _product(x: Tensor, weight: Tensor) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
    return product


class _Dense(torch.autograd.Function):
    """oneDNN's product has no derivative of its own. Both gradients are products too, so there is one of any order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        (gradient,) = gradients
        rows, columns = gradient.reshape(-1, gradient.shape[-1]), x.reshape(-1, x.shape[-1])
        to_x = to_weight = None
        if ctx.needs_input_grad[0]:
            to_x = linear(gradient, weight.t())
        if ctx.needs_input_grad[1]:
            if weight.shape[0] > WIDE * weight.shape[1]:
                to_weight = linear(columns.t(), rows.t()).t()
            else:
                to_weight = linear(rows.t(), columns.t())
        return to_x, to_weight
