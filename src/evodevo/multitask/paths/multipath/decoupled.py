"""Paths weighed forward and not backward: backprop-decoupled routing (µ4Net eqs. 6-10).

Source: docs/spec/munet.md#decoupled-gradients.

A router that starts with the main path would give the others almost no gradient, and so never find a reason to choose
them. Here the modules learn as if all weights were 1, while the router learns as usual.

Legend: B samples, P paths, C numbers of each. Representations are (B, P, C), weights (B, P).
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.networks.routing.gates import widened

Aggregation = Literal["decoupled", "standard", "sum", "ema"]


def weighted_sum(representations: Tensor, weights: Tensor) -> Tensor:
    """a = sum over paths of w_p r_p, (B, C) in the representations' type (equation 6).

    Products and sums are in float32 at least: one rounding, at the end.
    """
    return (widened(weights).unsqueeze(-1) * widened(representations)).sum(1).to(representations.dtype)


class _Decoupled(torch.autograd.Function):
    """Equation 9 without its two terms that cancel on paper and not in bfloat16."""

    @staticmethod
    def forward(representations: Tensor, weights: Tensor, coefficients: Tensor | None) -> Tensor:
        return weighted_sum(representations, weights)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
        representations, weights, coefficients = inputs
        ctx.weights_type = weights.dtype
        ctx.save_for_backward(representations, coefficients)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (gradient,) = gradients
        representations, coefficients = ctx.saved_tensors
        to_representations = to_weights = None
        if ctx.needs_input_grad[0]:
            to_representations = gradient.unsqueeze(1).expand_as(representations)
            if coefficients is not None:
                to_representations = (to_representations * coefficients.unsqueeze(-1)).to(representations.dtype)
        if ctx.needs_input_grad[1]:
            products = widened(gradient).unsqueeze(1) * widened(representations)
            to_weights = products.sum(-1).to(ctx.weights_type)
        return to_representations, to_weights, None


def decoupled_sum(representations: Tensor, weights: Tensor, coefficients: Tensor | None = None) -> Tensor:
    """The weighted sum forward; backward each path gets the sum's own gradient.

    dL/dr_p = c_p dL/da with c_p = 1 where no coefficients are given, and dL/dw_p = <dL/da, r_p>. Finite differences
    differ from that by design.

    Args:
        representations: (B, P, C).
        weights: (B, P).
        coefficients: c, (B, P), taken as constants.
    """
    given = None if coefficients is None else coefficients.detach()
    total: Tensor = _Decoupled.apply(representations, weights, given)  # type: ignore[no-untyped-call]
    return total


def aggregated(
    representations: Tensor, weights: Tensor, aggregation: Aggregation, average: Tensor | None = None
) -> Tensor:
    """The common answer of the paths, (B, C).

    Args:
        representations: (B, P, C).
        weights: (B, P); ``sum`` does not read them.
        aggregation: ``decoupled``, ``standard`` (gradients are weighed, too), ``sum`` (of unweighed paths), or ``ema``.
        average: moving average of each path's weight, (P,), for ``ema``: c_p = w_p / EMA(w_p) (equation 10).

    Raises:
        UsageError: ``ema`` without an average.
    """
    if aggregation == "sum":
        return representations.sum(1)
    if aggregation == "standard" or not torch.is_grad_enabled():
        return weighted_sum(representations, weights)
    if aggregation == "decoupled":
        return decoupled_sum(representations, weights)
    if average is None:
        raise UsageError("the aggregation 'ema' needs the moving average of the weights.")
    return decoupled_sum(representations, weights, ema_coefficients(weights, average))


def ema_coefficients(weights: Tensor, average: Tensor) -> Tensor:
    """c_p = w_p / EMA(w_p), (B, P), without gradient; about 1 in the mean, however small a weight has become."""
    # A path that every sample has given up would be 0 / 0; so it gets no gradient, as its weight is 0.
    return weights.detach() / average.to(weights.dtype).clamp(min=torch.finfo(weights.dtype).tiny)


@torch.no_grad()
def update_average(average: Tensor, weights: Tensor, decay: float) -> None:
    """EMA <- decay EMA + (1 - decay) mean over the batch, in place; ``average`` is (P,)."""
    average.lerp_(weights.detach().mean(0).to(average.dtype), 1 - decay)
