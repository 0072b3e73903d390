"""Attention from the positions of one side to those of another (eqs. 3 to 5, 39 to 41).

Legend: B samples, Q asking positions, K answering positions, d width, H heads, P = d / H.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.module_zoo.encoders.spec import BUCKETS, FARTHEST
from evodevo.module_zoo.spec import FusionStructure
from evodevo.operators.self_attention import visible_keys


class CrossAttention(nn.Module):
    """softmax(Q K' / (tau sqrt(P)) + bias) V for each head, the heads side by side.

    One head divides by sqrt(d), as eq. 40 prints it; more by sqrt(d / H).

    Args:
        width: d.
        structure: heads, projection, temperature and relative_positions of a fusion.
    """

    def __init__(self, width: int, structure: FusionStructure) -> None:
        super().__init__()
        self.heads = structure.heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.project = nn.Linear(width, width) if structure.projection else None
        self.log_temperature = nn.Parameter(torch.zeros(())) if structure.temperature == "learned" else None
        self.bias = nn.Embedding(BUCKETS, self.heads) if structure.relative_positions else None
        if self.bias is not None:
            # All distances count alike at first.
            nn.init.zeros_(self.bias.weight)

    def forward(self, asking: Tensor, answering: Tensor, mask: Tensor | None) -> Tensor:
        """(B, Q, d) and (B, K, d) with a mask (B, K) -> (B, Q, d); zeros where there is no key."""
        query, key, value = (
            projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for projected in (self.query(asking), self.key(answering), self.value(answering))
        )  # (B, H, positions, P)
        if self.log_temperature is not None:
            query = query * (-self.log_temperature).exp()
        visible = visible_keys(mask)
        if self.bias is not None:
            device = self.bias.weight.device
            asking_places = torch.arange(query.shape[2], device=device)[:, None]
            distance = torch.arange(key.shape[2], device=device) - asking_places
            bias = self.bias(buckets(distance)).permute(2, 0, 1).unsqueeze(0).to(query.dtype)  # (1, H, Q, K)
            visible = bias if visible is None else bias.masked_fill(~visible, -torch.inf)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=visible)
        y = mixed.transpose(1, 2).flatten(2)
        if self.project is not None:
            y = self.project(y)
        return y if mask is None else y * mask.any(1)[:, None, None]


def buckets(distance: Tensor) -> Tensor:
    """The bucket of each distance, key's position minus query's (T5, Raffel et al. 2020).

    Half of the buckets are for keys behind the query. Of each half, the first half holds one distance each; the others
    grow by a factor up to ``FARTHEST``, from which on all share the last.
    """
    half = BUCKETS // 2
    exact = half // 2
    far = distance.abs()
    steps = (far.clamp(min=1).double() / exact).log() / math.log(FARTHEST / exact) * (half - exact)
    grown = (exact + steps.long()).clamp(max=half - 1)
    return torch.where(far < exact, far, grown) + half * (distance > 0)
