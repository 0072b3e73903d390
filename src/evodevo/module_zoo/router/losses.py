"""Losses on the decisions of a router over modules, each a scalar >= 0 (eqs. 62 to 64, 85 to 87).

Source: docs/spec/architect_thyself.md#losses.

Losses on logits read the full distribution, before the gate: where a sparse gate gives a module no weight, it gives
no gradient either, and the module could never come back. The z-loss is ``losses.z_loss``.

Legend: B samples, H heads, N modules, d width. Logits are (B, H, N), weights (B, N), legal (B, N); samples without any
legal module do not count. Computed in float32 at least.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from evodevo.module_zoo.router.base import RouterOutput
from evodevo.networks.routing.gates import FAR, widened

TINY = 1e-12
SHORTEST = 1e-6


def load(logits: Tensor, legal: Tensor | None = None) -> Tensor:
    """Squared distance of the batch's mean softmax from even shares, summed over modules (eq. 63).

    The softmax is of the logits, and the mean that of the current batch and of all heads. 0 where modules are used
    equally often, however sharply single samples choose.
    """
    shares = _softmax(logits, legal).mean(1)
    if legal is None:
        return (shares.mean(0) - 1 / logits.shape[-1]).square().sum()
    even = legal / legal.sum(-1, keepdim=True).clamp(min=1)
    counted = legal.any(-1).sum().clamp(min=1)
    return ((shares - even).sum(0) / counted).square().sum()


def entropy(logits: Tensor, legal: Tensor | None = None) -> Tensor:
    """Mean entropy, in nats, of the softmax of each head's logits (eqs. 62, 85). To explore, subtract it."""
    shares = _softmax(logits, legal)
    each = -(shares * shares.clamp(min=TINY).log()).sum(-1)
    if legal is None:
        return each.mean()
    return each.mean(1).sum() / legal.any(-1).sum().clamp(min=1)


def effective_modules(weights: Tensor) -> Tensor:
    """Effective number of modules n_eff = sum(alpha)^2 / sum(alpha^2), (B,): N for equal weights, 1 for one."""
    weights = widened(weights)
    return weights.sum(-1).square() / weights.square().sum(-1).clamp(min=TINY)


def budget(weights: Tensor, k: int) -> Tensor:
    """((n_eff - K) / N)^2, mean over samples (eq. 64).

    The printed count of weights above 0 has no gradient, and their sum is always 1. K is at most N.
    """
    count = weights.shape[-1]
    excess = (effective_modules(weights) - min(k, count)) / count
    routed = weights.detach().sum(-1) > 0
    return (excess.square() * routed).sum() / routed.sum().clamp(min=1)


def orthogonality(outputs: Tensor, *, per_sample: bool) -> Tensor:
    """Squared cosine between the outputs of two modules, mean over pairs (eq. 86); 0 for a single module.

    Args:
        outputs: Module outputs u, (B, N, d), of modules that ran on every sample, as they do in training.
        per_sample: Whether the squared cosine is averaged over samples; otherwise that of batch means, as printed,
            which misses that modules which agree in one half of the samples and oppose in the other are the same.
    """
    count = outputs.shape[1]
    if count < 2:
        return outputs.new_zeros(())
    outputs = widened(outputs)
    if not per_sample:
        outputs = outputs.mean(0, keepdim=True)
    directions = F.normalize(outputs, dim=-1, eps=SHORTEST)
    overlap = (directions @ directions.mT).square()
    return overlap.triu(1).sum() / (overlap.shape[0] * count * (count - 1) / 2)


def complexity(weights: Tensor, parameters: Tensor) -> Tensor:
    """Parameters of the modules that are in use, as a share of the pool's (eq. 87).

    A module counts by g = min(1, beta / (2 / N)), beta its mean weight in this batch: with a stored mean, or a smaller
    bound that all modules exceed, there would be no gradient.

    Args:
        weights: Router weights, (B, N).
        parameters: Number of parameters of each module, (N,).
    """
    weights = widened(weights)
    used = (weights.mean(0) * weights.shape[-1] / 2).clamp(0, 1)
    share = parameters.to(used) / parameters.to(used).sum().clamp(min=1)
    return (share * used).sum()


def predictor_loss(predicted: Tensor, decision: RouterOutput) -> Tensor:
    """KL(alpha || softmax(predicted)), mean over samples; alpha is a target, without gradient.

    Args:
        predicted: Logits of the predictor, (B, N).
        decision: Decision of the router to predict. Samples without any weight are left out.
    """
    target = decision.weights.detach()
    routed = ~decision.unrouted
    # Weights of a relu gate may sum to less than 1.
    target = target / target.sum(-1, keepdim=True).clamp(min=TINY)
    log_predicted = widened(predicted).masked_fill(~decision.legal, FAR).log_softmax(-1)
    distance = (torch.special.xlogy(target, target) - target * log_predicted).sum(-1)
    total: Tensor = (distance * routed).sum()
    return total / routed.sum().clamp(min=1)


def _softmax(logits: Tensor, legal: Tensor | None) -> Tensor:
    """Softmax (B, H, N); rows without any legal module are 0."""
    logits = widened(logits)
    if legal is None:
        return logits.softmax(-1)
    legal = legal.unsqueeze(1)
    return logits.masked_fill(~legal, FAR).softmax(-1) * legal
