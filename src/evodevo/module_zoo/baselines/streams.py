"""Baselines with cross-attention of two modalities: two streams (ViLBERT), cross-modality (LXMERT), from scratch.

Small and pre-norm where the originals are large and post-norm. With a single modality there is no cross-attention: a
transformer over it remains.

Legend: B samples, L and M positions of two modalities, d width, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.baselines.trunk import Trunk, TrunkOutput
from evodevo.module_zoo.encoders.model import EncodedModality, side_by_side
from evodevo.networks.routing.pools import masked_mean
from evodevo.operators.block import Block
from evodevo.operators.feed_forward import FeedForward
from evodevo.operators.liv import NORM_EPSILON
from evodevo.operators.self_attention import visible_keys
from evodevo.operators.transformer import TransformerBlock


class StreamAttention(nn.Module):
    """Each token of one modality attends to all real tokens of the other. Both must be normalised by the caller."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.context = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, other: Tensor, mask: Tensor | None) -> Tensor:
        """(B, L, d), (B, M, d) and its mask (B, M) -> (B, L, d); zeros where no token of the other is real."""
        batch, width = x.shape[0], x.shape[2]
        size = width // self.heads
        query = self.query(x).view(batch, -1, self.heads, size).transpose(1, 2)
        context = self.context(other).view(batch, -1, 2, self.heads, size)
        key, value = (part.transpose(1, 2) for part in context.unbind(2))
        read = F.scaled_dot_product_attention(query, key, value, attn_mask=visible_keys(mask))
        y: Tensor = self.dropout(self.out(read.transpose(1, 2).flatten(2)))
        return y if mask is None else y * mask.any(1)[:, None, None]


def transformer(structure: BaselineStructure) -> TransformerBlock:
    """A block of one modality."""
    return TransformerBlock(
        structure.width,
        structure.heads,
        structure.hidden,
        causal=False,
        dropout=structure.dropout,
        activation=structure.activation,
    )


class CoAttention(nn.Module):
    """One layer of ViLBERT: cross-attention both ways, then a block for each stream (Lu et al. 2019, fig. 2)."""

    def __init__(self, structure: BaselineStructure) -> None:
        super().__init__()
        width = structure.width
        self.norms = nn.ModuleList(_norm(width) for _ in range(2))
        self.reads = nn.ModuleList(StreamAttention(width, structure.heads, structure.dropout) for _ in range(2))
        self.digests = nn.ModuleList(
            Block(
                FeedForward(width, structure.hidden, dropout=structure.dropout, activation=structure.activation), width
            )
            for _ in range(2)
        )
        self.thinks = nn.ModuleList(transformer(structure) for _ in range(2))

    def forward(self, streams: Sequence[Tensor], masks: Sequence[Tensor | None]) -> list[Tensor]:
        """Two streams (B, L, d), (B, M, d) -> the same shapes."""
        seen = [norm(x) for norm, x in zip(self.norms, streams, strict=True)]
        after = []
        for own, other in ((0, 1), (1, 0)):
            x = streams[own] + self.reads[own](seen[own], seen[other], masks[other])
            x = self.digests[own](x, mask=masks[own]).y
            after.append(self.thinks[own](x, mask=masks[own]).y)
        return after


class TwoStreamTrunk(Trunk):
    """Two streams of co-attention; the outputs of both are multiplied (ViLBERT, Lu et al. 2019)."""

    def __init__(self, structure: BaselineStructure, modalities: int) -> None:
        super().__init__()
        layer = CoAttention if modalities == 2 else transformer
        self.layers = nn.ModuleList(layer(structure) for _ in range(structure.layers))
        self.norms = nn.ModuleList(_norm(structure.width) for _ in range(modalities))
        self.poolers = nn.ModuleList(nn.Linear(structure.width, structure.width) for _ in range(modalities))

    def forward(self, senses: Sequence[EncodedModality]) -> TrunkOutput:
        """See ``Trunk``. The tokens are those of all streams, one stream after the other."""
        streams, masks = [sense.tokens for sense in senses], [sense.mask for sense in senses]
        for layer in self.layers:
            if isinstance(layer, CoAttention):
                streams = layer(streams, masks)
            else:
                streams = [layer(streams[0], mask=masks[0]).y]
        streams = [norm(x) for norm, x in zip(self.norms, streams, strict=True)]
        tokens, mask = side_by_side(streams, masks)
        pooled = [
            F.relu(pooler(masked_mean(x, real)))
            for x, real, pooler in zip(streams, masks, _linear(self.poolers), strict=True)
        ]
        return TrunkOutput(tokens, mask, pooled[0] * pooled[1] if len(pooled) == 2 else pooled[0])


class CrossModality(nn.Module):
    """One layer of LXMERT's cross-modality encoder (Tan and Bansal 2019, 2.2).

    Both directions of cross-attention share their weights, as there. The last layer does not update the first modality,
    since the output is read from the second alone.
    """

    def __init__(self, structure: BaselineStructure, *, last: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList(_norm(structure.width) for _ in range(2))
        self.read = StreamAttention(structure.width, structure.heads, structure.dropout)
        self.thinks = nn.ModuleList(transformer(structure) for _ in range(1 if last else 2))

    def forward(self, streams: Sequence[Tensor], masks: Sequence[Tensor | None]) -> list[Tensor]:
        """Two streams -> the same shapes."""
        seen = [norm(x) for norm, x in zip(self.norms, streams, strict=True)]
        second = self._step(1, streams[1], seen, masks, self.thinks[-1])
        if len(self.thinks) == 1:
            return [streams[0], second]
        return [self._step(0, streams[0], seen, masks, self.thinks[0]), second]

    def _step(
        self, own: int, x: Tensor, seen: Sequence[Tensor], masks: Sequence[Tensor | None], think: nn.Module
    ) -> Tensor:
        y: Tensor = think(x + self.read(seen[own], seen[1 - own], masks[1 - own]), mask=masks[own]).y
        return y


class CrossModalityTrunk(Trunk):
    """An encoder per modality, then cross-attention both ways; the second gives the output (Tan and Bansal 2019).

    ``layers`` blocks in each encoder and as many across; a single modality goes through both as through one encoder.
    """

    def __init__(self, structure: BaselineStructure, modalities: int) -> None:
        super().__init__()
        count = structure.layers
        alone = count if modalities == 2 else 2 * count
        self.encoders = nn.ModuleList(
            nn.ModuleList(transformer(structure) for _ in range(alone)) for _ in range(modalities)
        )
        across = count if modalities == 2 else 0
        self.layers = nn.ModuleList(CrossModality(structure, last=number == across - 1) for number in range(across))
        self.norm = _norm(structure.width)
        self.pooler = nn.Linear(structure.width, structure.width)

    def forward(self, senses: Sequence[EncodedModality]) -> TrunkOutput:
        """See ``Trunk``. The tokens are those of the last modality."""
        streams, masks = [], [sense.mask for sense in senses]
        for encoder, sense in zip(self.encoders, senses, strict=True):
            assert isinstance(encoder, nn.ModuleList)
            x = sense.tokens
            for block in encoder:
                x = block(x, mask=sense.mask).y
            streams.append(x)
        for layer in self.layers:
            streams = layer(streams, masks)
        tokens, mask = self.norm(streams[-1]), masks[-1]
        return TrunkOutput(tokens, mask, torch.tanh(self.pooler(masked_mean(tokens, mask))))


def _norm(width: int) -> nn.RMSNorm:
    return nn.RMSNorm(width, eps=NORM_EPSILON)


def _linear(layers: nn.ModuleList) -> list[nn.Linear]:
    return [layer for layer in layers if isinstance(layer, nn.Linear)]
