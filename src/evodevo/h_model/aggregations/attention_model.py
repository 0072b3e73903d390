"""The module of the aggregation ``attention``.

Legend: N targets, d width; see ``aggregations.module``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evodevo.h_model.aggregations.base import AggregationSizes
from evodevo.h_model.aggregations.module import TINY, Aggregation, at_positions, weighted_sum
from evodevo.networks.routing.pools import masked_mean


class SourceAttention(Aggregation):
    """Aggregation with source identity (docs/spec/h_model.md#attention-aggregation).

    w_ij = softmax_i(q_j (K h_i + src_i) / sqrt(d) + log c_ij) min(1, a_j), X_j = sum_i w_ij (h_i + src_i). The key
    is of each position where ``per_position`` (in a causal model a pooled key would leak the future), else of the mean.
    With q = 0 and src = 0 this is the weighted mean, times min(1, a).

    Args:
        sizes: Sizes of the model.
    """

    by_target = ("query",)
    by_source = ("hidden_source",)

    def __init__(self, sizes: AggregationSizes) -> None:
        super().__init__()
        width = sizes.width
        self.per_position = sizes.per_position
        self.query = nn.Parameter(torch.zeros(sizes.targets, width))
        self.key = nn.Linear(width, width, bias=False)
        self.input_source = nn.Parameter(torch.randn(sizes.inputs, width) * 0.02)
        self.hidden_source = nn.Parameter(torch.randn(sizes.hidden, width) * 0.02)

    def forward(self, messages: Tensor, weights: Tensor, masks: Tensor | None, *, of_input: bool) -> Tensor:
        """See ``Aggregation``."""
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
        logits = logits.masked_fill(local == 0, torch.finfo(logits.dtype).min)
        share = logits.softmax(-2) * (local > 0)
        share = share * local.sum(-2, keepdim=True).clamp(max=1.0)
        return weighted_sum(named, share.to(messages.dtype))

    @torch.no_grad()
    def begin(self, place: int, source: Tensor) -> None:
        """See ``Aggregation``; a new source has an identity of its own."""
        self.hidden_source[place] = source
