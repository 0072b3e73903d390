"""Choice of the connections that count at inference, and so of the layers that are called
(docs/spec/h_model.md#skipping).

All functions map weights (B, P, K, N) to weights of the same shape in which some are exactly 0. P is 1, or S where a
causal model decides at each position: no decision there depends on another position. Hidden targets come first.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from evodevo.networks.routing.spec import InferenceStructure

EVEN = 2.0**18
"""Resolution of comparisons: values that differ by less than 1 / EVEN are taken as equal; of equal ones the first is
chosen."""


def harden(weights: Tensor, hidden: int, inference: InferenceStructure, costs: Sequence[float], steps: int) -> Tensor:
    """The connections that the inference mode keeps.

    Args:
        weights: (B, P, K, N).
        hidden: targets that are hidden layers, H; 0 where only outputs are left.
        inference: mode and its number.
        costs: FLOPs of one run of each hidden layer on one sample.
        steps: iterations of the whole pass; the budget is spread over them evenly.
    """
    mode = inference.mode
    if mode == "dense" or hidden == 0:
        return weights
    if mode == "threshold":
        kept = weights.masked_fill(weights < inference.threshold, 0.0)
        # Outputs are always served: a model must not lose its answer to a threshold.
        return torch.cat([kept[..., :hidden], weights[..., hidden:]], -1)
    if mode == "source_topk":
        return _source_topk(weights, hidden, inference.k, outputs_count=inference.outputs_count)
    # Where a gate shares one unit out among sources, all inflows are equal; rounding must not choose.
    inflow = evened(weights[..., :hidden].sum(-2))
    if mode == "target_topm":
        chosen = largest(inflow, inference.m)
    else:
        chosen = _affordable(inflow, costs, inference.flops / max(steps, 1))
    kept = weights[..., :hidden] * chosen.unsqueeze(-2)
    return torch.cat([kept, weights[..., hidden:]], -1)


def straight_through(soft: Tensor, hard: Tensor) -> Tensor:
    """The hard weights forward, the gradient of the soft ones backward."""
    return soft + (hard - soft).detach()


def _source_topk(weights: Tensor, hidden: int, k: int, *, outputs_count: bool) -> Tensor:
    """Each source keeps its k largest connections (H-Model eq. 5)."""
    scope = weights if outputs_count else weights[..., :hidden]
    kept = scope * largest(scope, k)
    return kept if outputs_count else torch.cat([kept, weights[..., hidden:]], -1)


def evened(values: Tensor) -> Tensor:
    """Values on a grid of 1 / EVEN, so that ranks do not depend on rounding."""
    return (values * EVEN).round() / EVEN


def largest(values: Tensor, count: int) -> Tensor:
    """True at the ``count`` largest along the last axis; of equal ones the first count."""
    if count >= values.shape[-1]:
        return torch.ones_like(values, dtype=torch.bool)
    # Stable, unlike topk: of equal values the first are taken on every device.
    order = values.sort(dim=-1, descending=True, stable=True).indices[..., :count]
    return torch.zeros_like(values, dtype=torch.bool).scatter(-1, order, True)


def _affordable(inflow: Tensor, costs: Sequence[float], budget: float) -> Tensor:
    """True at the targets with the largest inflow, taken in that order while the budget lasts."""
    price = torch.tensor(costs, dtype=inflow.dtype, device=inflow.device)
    order = inflow.sort(dim=-1, descending=True, stable=True).indices
    spent = price[order].cumsum(-1)
    return torch.zeros_like(inflow, dtype=torch.bool).scatter(-1, order, spent <= budget * (1 + 1e-9))
