"""Short causal depthwise convolutions by shifting and adding.

Inside a channel-last model this beats a convolution with two transposes up to about 8 taps (spec/star.md 2.3).
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def causal_taps(x: Tensor, taps: Tensor) -> Tensor:
    """y_i = sum_k taps_k * x_{i-k}, with zeros before the first token.

    Args:
        x: (B, T, C).
        taps: (K, C).

    Returns:
        (B, T, C).
    """
    y = x * taps[0]
    tokens = x.shape[1]
    if tokens == 0:
        return y
    for shift in range(1, min(taps.shape[0], tokens)):
        y = y + F.pad(x[:, : tokens - shift] * taps[shift], (0, 0, shift, 0))
    return y
