"""The shared router of a carried stream: a linear map from any source's normalised message to logits.

Source: docs/spec/h_model.md#the-carried-stream.

Legend: B samples, S positions, d width, K sources at hand, N targets; P is 1, or S where connections are decided at
each position.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from evodevo.networks.routing.pools import Pooling

WEIGHT_STD = 0.02
"""Spread of the first weights. With weights of 0 all samples would choose the same layer, the first."""
EPSILON = 1e-6


class SharedRouter(nn.Module):
    """Messages -> logits of their connections, by the same weights for every source and iteration.

    Args:
        pool: The part of a message that is read.
        width: Width d.
        targets: Number of targets, N.
        sources: Number of all sources (inputs, then hidden layers) that have a bias of their own; 0 for none.
        moments: Number of moments (the input step, then the iterations) that have a bias of their own; 0 for none.
        own: Number of moments that have a map of their own; 0 for one map for all.

    Attributes:
        linear: The map, or those of the moments.
    """

    def __init__(self, pool: Pooling, width: int, targets: int, sources: int, moments: int, own: int = 0) -> None:
        super().__init__()
        self.pool = pool
        self.linear: nn.Linear | nn.ModuleList = (
            nn.ModuleList(_map(width, targets) for _ in range(own)) if own else _map(width, targets)
        )
        self.source_bias = nn.Parameter(torch.zeros(sources, targets)) if sources else None
        self.moment_bias = nn.Parameter(torch.zeros(moments, targets)) if moments else None

    def maps(self) -> list[nn.Linear]:
        """The map of all moments, or that of each."""
        return [self.linear] if isinstance(self.linear, nn.Linear) else cast("list[nn.Linear]", list(self.linear))

    def forward(self, messages: Tensor, masks: Tensor | None, sources: Tensor, moment: int) -> Tensor:
        """Logits, (B, P, K, N).

        Args:
            messages: (B, K, S, d).
            masks: Real positions of each, (B, K, S), or None.
            sources: Number of each source among all, (B, P, K) or (K,).
            moment: 0 for the input step, then 1 to T; beyond the trained T the last bias and map are used again.
        """
        scaled = messages * torch.rsqrt(messages.square().mean(-1, keepdim=True) + EPSILON)
        pooled: Tensor = self.pool(scaled.flatten(0, 1), None if masks is None else masks.flatten(0, 1))
        # (B K, P, d) -> (B, P, K, d)
        rows = pooled.view(*messages.shape[:2], *pooled.shape[1:]).transpose(1, 2)
        maps = self.maps()
        logits: Tensor = maps[min(moment, len(maps) - 1)](rows)
        if self.source_bias is not None:
            logits = logits + self.source_bias[sources]
        if self.moment_bias is not None:
            logits = logits + self.moment_bias[min(moment, len(self.moment_bias) - 1)]
        return logits


def _map(width: int, targets: int) -> nn.Linear:
    linear = nn.Linear(width, targets)
    nn.init.normal_(linear.weight, std=WEIGHT_STD)
    nn.init.zeros_(linear.bias)
    return linear
