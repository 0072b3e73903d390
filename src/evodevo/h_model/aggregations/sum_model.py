"""The module of the aggregation ``sum`` (equations 1-3; docs/spec/h_model.md#normaliser).

Legend: B samples, S positions, d width, K sources, N targets; P is 1, or S where connections are decided at each
position.
"""

from __future__ import annotations

from torch import Tensor

from evodevo.h_model.aggregations.base import Normaliser
from evodevo.h_model.aggregations.module import Aggregation, at_positions, weighted_sum


class NormalisedSum(Aggregation):
    """See ``normalised_sum``."""

    def __init__(self, normaliser: Normaliser) -> None:
        super().__init__()
        self.normaliser = normaliser

    def forward(self, messages: Tensor, weights: Tensor, masks: Tensor | None, *, of_input: bool) -> Tensor:
        """See ``Aggregation``."""
        return normalised_sum(messages, weights, masks, self.normaliser)


def normalised_sum(messages: Tensor, weights: Tensor, masks: Tensor | None, normaliser: Normaliser) -> Tensor:
    """Weighted sum of messages, divided by a normaliser, as in the paper.

    Args:
        messages: Messages, (B, K, S, d).
        weights: Connection weights, (B, P, K, N).
        masks: Real positions of each source, (B, K, S); None where every source has every position.
        normaliser: Divisor: ``sum`` max(1, a), eq. 3; ``count`` the number of sources with c > 0.5, at least 1;
            ``softmax`` a itself, 1 where it is 0.

    Returns:
        Inputs of the targets, (B, N, S, d). With ``sum`` and ``softmax`` no position is longer than the longest
        message.
    """
    local = at_positions(weights, masks)
    if normaliser == "count":
        divisor = (local > 0.5).to(weights.dtype).sum(-2).clamp(min=1.0)
    elif normaliser == "softmax":
        # Where nothing is addressed the sum is 0 whatever divides it, and a small divisor would be a huge gradient.
        divisor = local.sum(-2)
        divisor = divisor.masked_fill(divisor == 0, 1.0)
    else:
        divisor = local.sum(-2).clamp(min=1.0)
    if masks is None:
        # Weights are far fewer numbers than the messages.
        return weighted_sum(messages, (weights / divisor.unsqueeze(-2)).to(messages.dtype))
    total = weighted_sum(messages, weights.to(messages.dtype))
    # (B, P or S, N) -> (B, N, P or S, 1)
    return total / divisor.transpose(1, 2).unsqueeze(-1).to(total.dtype)
