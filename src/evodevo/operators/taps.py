"""Short causal depthwise convolutions by shifting and adding.

Inside a channel-last model this beats a convolution with two transposes up to about 8 taps
(docs/spec/star.md#short-gated-convolution).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.operators.kernels.choice import kernel_for, may_serve


def causal_taps(x: Tensor, taps: Tensor) -> Tensor:
    """y_i = sum_k taps_k * x_{i-k}, with zeros before the first token.

    Args:
        x: (B, T, C).
        taps: (K, C).

    Returns:
        (B, T, C).
    """
    if torch.compiler.is_compiling():
        return _padded(x, taps)
    if may_serve("taps", x) and (kernel := _kernel(x, taps)) is not None:
        mixed: Tensor = kernel(x, taps)
        return mixed
    y: Tensor = _rule().apply(x, taps)  # type: ignore[no-untyped-call]
    return y


def _kernel(x: Tensor, taps: Tensor) -> Callable[..., Tensor] | None:
    count, channels = taps.shape

    def example(device: torch.device, kind: torch.dtype) -> list[Tensor]:
        source = torch.Generator().manual_seed(0)
        signal = torch.randn(1, 40, channels, generator=source).to(device, kind)
        return [signal.requires_grad_(), torch.randn(count, channels, generator=source).to(device).requires_grad_()]

    def own(x: Tensor, taps: Tensor) -> Tensor:
        y: Tensor = _ShiftAndAdd.apply(x, taps)  # type: ignore[no-untyped-call]
        return y

    return kernel_for("taps", x, {"tokens": x.shape[1], "taps": count, "channels": channels}, own, example)


def _padded(x: Tensor, taps: Tensor) -> Tensor:
    """The same sum without a loop that ends at the number of tokens, which is free in a graph."""
    tokens, kept = x.shape[1], taps.shape[0] - 1
    extended = F.pad(x, (0, 0, kept, 0))
    y = x * taps[0]
    for shift in range(1, kept + 1):
        y = y + extended.narrow(1, kept - shift, tokens) * taps[shift]
    return y


def taps_after(x: Tensor, past: Tensor, taps: Tensor) -> tuple[Tensor, Tensor]:
    """The same where the tokens before x are known.

    Args:
        x: (B, T, C).
        past: (B, K-1, C).
        taps: (K, C).

    Returns:
        y (B, T, C), and the last K-1 tokens of past and x.
    """
    kept = past.shape[1]
    extended = torch.cat([past.to(x.dtype), x], 1)
    if x.shape[1] == 1:
        y = (extended * taps.flip(0)).sum(1, keepdim=True)
    else:
        y = causal_taps(extended, taps)[:, kept:]
    return y, extended[:, extended.shape[1] - kept :].clone()  # a view would keep the whole prompt alive


def _rule() -> type[torch.autograd.Function]:
    """The function with a rule for transforms where one is active: torch binds the arguments of such a function to its
    signature at every call, which in training costs more than the sum."""
    transformed = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    return _TransformableShiftAndAdd if transformed else _ShiftAndAdd


def _shift_and_add(x: Tensor, taps: Tensor) -> Tensor:
    tokens = x.shape[1]
    y = x * taps[0]
    for shift in range(1, min(taps.shape[0], tokens)):
        y[:, shift:] += x[:, : tokens - shift] * taps[shift]
    return y


def _gradients(x: Tensor, taps: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    tokens = x.shape[1]
    to_x = gradient * taps[0]
    to_taps = [(gradient * x).sum((0, 1))]
    for shift in range(1, taps.shape[0]):
        if shift >= tokens:
            to_taps.append(torch.zeros_like(taps[0]))
            continue
        to_x[:, : tokens - shift] += gradient[:, shift:] * taps[shift]
        to_taps.append((gradient[:, shift:] * x[:, : tokens - shift]).sum((0, 1)))
    return to_x, torch.stack(to_taps)


class _ShiftAndAdd(torch.autograd.Function):
    """Adds in place, forward and backward: three times as fast as what autograd makes of the same sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, taps: Tensor) -> Tensor:
        ctx.save_for_backward(x, taps)
        return _shift_and_add(x, taps)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor]:
        return _gradients(*ctx.saved_tensors, *gradients)


class _TransformableShiftAndAdd(torch.autograd.Function):
    """The same under vmap and the other transforms of ``torch.func``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, taps: Tensor) -> Tensor:
        return _shift_and_add(x, taps)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor]:
        return _gradients(*ctx.saved_tensors, *gradients)
