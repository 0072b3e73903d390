"""Baseline transformers whose feed-forward parts are mixtures of experts, over the tokens of all modalities.

Legend: B samples, L positions, T real tokens of the batch, d width, E experts, P slots of an expert, F hidden units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.module_zoo.baselines import mixture_routing as routing
from evodevo.module_zoo.baselines.spec import BaselineStructure
from evodevo.module_zoo.baselines.trunk import Trunk, TrunkOutput
from evodevo.module_zoo.encoders.model import EncodedModality, side_by_side
from evodevo.networks.routing.losses import z_loss
from evodevo.networks.routing.pools import masked_mean
from evodevo.operators.base import full_precision
from evodevo.operators.block import Block
from evodevo.operators.feed_forward import ACTIVATIONS
from evodevo.operators.liv import NORM_EPSILON
from evodevo.operators.self_attention import SelfAttention

EXPERTS_PER_TOKEN = {"switch": 1, "st_moe": 2}
EMBEDDING_STD = 0.02


class Experts(nn.Module):
    """E feed-forward networks, their weights in one tensor each.

    Attributes:
        inner: First map, (E, F, d), with ``inner_bias`` (E, F).
        outer: Second map, (E, d, F), with ``outer_bias`` (E, d).
    """

    def __init__(self, structure: BaselineStructure) -> None:
        super().__init__()
        count, width, hidden = structure.experts, structure.width, structure.hidden
        self.inner, self.inner_bias = _uniform(count, hidden, width, bound=width**-0.5)
        self.outer, self.outer_bias = _uniform(count, width, hidden, bound=hidden**-0.5)
        self.activation = ACTIVATIONS[structure.activation]

    def forward(self, x: Tensor, routes: routing.ExpertPairs) -> Tensor:
        """Weighted outputs of the chosen experts: tokens (T, d) -> (T, d); 0 for a token without an expert.

        Each expert runs once, on its tokens alone; one without tokens does not run.
        """
        # Sorted by expert, so that the tokens of each are one slice.
        order = routes.experts.argsort(stable=True)
        tokens = routes.tokens[order]
        counts = torch.bincount(routes.experts, minlength=len(self.inner)).tolist()  # the only device synchronisation
        outputs = [self._run(expert, part) for expert, part in enumerate(torch.split(x[tokens], counts)) if len(part)]
        if not outputs:
            return torch.zeros_like(x)
        answers = torch.cat(outputs)
        weighed = answers * routes.weights[order].unsqueeze(-1).to(answers.dtype)
        return torch.zeros_like(x, dtype=weighed.dtype).index_add(0, tokens, weighed)

    def each(self, x: Tensor) -> Tensor:
        """Every expert on its own rows: (E, R, d) -> (E, R, d)."""
        hidden = self.activation(torch.baddbmm(self.inner_bias.unsqueeze(1), x, self.inner.mT))
        return torch.baddbmm(self.outer_bias.unsqueeze(1), hidden, self.outer.mT)

    def _run(self, expert: int, x: Tensor) -> Tensor:
        hidden = self.activation(F.linear(x, self.inner[expert], self.inner_bias[expert]))
        return F.linear(hidden, self.outer[expert], self.outer_bias[expert])


class Mixture(nn.Module):
    """The mixture in place of a feed-forward part, (B, L, d) -> (B, L, d). Padding is not routed and takes no capacity.

    Attributes:
        gates: Gate vectors compared with tokens, (E, d), or (E P, d) for soft slots.
        thresholds: Thresholds of ``dyn_moe``, (E,); None for others.
        scale: Scale of the slots of ``soft_moe``, a scalar; None for others.
    """

    def __init__(self, structure: BaselineStructure) -> None:
        super().__init__()
        self.structure = structure
        rows = structure.experts * (structure.slots if structure.style == "soft_moe" else 1)
        self.experts = Experts(structure)
        self.gates = nn.Parameter(torch.randn(rows, structure.width) * structure.width**-0.5)
        self.thresholds = nn.Parameter(torch.zeros(structure.experts)) if structure.style == "dyn_moe" else None
        self.scale = nn.Parameter(torch.ones(())) if structure.style == "soft_moe" else None

    def forward(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, dict[str, Tensor]]:
        """Outputs, and in training the losses on the decision by name, weights included."""
        if self.scale is not None:
            return self._soft(x, mask, self.scale), {}
        flat = x.flatten(0, 1)
        if mask is None:
            y, terms = self._route(flat)
            return y.view_as(x), terms
        places = mask.flatten().nonzero().squeeze(-1)
        y, terms = self._route(flat[places])
        return torch.zeros_like(flat, dtype=y.dtype).index_copy(0, places, y).view_as(x), terms

    def _route(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Outputs and losses for real tokens (T, d)."""
        structure = self.structure
        terms: dict[str, Tensor] = {}
        with full_precision(x.device):
            precise, gates = _precise(x), _precise(self.gates)
            if self.thresholds is not None:
                routes = routing.top_any(precise, gates, self.thresholds)
                if self.training:
                    spread = routing.diversity_loss(gates) + routing.simplicity_loss(gates)
                    terms["balance"] = structure.balance * spread
            else:
                logits = precise @ gates.T
                routes, probabilities = routing.top_k(logits, EXPERTS_PER_TOKEN[structure.style])
                if self.training:
                    terms["balance"] = structure.balance * routing.balance_loss(probabilities, routes.experts)
                    if len(logits):
                        terms["z"] = structure.z * z_loss(logits)
                    # While training only: in evaluation no token is dropped.
                    routes = routing.within_capacity(routes, structure.experts, structure.capacity)
        return self.experts(x, routes), terms

    def _soft(self, x: Tensor, mask: Tensor | None, scale: Tensor) -> Tensor:
        count, width = self.structure.experts, x.shape[-1]
        with full_precision(x.device):
            dispatch, combine = routing.soft_slots(_precise(x), _precise(self.gates), scale, mask)
        batch, length = x.shape[0], self.structure.slots
        slots = (dispatch.mT.to(x.dtype) @ x).view(batch, count, length, width)
        outputs = self.experts.each(slots.transpose(0, 1).reshape(count, batch * length, width))
        back = outputs.view(count, batch, length, width).transpose(0, 1).reshape(batch, count * length, width)
        y: Tensor = combine.to(back.dtype) @ back
        return y


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


def _uniform(count: int, rows: int, columns: int, *, bound: float) -> tuple[nn.Parameter, nn.Parameter]:
    """Weights (count, rows, columns) and biases (count, rows), drawn as ``nn.Linear`` draws those of one layer."""
    weight, bias = torch.empty(count, rows, columns), torch.empty(count, rows)
    return nn.Parameter(weight.uniform_(-bound, bound)), nn.Parameter(bias.uniform_(-bound, bound))


def _precise(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
