"""Aggregation of the H-Model: combines the messages of all sources into the input of each target (eqs. 1-3).

Source: docs/spec/h_model.md#normaliser, docs/spec/h_model.md#attention-aggregation.

Legend: B samples, S positions, d width, K sources, N targets; P is 1, or S where connections are decided at each
position. Messages are (B, K, S, d), zero at positions that a source does not have; weights (B, P, K, N).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from evodevo.networks.routing.gates import doubly_stochastic
from evodevo.networks.routing.pools import masked_mean

Normaliser = Literal["sum", "count", "softmax", "sinkhorn", "rms"]
TINY = 1e-12


def weighted_sum(messages: Tensor, weights: Tensor) -> Tensor:
    """Sum over sources of weight times message: (B, N, S, d)."""
    batch, sources, length, width = messages.shape
    if weights.shape[1] == 1:
        # One product for all positions, as the weights are the same at each.
        flat = weights[:, 0].transpose(1, 2) @ messages.reshape(batch, sources, length * width)
        return flat.view(batch, -1, length, width)
    per_position = weights.transpose(-1, -2) @ messages.transpose(1, 2)
    return per_position.transpose(1, 2)


def at_positions(weights: Tensor, masks: Tensor | None) -> Tensor:
    """Weights where sources have positions of their own: (B, S, K, N), zero at positions that the source lacks."""
    if masks is None:
        return weights
    return weights * masks.transpose(1, 2).unsqueeze(-1).to(weights.dtype)


def normalised_sum(messages: Tensor, weights: Tensor, masks: Tensor | None, normaliser: Normaliser) -> Tensor:
    """Weighted sum of messages, divided by a normaliser, as in the paper.

    Args:
        messages: Messages, (B, K, S, d).
        weights: Connection weights, (B, P, K, N).
        masks: Real positions of each source, (B, K, S); None where every source has every position.
        normaliser: Divisor: ``sum`` max(1, a), eq. 3; ``count`` the number of sources with c > 0.5, at least 1;
            ``softmax`` a itself; ``sinkhorn`` makes the weights doubly stochastic first; ``rms`` the root mean square
            of the sum.

    Returns:
        Inputs of the targets, (B, N, S, d). With ``sum`` and ``softmax`` no position is longer than the longest
        message.
    """
    if normaliser == "sinkhorn":
        weights = doubly_stochastic(weights)
    if normaliser == "rms":
        total = weighted_sum(messages, weights.to(messages.dtype))
        # The epsilon is inside the root, so that an input of 0 has a gradient too.
        return total * (total.square().mean(-1, keepdim=True) + torch.finfo(total.dtype).eps).rsqrt()
    local = at_positions(weights, masks)
    if normaliser == "count":
        divisor = (local > 0.5).to(weights.dtype).sum(-2).clamp(min=1.0)
    elif normaliser == "softmax":
        divisor = local.sum(-2).clamp(min=TINY)
    else:
        divisor = local.sum(-2).clamp(min=1.0)
    if masks is None:
        # Weights are far fewer numbers than the messages.
        return weighted_sum(messages, (weights / divisor.unsqueeze(-2)).to(messages.dtype))
    total = weighted_sum(messages, weights.to(messages.dtype))
    # (B, P or S, N) -> (B, N, P or S, 1)
    return total / divisor.transpose(1, 2).unsqueeze(-1).to(total.dtype)


class AttentionAggregation(nn.Module):
    """Aggregation with source identity (docs/spec/h_model.md#attention-aggregation).

    w_ij = softmax_i(q_j (K h_i + src_i) / sqrt(d) + log c_ij) min(1, a_j), X_j = sum_i w_ij (h_i + src_i). The key
    is of each position where ``per_position`` (in a causal model a pooled key would leak the future), else of the mean.
    With q = 0 and src = 0 this is the weighted mean, times min(1, a).

    Args:
        width: Width d.
        inputs, hidden: Number of sources of the input step, and of each iteration.
        targets: Number of targets, N.
        per_position: Whether keys are computed at each position.
    """

    def __init__(self, width: int, inputs: int, hidden: int, targets: int, *, per_position: bool) -> None:
        super().__init__()
        self.per_position = per_position
        self.query = nn.Parameter(torch.zeros(targets, width))
        self.key = nn.Linear(width, width, bias=False)
        self.input_source = nn.Parameter(torch.randn(inputs, width) * 0.02)
        self.hidden_source = nn.Parameter(torch.randn(hidden, width) * 0.02)

    def forward(self, messages: Tensor, weights: Tensor, masks: Tensor | None, *, of_input: bool) -> Tensor:
        """Inputs of the targets, (B, N, S, d); arguments as for ``normalised_sum``, weights to all or the last ones."""
        source = self.input_source if of_input else self.hidden_source
        targets = weights.shape[-1]
        query = self.query[-targets:]
        named = messages + source[:, None, :]
        if masks is not None:
            named = named * masks.unsqueeze(-1)
        if self.per_position:
            pooled = messages.transpose(1, 2)
        else:
            pooled = masked_mean(messages, masks).unsqueeze(1)
        scores = (self.key(pooled) + source) @ query.T * messages.shape[-1] ** -0.5
        local = at_positions(weights, masks)
        logits = scores.to(weights.dtype) + local.clamp(min=TINY).log()
        # The clamp alone would leave absent sources a small share.
        logits = logits.masked_fill(local == 0, torch.finfo(logits.dtype).min)
        # A target without any source has a uniform softmax; it must be 0.
        share = logits.softmax(-2) * (local > 0)
        share = share * local.sum(-2, keepdim=True).clamp(max=1.0)
        return weighted_sum(named, share.to(messages.dtype))
