"""The loss by which a router learns to name the layers that given routes lead to.

Legend: B samples, K sources at hand, H hidden layers; P is 1, or S positions where connections are decided at each.
"""

from __future__ import annotations

from torch import Tensor

from evodevo.networks.routing.gates import widened


def naming_loss(logits: Tensor, chosen: Tensor, strength: Tensor) -> Tensor:
    """Cross-entropy of the softmax over hidden layers, mean over sources, each with its relative strength, in nats.

    Args:
        logits: (B, P, K, H), before alpha.
        chosen: Place of the layer that is given, (B, P, 1).
        strength: r of each source, (B, P, K).
    """
    named = widened(logits).log_softmax(-1).gather(-1, chosen.unsqueeze(-2).expand(*logits.shape[:-1], 1)).squeeze(-1)
    return -(named * strength).sum() / strength.sum().clamp(min=1.0)
