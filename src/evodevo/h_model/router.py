"""Routers of the H-Model: a head on a layer's output sets the logits of its connections c (H-Model 3.1).

Source: docs/spec/h_model.md#router-heads, docs/spec/h_model.md#starting-biases.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.h_model.spec import RouterStructure
from evodevo.networks.routing.pools import Pooling
from evodevo.operators.layers.base import RouterHead

INPUT_BIAS = 2.0
LARGEST_BIAS = 2.0


class Router(nn.Module):
    """h (B, S, d) -> logits (B, P, N); P is 1, or S where the pool decides at each position.

    The last linear map starts at zero, so that the logits of a new router are its biases.

    Args:
        structure: Head and pool.
        width: Width d.
        biases: Logits at the start, (N,).
        head: Head that replaces the structure's; None keeps it.

    Raises:
        UsageError: A ``channel`` head with fewer channels than targets.
    """

    def __init__(
        self, structure: RouterStructure, pool: Pooling, width: int, biases: Tensor, head: RouterHead | None = None
    ) -> None:
        super().__init__()
        self.head = head or structure.head
        targets = len(biases)
        self.constant = structure.value if self.head == "constant" else None
        self.pool = pool if self.head not in ("constant", "independent") else None
        self.inner: nn.Linear | None = None
        self.outer: nn.Linear | None = None
        self.logits: nn.Parameter | None = None
        self.channels: Tensor | None
        # Which channel holds the logit of which target; a buffer in the state, as targets come and go.
        self.register_buffer("channels", torch.arange(targets) if self.head == "channel" else None)
        if self.head == "feedforward":
            self.inner = nn.Linear(width, structure.units(width))
        if self.head in ("feedforward", "linear"):
            self.outer = nn.Linear(structure.units(width) if self.inner is not None else width, targets)
            # The first routes follow from the biases alone, alike for every sample.
            nn.init.zeros_(self.outer.weight)
            self.outer.bias = nn.Parameter(biases.clone())
        elif self.head in ("channel", "independent"):
            self.logits = nn.Parameter(biases.clone())
            if self.head == "channel" and width < targets:
                raise UsageError(
                    f"a channel router has one channel per target: {targets} targets do not fit into width {width}. "
                    "Take the head linear or feedforward, or a larger width."
                )

    def forward(self, h: Tensor, mask: Tensor | None = None, before: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Logits (B, P, N); ``before`` as in ``Pooling``."""
        if self.pool is None:
            shape = (h.shape[0], 1, -1)
            if self.logits is None:
                return h.new_zeros(h.shape[0], 1, 1)
            return self.logits.expand(*shape)
        pooled: Tensor = self.pool(h, mask, before)
        if self.head == "channel":
            assert self.logits is not None
            return pooled[..., self.channels] + self.logits
        assert self.outer is not None
        if self.inner is not None:
            pooled = nn.functional.gelu(self.inner(pooled))
        answer: Tensor = self.outer(pooled)
        return answer


def start_biases(
    structure: RouterStructure, alpha: float, sources: int, hidden: int, outputs: int, *, of_input: bool
) -> Tensor:
    """Initial logits of a router (docs/spec/h_model.md#starting-biases): hidden targets first, then outputs.

    From inputs to hidden layers sigmoid(2); between hidden layers so that the expected inflow ``sources * sigmoid(b)``
    is at least 1, or it would fade with every iteration; to outputs 1/2. All are multiplied by the starting alpha, so
    that sigmoid(bias / alpha) is the stated value.
    """
    if structure.bias == "zero":
        return torch.zeros(hidden + outputs)
    if of_input:
        to_hidden = INPUT_BIAS
    else:
        keeps = LARGEST_BIAS if sources <= 1 else -math.log(sources - 1)
        to_hidden = min(max(-1.0, keeps), LARGEST_BIAS)
    return alpha * torch.cat([torch.full((hidden,), to_hidden), torch.zeros(outputs)])
