"""The graph attention router: relevance to the sample, synergy of modules (Architect Thyself 3.4, appendix F).

Numbers in brackets are equations of the paper; docs/spec/architect_thyself.md#router has their interpretation.

Legend: B samples, N modules, H heads, d width, d_h = d / H.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.module_zoo.router.base import ModuleRouter, RouterOutput
from evodevo.module_zoo.router.relations import Relations
from evodevo.module_zoo.spec import ZooRouterStructure
from evodevo.networks.routing.gates import FAR, widened

__all__ = ["GraphAttentionRouter", "RouterOutput", "standardised"]

FIRST_GAMMA = 0.1
LONGEST = math.log(100.0)
"""Bound of the temperature's logarithm: it stays between 1/100 and 100."""
TINY = 1e-6


class GraphAttentionRouter(ModuleRouter):
    """logit^h_m = r^h_m / tau + gamma^h s^h_m + lambda_c C_m, then one gate over modules.

    Source: docs/spec/architect_thyself.md#router.

    r = q . k / sqrt(d_h) (54) measures how well a module fits the sample; S = k . k / sqrt(d_h) (55) how much two
    modules agree; s_m = sum_j softmax_j(S_mj) q_int(S_mj) (56) is the gain of m by the others. As printed s rewards
    modules with
    equal outputs; ``complement`` takes its negative.

    Args:
        width: Width d, a multiple of the heads.
        structure: Structure of the router; see ``ZooRouterStructure``.
    """

    def __init__(self, width: int, structure: ZooRouterStructure) -> None:
        super().__init__(width, structure, structure.heads)
        heads, size = structure.heads, width // structure.heads
        self.size = size
        self.query = nn.Identity() if structure.identity else nn.Linear(width, width, bias=False)
        self.key = nn.Identity() if structure.identity else nn.Linear(width, width, bias=False)
        self.raw_gamma: nn.Parameter | None = None
        self.form: nn.Parameter | None = None
        self.log_temperature: nn.Parameter | None = None
        self.head_mix: nn.Parameter | None = None
        if structure.synergy != "off":
            # The inverse of softplus, so that gamma starts at FIRST_GAMMA.
            self.raw_gamma = nn.Parameter(torch.full((heads,), math.log(math.expm1(FIRST_GAMMA))))
        if structure.synergy == "bilinear":
            self.form = nn.Parameter(torch.eye(size).repeat(heads, 1, 1))
        if structure.temperature == "learned":
            self.log_temperature = nn.Parameter(torch.zeros(()))
        if structure.head_mix == "learned":
            # One number per head and not per module, as modules come and go.
            self.head_mix = nn.Parameter(torch.full((heads,), 1 / heads))

    @property
    def temperature(self) -> Tensor:
        """Temperature tau, a positive scalar. Out of bounds it keeps a gradient, so that it can return."""
        if self.log_temperature is None:
            return torch.ones(())
        free = widened(self.log_temperature)
        return (free.clamp(-LONGEST, LONGEST).detach() + (free - free.detach())).exp()

    @property
    def gamma(self) -> Tensor:
        """Weight of the synergy in each head, gamma^h >= 0, (H,)."""
        assert self.raw_gamma is not None, "a router without synergy has no gamma"
        gamma: Tensor = F.softplus(widened(self.raw_gamma))
        return gamma

    def relate(self, query: Tensor, keys_from: Tensor) -> Relations:
        """r and S (54, 55); see ``ModuleRouter``."""
        keys = self._heads(self.key(self.norm(keys_from))).transpose(1, 2)  # (B or 1, H, N, d_h)
        queries = self._heads(self.query(query)).unsqueeze(-1)  # (B, H, d_h, 1)
        scale = self.size**-0.5
        relevance: Tensor = widened(keys @ queries).squeeze(-1) * scale
        if self.raw_gamma is None:
            return Relations(keys.shape[-2], relevance)
        others = keys if self.form is None else keys @ self.form.to(keys.dtype)
        return Relations(keys.shape[-2], relevance, widened(others @ keys.mT) * scale)

    def _logits(
        self,
        query: Tensor,
        relations: Relations,
        ids: Sequence[str] | None,
        legal: Tensor | None,
        contribution: Tensor | None,
    ) -> Tensor:
        assert relations.relevance is not None, "see relate"
        logits = relations.relevance
        if self.log_temperature is not None:
            logits = logits / self.temperature
        if self.raw_gamma is not None:
            assert relations.agreement is not None, "see relate"
            known = relations.gain if legal is None else None
            gain = self._synergy(relations.agreement, legal) if known is None else known
            logits = logits + self.gamma.unsqueeze(-1) * gain
        if contribution is not None and self.structure.contribution:
            logits = logits + self.structure.contribution * standardised(contribution).to(logits)
        if self.head_mix is not None:
            mixed: Tensor = (logits * self.head_mix.unsqueeze(-1)).sum(1, keepdim=True)
            # One set of logits for all heads.
            logits = mixed.expand_as(logits)
        return logits

    def each_left_out(self, relations: Relations) -> list[Relations]:
        """See ``ModuleRouter``. All synergies come from one product: sums over all modules but each."""
        each = super().each_left_out(relations)
        if relations.agreement is None:
            return each
        # Exponentials are relative to the largest of all, which may be the one that is left out: hence float64.
        agreement = relations.agreement.double()
        gains = _INTERACTIONS[self.structure.synergy_activation](agreement)
        shares = (agreement - agreement.detach().amax(-1, keepdim=True)).exp()
        others = 1 - torch.eye(relations.count, dtype=shares.dtype, device=shares.device)
        if not self.structure.synergy_self:
            shares = shares * others
        total = (shares * gains) @ others / (shares @ others).clamp(min=torch.finfo(shares.dtype).tiny)
        total = (-total if self.structure.synergy == "complement" else total).to(relations.agreement.dtype)
        return [replace(others_left, gain=_but(total[..., place], place)) for place, others_left in enumerate(each)]

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], self.structure.heads, self.size)

    def _synergy(self, agreement: Tensor, legal: Tensor | None) -> Tensor:
        """Synergy s, (B or 1, H, N); 0 for a single module."""
        allowed: Tensor | None = None
        if not self.structure.synergy_self:
            allowed = ~torch.eye(agreement.shape[-1], dtype=torch.bool, device=agreement.device)
        if legal is not None:
            allowed = legal.unsqueeze(-2) if allowed is None else allowed & legal.unsqueeze(-2)
        gains = _INTERACTIONS[self.structure.synergy_activation](agreement)
        total = _softmax_sum(agreement, gains, allowed)
        return -total if self.structure.synergy == "complement" else total


def standardised(contribution: Tensor) -> Tensor:
    """Contributions (N,) with mean 0 and spread 1, without gradient; 0 where not known yet (NaN) (eq. 10)."""
    value = widened(contribution.detach())
    known = value.isfinite()
    value = value.where(known, 0.0)
    count = known.sum().clamp(min=1)
    centred = (value - value.sum() / count).where(known, 0.0)
    # The epsilon is outside the root: equal contributions give 0.
    return centred / ((centred.square().sum() / count).sqrt() + TINY)


def _softmax_sum(logits: Tensor, values: Tensor, legal: Tensor | None) -> Tensor:
    """sum_j softmax_j(logits) values_j over legal j, (..., N) -> (...); 0 where there is none.

    Written out, since PyTorch's softmax takes three times as long on many rows of few numbers.
    """
    if legal is not None:
        logits = logits.masked_fill(~legal, FAR)
    shares = (logits - logits.detach().amax(-1, keepdim=True)).exp()
    if legal is not None:
        shares = shares * legal
    total: Tensor = (shares * values).sum(-1)
    return total / shares.sum(-1).clamp(min=TINY)


def _but(x: Tensor, place: int) -> Tensor:
    """(..., N) -> (..., N - 1), without one of them."""
    return torch.cat([x[..., :place], x[..., place + 1 :]], -1)


def _same(x: Tensor) -> Tensor:
    return x


_INTERACTIONS = {"identity": _same, "relu": torch.relu, "tanh": torch.tanh}
"""q_int of eq. 56."""
