"""Baseline transformers whose feed-forward parts are mixtures of experts, over the tokens of all modalities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.baselines.trunk import Trunk, TrunkOutput
from evodevo.module_zoo.encoders.model import EncodedModality, side_by_side
from evodevo.networks.mixtures.experts import Mixture
from evodevo.networks.routing.pools import masked_mean
from evodevo.operators.block import Block
from evodevo.operators.liv import NORM_EPSILON
from evodevo.operators.self_attention import SelfAttention

EMBEDDING_STD = 0.02


class MixtureBlock(nn.Module):
    """Pre-norm attention, then a pre-norm mixture, each with its residual."""

    def __init__(self, structure: BaselineStructure) -> None:
        super().__init__()
        width = structure.width
        attention = SelfAttention(width, structure.heads, causal=False, dropout=structure.dropout)
        self.attention = Block(attention, width)
        self.norm = nn.RMSNorm(width, eps=NORM_EPSILON)
        self.mixture = Mixture(structure)
        self.dropout = nn.Dropout(structure.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Mapping[str, Tensor]]:
        """(B, L, d) -> the same shape, and the losses on routing."""
        x = self.attention(x, mask=mask).y
        output, terms = self.mixture(self.norm(x.to(self.norm.weight.dtype)), mask)
        return x + self.dropout(output), terms


class MixtureTrunk(Trunk):
    """Blocks over the tokens of all modalities side by side, each with an embedding of its modality.

    The losses of all blocks are summed, each on the whole distribution of its own block.
    """

    def __init__(self, structure: BaselineStructure, modalities: int) -> None:
        super().__init__()
        width = structure.width
        self.modality = nn.Parameter(torch.randn(modalities, width) * EMBEDDING_STD) if modalities > 1 else None
        self.blocks = nn.ModuleList(MixtureBlock(structure) for _ in range(structure.layers))

    def forward(self, senses: Sequence[EncodedModality]) -> TrunkOutput:
        """See ``Trunk``."""
        streams = [sense.tokens for sense in senses]
        if self.modality is not None:
            streams = [x + embedding for x, embedding in zip(streams, self.modality, strict=True)]
        x, mask = side_by_side(streams, [sense.mask for sense in senses])
        total: dict[str, Tensor] = {}
        for block in self.blocks:
            x, terms = block(x, mask)
            for name, value in terms.items():
                total[name] = total[name] + value if name in total else value
        return TrunkOutput(x, mask, masked_mean(x, mask), terms=total)
