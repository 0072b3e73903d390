"""From logits to weights: one set of gates for all routers, in training and at inference alike.

Legend: ... any leading axes, K sources, N targets. Logits and weights are (..., K, N); legal is (K, N) or broadcasts to
them. Everything is computed in float32 at least.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Gate = Literal["sigmoid", "softmax_out", "softmax_in", "sparsemax_in", "gumbel"]
FAR = -1e9
"""Stand-in for minus infinity: a row of such logits still has a finite softmax, and finite gradients."""


def widened(x: Tensor) -> Tensor:
    """In float32 at least: what is decided there is decided alike in every precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def sparsemax(logits: Tensor, axis: int = -1) -> Tensor:
    """The point of the simplex nearest to the logits, along one axis (Martins and Astudillo 2016).

    It reads logits: a point that lies on the simplex already, as a softmax does, is its own projection.
    """
    from entmax import sparsemax as projection

    # What lies more than 1 below the largest has weight 0 anyway; cut off there, nothing is lost in rounding.
    clipped = (logits - logits.detach().amax(axis, keepdim=True)).clamp(min=-2.0)
    rows = clipped.transpose(axis, -1).contiguous()
    return of_finite(lambda x: projection(x, dim=-1), rows).transpose(axis, -1)


def of_finite(weigh: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    """Weights over the last axis where all logits are finite, NaN elsewhere: so a training that is lost is seen to be.

    Exact projections find no threshold among NaN, and raise.
    """
    lost = ~logits.isfinite().all(-1, keepdim=True)
    return weigh(logits.masked_fill(lost, 0.0)).masked_fill(lost, math.nan)


def open_gates(logits: Tensor, gate: Gate, alpha: float, legal: Tensor | None = None, *, noise: bool = False) -> Tensor:
    """Connection weights in [0, 1] (H-Model 3.1, 3.2; docs/spec/h_model.md#gate).

    Args:
        logits: (..., K, N).
        gate: ``sigmoid`` (the paper's; the sum over targets is free); ``softmax_out`` sums to one over targets;
            ``softmax_in`` and ``sparsemax_in`` over sources; ``gumbel`` is a sigmoid with logistic noise (binary
            concrete, Maddison et al. 2017).
        alpha: divides the logits.
        legal: true where a connection may exist; elsewhere the weight is exactly 0. Rows without any are all 0.
        noise: draw the noise of ``gumbel``, from the global stream.
    """
    logits = widened(logits)
    if gate == "gumbel" and noise:
        # Kept off 0 and 1, where the noise would be infinite.
        uniform = torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)
        # Before the temperature, as in the binary concrete distribution.
        logits = logits + uniform.logit()
    logits = logits / alpha
    if legal is not None:
        logits = logits.masked_fill(~legal, FAR)
    weights = _GATES[gate](logits)
    # A row of illegal connections alone has a softmax too; it must not count.
    return weights if legal is None else weights * legal


_GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "gumbel": torch.sigmoid,
    "softmax_out": lambda logits: logits.softmax(-1),
    "softmax_in": lambda logits: logits.softmax(-2),
    "sparsemax_in": lambda logits: sparsemax(logits, -2),
}


def iteration_alpha(alpha: float, rate: float, t: int) -> float:
    """alpha_t = alpha rate^t, at least 1e-3 (docs/spec/h_model.md#forward-pass)."""
    return max(alpha * rate**t, 1e-3)
