"""Gates: weights of modules from their logits (Architect Thyself eqs. 58, 61; docs/spec/architect_thyself.md#gates).

Legend: ... any leading axes, N modules. Logits are (..., N); legal broadcasts to them, false at modules that must not
count. Everything is computed in float32 at least.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evodevo.module_zoo.spec import Gate
from evodevo.networks.routing.gates import FAR, of_finite, sparsemax, widened

SIMPLEX: frozenset[Gate] = frozenset({"softmax", "sparsemax", "entmax15", "entmax", "gumbel"})
"""Gates whose weights sum to 1 wherever a module is legal."""
LEAST_SUM = 1e-6
"""Smallest divisor of weights: rows with hardly any weight stay weak, and so do their gradients."""
LEAST_ALPHA, MOST_ALPHA = 1.01, 2.0
"""Bounds of the learned alpha of ``entmax``: almost softmax, and sparsemax."""
FIRST_ALPHA = 1.5


class ModuleGate(nn.Module):
    """Gate with weights >= 0 over modules.

    Args:
        kind: ``softmax``, ``sparsemax``, ``entmax15`` (alpha 1.5, exact), ``entmax`` (alpha = 1 + softplus, learned, by
            bisection), all on logits; ``relu`` divided by its sum; ``gumbel`` a softmax with Gumbel noise from the
            global stream while training.
    """

    def __init__(self, kind: Gate) -> None:
        super().__init__()
        self.kind = kind
        self.raw_alpha: nn.Parameter | None = None
        if kind == "entmax":
            self.raw_alpha = nn.Parameter(torch.tensor(math.log(math.expm1(FIRST_ALPHA - 1))))

    def forward(self, logits: Tensor, legal: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        """Weights (..., N), exactly 0 where illegal; rows without any legal module are all 0, with gradients of 0.

        ``noise`` (..., N) replaces the noise that ``gumbel`` would draw.
        """
        logits = widened(logits)
        if legal is not None:
            logits = logits.masked_fill(~legal, FAR)
        weights = self._weights(logits, noise)
        # A row of illegal modules alone has a softmax too; it must not count.
        return weights if legal is None else weights * legal

    @property
    def alpha(self) -> Tensor:
        """Alpha of ``entmax``, a scalar. Out of bounds it keeps a gradient, so that it can return."""
        assert self.raw_alpha is not None, "only entmax has an alpha"
        free = 1 + F.softplus(widened(self.raw_alpha))
        # Straight through the bounds: clamped alone, the gradient would be 0 beyond them.
        return free + (free.clamp(LEAST_ALPHA, MOST_ALPHA) - free).detach()

    def _weights(self, logits: Tensor, noise: Tensor | None) -> Tensor:
        if self.kind == "sparsemax":
            return sparsemax(logits)
        if self.kind == "entmax15":
            return _entmax15(logits)
        if self.kind == "entmax":
            return _entmax(logits, self.alpha)
        if self.kind == "relu":
            open_ = logits.relu()
            # Where no logit is above 0, weights are 0 instead of 0 / 0.
            return open_ / open_.sum(-1, keepdim=True).clamp(min=LEAST_SUM)
        if self.kind == "gumbel" and self.training:
            logits = logits + (gumbel_noise(logits) if noise is None else noise)
        return logits.softmax(-1)


def gumbel_noise(like: Tensor) -> Tensor:
    """Standard Gumbel noise of this shape, from the global stream."""
    return -torch.empty_like(like).exponential_().clamp(min=torch.finfo(like.dtype).tiny).log()


def _entmax15(logits: Tensor) -> Tensor:
    from entmax import entmax15

    return of_finite(lambda x: entmax15(x, dim=-1), _near(logits, 2.0))


def _entmax(logits: Tensor, alpha: Tensor) -> Tensor:
    from entmax import entmax_bisect

    rounds = 24 if logits.dtype == torch.float32 else 53  # one bit each
    near = _near(logits, 1 / (alpha.detach() - 1))
    return of_finite(lambda x: entmax_bisect(x, alpha, dim=-1, n_iter=rounds), near)


def _near(logits: Tensor, support: float | Tensor) -> Tensor:
    """Logits relative to the largest: those ``support`` below it have weight 0, and are cut off a little lower."""
    return torch.maximum(logits - logits.detach().amax(-1, keepdim=True), torch.as_tensor(-support - 1.0).to(logits))
