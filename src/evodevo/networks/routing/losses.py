"""Losses on routing decisions, each a scalar (docs/spec/h_model.md#routing-losses).

Weights are (B, P, K, N) after the gate, logits the same shape before it; hidden targets come first.
"""

from __future__ import annotations

from torch import Tensor

from evodevo.networks.routing.gates import FAR, widened


def balance(inflow: Tensor) -> Tensor:
    """Squared coefficient of variation over layers of the mean inflow (B, P, H); 0 where all inflows are equal.

    Taken in float32 at least; the mean is bounded from below so that weights near 0 do not cheat.
    """
    load = widened(inflow).mean((0, 1))
    return load.var(correction=0) / load.mean().clamp(min=1e-4).square()


def z_loss(logits: Tensor, legal: Tensor | None = None) -> Tensor:
    """Mean squared log-sum-exp over targets: keeps logits small (ST-MoE, Zoph et al. 2022).

    Args:
        logits: (..., N).
        legal: broadcasts to them; targets that do not exist are left out, and rows without any count as 0.
    """
    if legal is None:
        return logits.logsumexp(-1).square().mean()
    rows = widened(logits).masked_fill(~legal, FAR).logsumexp(-1)
    return rows.masked_fill(~legal.any(-1), 0.0).square().mean()


def sparsity(weights: Tensor) -> Tensor:
    """Mean connection weight."""
    return weights.mean()


def self_routing(weights: Tensor) -> Tensor:
    """Mean weight of hidden layers to themselves; sources must be the hidden layers in order."""
    return weights[..., : weights.shape[-2]].diagonal(dim1=-2, dim2=-1).mean()
