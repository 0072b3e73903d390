"""A mixture of experts in place of a feed-forward part: its experts, its gates, and the losses on its decisions.

Legend: B samples, L positions, T real tokens of the batch, d width, E experts, P slots of an expert, F hidden units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.networks.mixtures import routing
from evodevo.networks.mixtures.spec import EXPERTS_PER_TOKEN, MixtureSizes
from evodevo.networks.routing.losses import z_loss
from evodevo.operators.base import full_precision
from evodevo.operators.feed_forward import ACTIVATIONS


class Experts(nn.Module):
    """E feed-forward networks, their weights in one tensor each.

    Attributes:
        inner: First map, (E, F, d), with ``inner_bias`` (E, F).
        outer: Second map, (E, d, F), with ``outer_bias`` (E, d).
    """

    def __init__(self, structure: MixtureSizes) -> None:
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


@dataclass(frozen=True)
class ExpertDecision:
    """What a mixture decided for T tokens, for the losses on it.

    Attributes:
        logits: Logits of the gates, (T, E); none of ``dyn_moe``, whose losses read the gates alone.
        probabilities: Their full softmax, (T, E).
        experts: Chosen experts before capacity, first choices of all tokens before second ones, (R,).
    """

    logits: Tensor
    probabilities: Tensor
    experts: Tensor


class Mixture(nn.Module):
    """The mixture in place of a feed-forward part, (B, L, d) -> (B, L, d). Padding is not routed and takes no capacity.

    Args:
        structure: Sizes of the mixture.
        routers: Number of its routers, of styles with a fixed number of experts of a token; each call names one.

    Attributes:
        gates: Gate vectors compared with tokens, (E, d), of several routers one after the other, or (E P, d) for soft
            slots.
        thresholds: Thresholds of ``dyn_moe``, (E,); None for others.
        scale: Scale of the slots of ``soft_moe``, a scalar; None for others.
    """

    def __init__(self, structure: MixtureSizes, routers: int = 1) -> None:
        super().__init__()
        self.structure = structure
        rows = routers * structure.experts * (structure.slots if structure.style == "soft_moe" else 1)
        self.experts = Experts(structure)
        self.gates = nn.Parameter(torch.randn(rows, structure.width) * structure.width**-0.5)
        self.thresholds = nn.Parameter(torch.zeros(structure.experts)) if structure.style == "dyn_moe" else None
        self.scale = nn.Parameter(torch.ones(())) if structure.style == "soft_moe" else None

    def forward(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, dict[str, Tensor]]:
        """Outputs, and in training the losses on the decision by name, weights included."""
        y, decision = self.decide(x, mask)
        return y, {} if decision is None else self.losses([decision])

    def decide(self, x: Tensor, mask: Tensor | None, router: int = 0) -> tuple[Tensor, ExpertDecision | None]:
        """Outputs, and in training the decision that there are losses on; None for slots and in evaluation."""
        if self.scale is not None:
            return self._soft(x, mask, self.scale), None
        flat = x.flatten(0, 1)
        if mask is None:
            y, decision = self._route(flat, router)
            return y.view_as(x), decision
        places = mask.flatten().nonzero().squeeze(-1)
        y, decision = self._route(flat[places], router)
        return torch.zeros_like(flat, dtype=y.dtype).index_copy(0, places, y).view_as(x), decision

    def losses(self, decisions: Sequence[ExpertDecision]) -> dict[str, Tensor]:
        """Losses by name on all decisions of this mixture together, weights included."""
        structure = self.structure
        with full_precision(self.gates.device):
            if self.thresholds is not None:
                gates = _precise(self.gates)
                spread = routing.diversity_loss(gates) + routing.simplicity_loss(gates)
                return {"balance": structure.balance * spread}
            probabilities = torch.cat([decision.probabilities for decision in decisions])
            experts = torch.cat([decision.experts for decision in decisions])
            terms = {"balance": structure.balance * routing.balance_loss(probabilities, experts)}
            logits = torch.cat([decision.logits for decision in decisions])
            if structure.z and len(logits):
                terms["z"] = structure.z * z_loss(logits)
        return terms

    def _route(self, x: Tensor, router: int) -> tuple[Tensor, ExpertDecision | None]:
        """Outputs and decision for real tokens (T, d)."""
        structure = self.structure
        with full_precision(x.device):
            own = self.gates[router * structure.experts : (router + 1) * structure.experts]
            precise, gates = _precise(x), _precise(own)
            if self.thresholds is not None:
                routes = routing.top_any(precise, gates, self.thresholds)
                logits = probabilities = precise.new_zeros(0, structure.experts)
            else:
                logits = precise @ gates.T
                routes, probabilities = routing.top_k(logits, EXPERTS_PER_TOKEN[structure.style])
            decision = ExpertDecision(logits, probabilities, routes.experts) if self.training else None
            if self.training and self.thresholds is None and structure.capacity is not None:
                # While training only: in evaluation no token is dropped.
                routes = routing.within_capacity(routes, structure.experts, structure.capacity)
        return self.experts(x, routes), decision

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


def _uniform(count: int, rows: int, columns: int, *, bound: float) -> tuple[nn.Parameter, nn.Parameter]:
    """Weights (count, rows, columns) and biases (count, rows), drawn as ``nn.Linear`` draws those of one layer."""
    weight, bias = torch.empty(count, rows, columns), torch.empty(count, rows)
    return nn.Parameter(weight.uniform_(-bound, bound)), nn.Parameter(bias.uniform_(-bound, bound))


def _precise(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
