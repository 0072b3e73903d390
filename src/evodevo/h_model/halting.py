"""Halting of the H-Model: after how many iterations a sample stops (docs/spec/h_model.md#halting).

A halting unit gives p_t in (0, 1) after each iteration t = 1..T. The share of halting at t is p_t prod_{s<t} (1 - p_s);
what is left after T belongs to T. Legend: B samples, P decisions per sample (1, or one per position in causal models).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evodevo.networks.routing.pools import masked_mean

HALTING_BIAS = -1.0


class HaltingUnit(nn.Module):
    """y (B, O, S, d) -> p (B, P): the probability of halting now."""

    def __init__(self, width: int, *, per_position: bool) -> None:
        super().__init__()
        self.per_position = per_position
        self.linear = nn.Linear(width, 1)
        with torch.no_grad():
            self.linear.weight.zero_()
            self.linear.bias.fill_(HALTING_BIAS)

    def forward(self, y: Tensor, masks: Tensor | None) -> Tensor:
        """Probabilities (B, P); ``masks`` is (B, O, S) or None."""
        if self.per_position:
            pooled = y.mean(1)
        else:
            pooled = masked_mean(y, masks).mean(1, keepdim=True)
        logits: Tensor = self.linear(pooled).squeeze(-1)
        return torch.sigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32)))


def shares(chances: list[Tensor]) -> Tensor:
    """p_1..p_T, each (B, P), as the distribution over halting steps (B, P, T); it sums to one."""
    left = torch.ones_like(chances[0])
    halting_shares = []
    for chance in chances[:-1]:
        halting_shares.append(left * chance)
        left = left * (1 - chance)
    halting_shares.append(left)
    return torch.stack(halting_shares, -1)


def act_weights(chances: list[Tensor], threshold: float) -> tuple[Tensor, Tensor]:
    """Adaptive computation time (Graves 2016): weights of the states, and the ponder cost N + remainder.

    The sum of p reaches ``threshold`` at step N (or N = T); steps before N have weight p_t, N the remainder, later ones
    0.

    Returns:
        Weights (B, P, T), which sum to one, and cost (B, P) in steps.
    """
    total = torch.stack(chances, -1)
    before = total.cumsum(-1) - total
    reached = total.cumsum(-1) >= threshold
    # The last step takes all that is left, or the weights would not sum to one.
    reached[..., -1] = True
    last = reached & (reached.cumsum(-1) == 1)
    running = ~reached
    remainder = 1 - before
    weights = torch.where(last, remainder, total * running)
    step = torch.arange(1, total.shape[-1] + 1, device=total.device, dtype=total.dtype)
    cost = (last * (step + remainder)).sum(-1)
    return weights, cost


def geometric_prior(prior: float, steps: int, like: Tensor) -> Tensor:
    """The truncated geometric distribution (steps,) to which PonderNet (Banino et al. 2021) is regularised."""
    t = torch.arange(steps, device=like.device, dtype=like.dtype)
    weights = prior * (1 - prior) ** t
    # All that is left, so that the prior sums to one.
    weights[-1] = (1 - prior) ** (steps - 1)
    return weights


def divergence(distribution: Tensor, prior: Tensor) -> Tensor:
    """KL(distribution || prior) over the last axis, mean over the others, in nats."""
    # xlogy, since a step of probability 0 counts 0 and not NaN.
    ratio = torch.xlogy(distribution, distribution) - distribution * prior.log()
    return ratio.sum(-1).mean()
