"""Causal depthwise convolutions with kernels of any length, by Fourier transform.

Legend: B batch, T tokens, S tokens before them, C channels, K taps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from evodevo.operators.base import is_free
from evodevo.operators.taps import causal_taps

DIRECT_TAPS = 8  # above it the transform is faster


def convolve(x: Tensor, kernel: Tensor) -> Tensor:
    """Causal convolution by Fourier transform.

    Args:
        x: (B, T, C).
        kernel: (C, K), K at most T.

    Always float32 or better: half precision transforms lose the tail of long filters.
    """
    tokens, precise = x.shape[1], torch.promote_types(x.dtype, torch.float32)
    if tokens == 0:
        return x
    size = tokens + kernel.shape[1]
    if not is_free(size):
        size = 1 << (size - 1).bit_length()
    signal = torch.fft.rfft(x.to(precise).transpose(1, 2), n=size)
    product = signal * torch.fft.rfft(kernel.to(precise), n=size)
    y: Tensor = torch.fft.irfft(product, n=size)[..., :tokens].transpose(1, 2).to(x.dtype)
    return y


def convolve_after(x: Tensor, past: Tensor, kernel: Tensor) -> Tensor:
    """Causal convolution of x (B, T, C) after ``past`` (B, S, C); kernel (C, K)."""
    extended, seen = torch.cat([past.to(x.dtype), x], 1), past.shape[1]
    if kernel.shape[1] <= DIRECT_TAPS:
        return causal_taps(extended.to(kernel.dtype), kernel.t())[:, seen:].to(x.dtype)
    return convolve(extended, kernel)[:, seen:]
