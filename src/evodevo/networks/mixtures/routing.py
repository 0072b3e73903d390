"""Routing of tokens to experts: top-1 and top-2 with capacity, top-any, soft slots, and the losses on each.

The same function decides in training and evaluation; only capacity is limited to training. All decisions are taken in
float32 at least. Padding is not here: callers route real tokens only.

Legend: T real tokens of a batch, E experts, k experts of a token, R pairs of a token and one of its experts;
B samples, L positions, P slots of an expert.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.networks.routing.gates import FAR

TINY = 1e-9


@dataclass(frozen=True)
class ExpertPairs:
    """Pairs of a token and an expert that processes it.

    Attributes:
        tokens: Index of the token, (R,).
        experts: Index of the expert, (R,).
        weights: Weight of the expert's output, (R,); with gradient.
    """

    tokens: Tensor
    experts: Tensor
    weights: Tensor

    def kept(self, keep: Tensor) -> ExpertPairs:
        """The pairs for which ``keep`` (R,) is true."""
        return ExpertPairs(self.tokens[keep], self.experts[keep], self.weights[keep])


def top_k(logits: Tensor, k: int) -> tuple[ExpertPairs, Tensor]:
    """The k experts of highest logit; of equal ones the first.

    With k = 1 the weight is the expert's probability (Switch, Fedus et al. 2022, eq. 2); with more, probabilities are
    divided by their sum over the chosen (Shazeer et al. 2017; ST-MoE, Zoph et al. 2022). ST-MoE's rule that a faint
    second expert is skipped at random is left out: an answer may not depend on chance.

    Args:
        logits: Logits of the gate, (T, E).
        k: Number of experts of a token, at most E.

    Returns:
        Routes, all first choices before all second ones; probabilities (T, E) of the full softmax.
    """
    count = min(k, logits.shape[-1])
    probabilities = logits.softmax(-1)
    chosen = logits.argsort(dim=-1, descending=True, stable=True)[:, :count]
    weights = probabilities.gather(-1, chosen)
    if count > 1:
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=TINY)
    tokens = torch.arange(logits.shape[0], device=logits.device).expand(count, -1)
    return ExpertPairs(tokens.flatten(), chosen.T.flatten(), weights.T.flatten()), probabilities


def within_capacity(routes: ExpertPairs, experts: int, factor: float) -> ExpertPairs:
    """Limit each expert to ``ceil(factor R / E)`` tokens, in the order of the routes; later ones are dropped."""
    if not len(routes.experts):
        return routes
    limit = ceil(factor * len(routes.experts) / experts)
    order = routes.experts.argsort(stable=True)
    counts = torch.bincount(routes.experts, minlength=experts)
    first = (counts.cumsum(0) - counts)[routes.experts[order]]
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device) - first
    return routes.kept(place < limit)


def balance_loss(probabilities: Tensor, experts: Tensor) -> Tensor:
    """E sum_e f_e P_e: 1 when tokens and probability are spread evenly (Switch, eqs. 4 to 6).

    Args:
        probabilities: Full softmax, (T, E); P is their mean.
        experts: Experts chosen before capacity, (R,); f is their distribution.
    """
    count = probabilities.shape[-1]
    share = torch.bincount(experts, minlength=count) / max(len(experts), 1)
    return count * (share * probabilities.sum(0) / max(len(probabilities), 1)).sum()


def top_any(x: Tensor, gates: Tensor, thresholds: Tensor) -> ExpertPairs:
    """Every expert whose gate passes its own threshold, and at least the best one (DynMoE, Guo et al. 2025, 3.1).

    g = 1 where sigmoid(cos(x, w_e)) > sigmoid(G_e), with the gradient of the difference (straight through); a token's
    answer is the mean over its experts. As in the paper at inference, a token below all thresholds goes to
    the expert of highest score; while training, too, so that both are one rule. The number of experts is fixed.

    Args:
        x: Tokens, (T, d).
        gates: Gate vectors w, (E, d).
        thresholds: Thresholds G, (E,).
    """
    scores = F.normalize(x, dim=-1, eps=TINY) @ F.normalize(gates, dim=-1, eps=TINY).T
    margin = scores.sigmoid() - thresholds.sigmoid()
    passed = margin > 0
    best = F.one_hot(scores.argmax(-1), len(gates)).bool()
    passed = torch.where(passed.any(-1, keepdim=True), passed, best)
    open_gates = passed.to(margin.dtype) + margin - margin.detach()
    weights = open_gates / passed.sum(-1, keepdim=True)
    tokens, experts = passed.nonzero(as_tuple=True)
    return ExpertPairs(tokens, experts, weights[tokens, experts])


def diversity_loss(gates: Tensor) -> Tensor:
    """|W W' - I| with rows of length 1: experts specialise on different tokens (DynMoE, 3.3). gates (E, d)."""
    rows = F.normalize(gates, dim=-1, eps=TINY)
    apart: Tensor = torch.linalg.matrix_norm(rows @ rows.T - torch.eye(len(rows), dtype=rows.dtype, device=rows.device))
    return apart


def simplicity_loss(gates: Tensor) -> Tensor:
    """Mean length of the rows of gates (E, d) (DynMoE, 3.3)."""
    length: Tensor = torch.linalg.vector_norm(gates, dim=-1).mean()
    return length


def soft_slots(x: Tensor, slots: Tensor, scale: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Weights of tokens into each slot, and of slots back to tokens (Soft MoE, Puigcerver et al. 2024, 2.1 and 2.3).

    Args:
        x: Tokens, (B, L, d); they and the slots are scaled to length 1.
        slots: Slot vectors, (E P, d).
        scale: Scale of the slots, a scalar.
        mask: Real tokens, (B, L); None for all.

    Returns:
        Dispatch (B, L, E P), which sums to 1 over real tokens, and combine (B, L, E P), which sums to 1 over slots.
        Both are 0 at other tokens.
    """
    logits = F.normalize(x, dim=-1, eps=TINY) @ (scale * F.normalize(slots, dim=-1, eps=TINY)).T
    if mask is None:
        return logits.softmax(1), logits.softmax(-1)
    real = mask.unsqueeze(-1)
    return logits.masked_fill(~real, FAR).softmax(1) * real, logits.softmax(-1) * real
