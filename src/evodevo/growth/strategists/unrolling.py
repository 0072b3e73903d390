"""Truncated meta-gradients (98): the gradient of the loss after a few steps of training by the policy's gates.

The steps are plain SGD: the second derivative of Adam's square root at 0 is not a number. Nothing of the graph outlives
the call, and no ``.grad`` of the network is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from evodevo.growth.strategists.base import Unroll


def unrolled_loss(unroll: Unroll, gates: Mapping[str, Tensor], *, steps: int, rate: float) -> Tensor:
    """L_outer(theta_K, w), theta_{k+1} = theta_k - rate * dL_inner(theta_k, w) / dtheta; still in the graph of w.

    Args:
        unroll: Loss functions of the network.
        gates: Gates w, by name.
        steps: Number of steps, K.
        rate: Learning rate of each step.

    Returns:
        The loss, a scalar.
    """
    gates = dict(gates)
    parameters = {name: parameter.detach().requires_grad_() for name, parameter in unroll.parameters.items()}
    for _ in range(steps):
        loss = unroll.inner_loss(parameters, gates)
        slopes = torch.autograd.grad(loss, list(parameters.values()), create_graph=True, allow_unused=True)
        parameters = {
            name: parameter if slope is None else parameter - rate * slope
            for (name, parameter), slope in zip(parameters.items(), slopes, strict=True)
        }
    return unroll.outer_loss(parameters, gates)


def outer_gradient(
    unroll: Unroll, gates: Mapping[str, Tensor], learnt: Sequence[Tensor], *, steps: int, rate: float
) -> tuple[float, tuple[Tensor | None, ...]]:
    """The unrolled loss and its gradient by the parameters behind the gates (None where one plays no part).

    Args:
        unroll: Loss functions of the network.
        gates: Gates w, in the graph of ``learnt``.
        learnt: Parameters phi of the policy.
        steps: Number of steps, K.
        rate: Learning rate of each step.
    """
    loss = unrolled_loss(unroll, gates, steps=steps, rate=rate)
    if not loss.requires_grad:  # the network reads no gate
        return float(loss), (None,) * len(learnt)
    return float(loss.detach()), torch.autograd.grad(loss, list(learnt), allow_unused=True)
