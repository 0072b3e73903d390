"""Two sides become one sequence F and one vector f (eqs. 39 to 43; docs/spec/architect_thyself.md#fusion).

As printed, values come from the text alone, and the image only moves weights: with one token of text, F does not depend
on the image at all, and f only through the number g. So ``asym_residual`` is the default. Cross-attention between
positions is that of eqs. 3 to 5.

Legend: B samples, L positions of one side, S positions of F, Q query positions, K key positions, d width, H heads,
P = d / H.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.module_zoo.encoders.model import EncodedModality, side_by_side
from evodevo.module_zoo.encoders.spec import BUCKETS, FARTHEST
from evodevo.module_zoo.spec import FusionStructure
from evodevo.networks.routing.pools import masked_mean
from evodevo.operators.self_attention import visible_keys


@dataclass(frozen=True)
class Fused:
    """The result of a fusion, which the modules of a zoo read.

    Attributes:
        tokens: F, (B, S, d).
        mask: (B, S), true at real positions; None where all are.
        vector: f, (B, d).
    """

    tokens: Tensor
    mask: Tensor | None
    vector: Tensor


class FusionGate(nn.Module):
    """g = sigmoid(w' [x; y]) (eq. 42): a number per sample, one per channel, or one half. Starts at one half."""

    def __init__(self, width: int, kind: Literal["sample", "channel", "half"]) -> None:
        super().__init__()
        self.map = None if kind == "half" else nn.Linear(2 * width, 1 if kind == "sample" else width)
        if self.map is not None:
            nn.init.zeros_(self.map.weight)
            nn.init.zeros_(self.map.bias)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Twice (..., d) -> (..., 1 or d)."""
        if self.map is None:
            return torch.full_like(x[..., :1], 0.5)
        g: Tensor = self.map(torch.cat([x, y], -1)).sigmoid()
        return g


class Fusion(nn.Module):
    """One of the kinds of ``FusionStructure``.

    ``asym_residual``: F = norm(Z + attention(Z, Y)), f = g mean(F) + (1 - g) mean(Y), where Z asks and Y answers.
    ``paper``: F = attention(Z, Y), f likewise.
    ``symmetric``: F = both ways side by side, f = g mean(one half) + (1 - g) mean(the other).
    ``concat``: F = Z and Y side by side, f likewise.
    ``gmu``: F = g tanh(A Z) + (1 - g) tanh(B mean(Y)) with g at each position, f = mean(F) (Arevalo et al. 2017).
    ``bilinear``: F = P (tanh(A Z) * tanh(B mean(Y))), low rank (Kim et al. 2017), f as in ``asym_residual``.

    Args:
        width: d.
        structure: kind of the fusion, and its switches.
        count: number of sides; a single one passes as it is, and there are no parameters.
    """

    def __init__(self, width: int, structure: FusionStructure, count: int = 2) -> None:
        super().__init__()
        self.structure = structure
        self.attentions, self.norms, self.maps = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        self.gate: FusionGate | None = None
        if count == 1:
            return
        kind = structure.kind
        self.gate = FusionGate(width, structure.gate)
        if kind in ("asym_residual", "paper", "symmetric"):
            self.attentions.extend(CrossAttention(width, structure) for _ in range(1 + (kind == "symmetric")))
        if kind in ("gmu", "bilinear"):
            inner = width if kind == "gmu" else structure.rank
            self.maps.extend(nn.Linear(width, inner) for _ in range(2))
        if kind == "bilinear":
            self.maps.append(nn.Linear(structure.rank, width))
        if structure.norm:
            self.norms.extend(nn.LayerNorm(width) for _ in range(1 + (kind in ("symmetric", "concat"))))

    def forward(self, first: EncodedModality, second: EncodedModality | None = None) -> Fused:
        """
        Args:
            first: images, which are the query by default.
            second: texts; None where there is one side, which passes as it is.

        Raises:
            ValueError: a second side, and the fusion was made for one.
        """
        if second is None:
            return Fused(first.tokens, first.mask, masked_mean(first.tokens, first.mask))
        if self.gate is None:
            raise ValueError("this fusion was made for one side; make it with count=2.")
        asking, answering = (first, second) if self.structure.query == "image" else (second, first)
        fused = self._fuse(asking, answering, self.gate)
        if not self.structure.concat_query:
            return fused
        return Fused(*side_by_side((fused.tokens, asking.tokens), (fused.mask, asking.mask)), fused.vector)

    def _fuse(self, asking: EncodedModality, answering: EncodedModality, gate: FusionGate) -> Fused:
        kind = self.structure.kind
        summary = masked_mean(asking.tokens, asking.mask), masked_mean(answering.tokens, answering.mask)
        if kind == "gmu":
            g = gate(asking.tokens, summary[1].unsqueeze(1).expand_as(asking.tokens))
            x, y = self.maps[0](asking.tokens).tanh(), self.maps[1](summary[1]).tanh()
            tokens = self._normed(g * x + (1 - g) * y.unsqueeze(1), 0)
            return Fused(tokens, asking.mask, masked_mean(tokens, asking.mask))
        g = gate(*summary)
        if kind in ("symmetric", "concat"):
            half = self._normed(self._attended(asking, answering, 0), 0)
            other = self._normed(self._attended(answering, asking, 1), 1)
            means = masked_mean(half, asking.mask), masked_mean(other, answering.mask)
            tokens, mask = side_by_side((half, other), (asking.mask, answering.mask))
            return Fused(tokens, mask, g * means[0] + (1 - g) * means[1])
        if kind == "bilinear":
            other_side = self.maps[1](summary[1]).tanh().unsqueeze(1)
            tokens = self.maps[2](self.maps[0](asking.tokens).tanh() * other_side)
        else:
            tokens = self._attended(asking, answering, 0)
        tokens = self._normed(tokens, 0)
        return Fused(tokens, asking.mask, g * masked_mean(tokens, asking.mask) + (1 - g) * summary[1])

    def _attended(self, asking: EncodedModality, answering: EncodedModality, number: int) -> Tensor:
        """Tokens of one side after attention to the other; unchanged where there is no attention."""
        if not self.attentions:
            return asking.tokens
        source = answering if self.structure.values == "other" else asking
        attended: Tensor = self.attentions[number](asking.tokens, source.tokens, source.mask)
        return attended if self.structure.kind == "paper" else asking.tokens + attended

    def _normed(self, tokens: Tensor, number: int) -> Tensor:
        normed: Tensor = self.norms[number](tokens) if self.norms else tokens
        return normed


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
